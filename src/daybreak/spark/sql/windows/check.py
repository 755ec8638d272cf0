"""What a plan's windows ask of its streams, said before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.specs import StreamSpec, ViewSpec
from daybreak.spark.log.event_time import Band, Grid, Windowing, duration_text, duration_us
from daybreak.spark.sql.allowlist import Refused, Shape


def event_times(
    streams: Mapping[str, StreamSpec], schemas: Mapping[str, StructType]
) -> dict[str, str]:
    """The time column of each stream that declares one; checks what was declared with it."""
    found: dict[str, str] = {}
    for name, spec in streams.items():
        place = f"stream {name!r}"
        for key in ("watermark", "idle_timeout", "retain"):
            text = getattr(spec, key)
            if text is not None:
                duration_us(text, place, key)
            if text is not None and spec.time is None and key != "retain":
                raise ConfigError(place, f"has {key} without a time", 'add time = "COLUMN"')
        if spec.time is None:
            continue
        if spec.time not in schemas[name].names:
            raise ConfigError(
                place,
                f"time = {spec.time!r} is not one of its columns",
                suggestion(spec.time, schemas[name].names),
            )
        kind = schemas[name][spec.time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise ConfigError(
                place,
                f"time = {spec.time!r} is of type {kind.simpleString()}",
                "make it a TIMESTAMP in the schema",
            )
        found[name] = spec.time
    return found


def windowing_of(
    shape: Shape, columns: Sequence[str], times: Mapping[str, str]
) -> Windowing | None:
    """The windows of a checked plan; None where its rows stand alone."""
    if shape.over is None:
        return None
    for stream in sorted(shape.reads):
        if stream not in times:
            raise Refused(
                f"has windows over stream {stream!r}, which declares no event time",
                f'add time = "COLUMN" to [streams.{stream}]',
            )
    marks = {columns[at]: kind for at, kind in shape.marks.items()}
    if isinstance(shape.over, Grid) and shape.over.overlaps and not marks:
        raise Refused(
            "has windows that overlap, but its result does not tell them apart",
            "select the window too, such as window.end",
        )
    mine = {stream: times[stream] for stream in shape.reads}
    return Windowing(shape.over, mine, marks)


def refuse_long(windowing: Windowing, place: str, most_us: int) -> None:
    """What a window needs grows with its length; beyond ``max_window`` somebody has to say so."""
    over = windowing.over
    if isinstance(over, Band):
        length, kept = over.high_us - over.low_us, "all rows of that stretch"
    elif windowing.pane_us is not None:
        length = over.length_us
        panes = length // windowing.pane_us
        kept = f"{panes:,} panes of {duration_text(windowing.pane_us)} for each key"
    else:
        length, times = over.length_us, over.length_us // over.slide_us
        often = f" and reads each {times:,} times" if times > 1 else ""
        kept = f"all rows of that stretch{often}"
    if length > most_us:
        raise ConfigError(
            place,
            f"has a window of {duration_text(length)}, so the log keeps {kept}; max_window is "
            f"{duration_text(most_us)}",
            f'shorten the window, or allow it: max_window = "{duration_text(length)}" in [app]',
        )


def check_view_time(view: ViewSpec, windowing: Windowing | None) -> None:
    """A view's time must be the start or the end of its windows: then nothing in it is late."""
    if view.time is None:
        return
    ends = {} if windowing is None else windowing.marks
    if ends.get(view.time) not in ("start", "end"):
        usable = sorted(name for name, kind in ends.items() if kind != "window")
        raise ConfigError(
            view.place,
            f"time = {view.time!r} is not the start or the end of its windows",
            f"choose from {', '.join(usable)}" if usable else "leave it out, or add window.end",
        )
