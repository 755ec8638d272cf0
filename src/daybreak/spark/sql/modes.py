"""What the modes of queries ask of their streams."""

from __future__ import annotations

from collections.abc import Mapping

from daybreak.model.errors import ConfigError
from daybreak.model.specs import QuerySpec, StreamSpec
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.forms import OverState


def watermarks_of(streams: Mapping[str, StreamSpec]) -> dict[str, tuple[str, str]]:
    """The column with the event time, and how late rows may be, of streams that declare both."""
    return {
        name: (spec.time, spec.watermark)
        for name, spec in streams.items()
        if spec.time is not None and spec.watermark is not None
    }


def check_mode(checked: CheckedQuery, spec: QuerySpec, streams: Mapping[str, StreamSpec]) -> None:
    """``ConfigError`` if a query declares what does not go with its mode."""
    if isinstance(checked.form, OverState) and spec.on_full == "skip":
        raise ConfigError(
            spec.place,
            'on_full = "skip", but the state of a query would lack the rows that it skips',
            "leave on_full out: sources wait for it when the log is full",
        )
    if checked.is_whole:
        _refuse_unretained(checked, streams, spec.place)


def _refuse_unretained(
    checked: CheckedQuery, streams: Mapping[str, StreamSpec], place: str
) -> None:
    """A query in complete mode needs streams that retain something."""
    for name in checked.reads:
        spec = streams[name]
        if spec.retain is None:
            remedy = (
                'read its streams in place of the view, and give them retain = "1 hour" or so'
                if spec.format == "view"
                else f'give [streams.{name}] retain, such as "1 hour": the result is that of one '
                "batch over what is retained"
            )
            raise ConfigError(
                place, f"is in complete mode, and stream {name!r} retains no rows", remedy
            )
