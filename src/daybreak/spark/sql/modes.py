"""What the modes of queries ask of their streams."""

from __future__ import annotations

from collections.abc import Mapping

from daybreak.model.errors import ConfigError
from daybreak.model.specs import StreamSpec
from daybreak.spark.sql.check import CheckedQuery


def refuse_unretained(checked: CheckedQuery, streams: Mapping[str, StreamSpec], place: str) -> None:
    """``ConfigError`` if a query in complete mode reads a stream that retains nothing."""
    if not checked.is_whole:
        return
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
