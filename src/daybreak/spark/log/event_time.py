"""The arithmetic of windows, watermarks and lateness, over the log alone.

All instants are microseconds since 1970. The *watermark* of a stream after a segment is the
largest event time in it and before it, minus the declared delay. A window closes when every
stream of its query has a watermark at or beyond the window's end. A row is late for a window if
the watermark of its own stream *before its segment* had reached the window's end: which segments
came before is a matter of the log, not of what ran when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import DataType, TimestampNTZType

from daybreak.engine.window_inbox import FOREVER, NEVER, BandClosing, Closing, GridClosing
from daybreak.model.durations import US_PER_S, duration_text, duration_us

__all__ = [
    "ANCHORS",
    "FOREVER",
    "NEVER",
    "US_PER_S",
    "Band",
    "Grid",
    "Instants",
    "Times",
    "Windowing",
    "duration_text",
    "duration_us",
    "following",
]

Instants = NDArray[np.int64]
#: Event times of rows in memory, or of rows that Spark reads.
At = TypeVar("At", Instants, "Times")

#: Begins the name of the view of the anchors of a stream that is joined with itself by a band.
#: No declared name has a control character.
ANCHORS = "\x1fanchors of "


def following(at_us: At, offset_us: int, step_us: int, more_us: int = 0) -> At:
    """The first of ``offset + k x step`` after each instant, plus ``more``; FOREVER if later."""
    passed = (at_us % step_us - offset_us % step_us) % step_us
    if isinstance(at_us, Times):
        return at_us.ahead(step_us + more_us, passed)
    ahead = step_us + more_us - passed
    return np.where(at_us > FOREVER - ahead, FOREVER, at_us + ahead)


@dataclass(frozen=True)
class Times:
    """Event times of rows that Spark reads, with the arithmetic that numpy does in memory.

    So the rules of windows are written once, and evaluated where the rows are.
    """

    #: Microseconds since 1970; null where a row has no event time.
    us: Column
    #: The column itself, if Spark can compare it with what files state of themselves.
    stamp: Column | None = None

    @classmethod
    def of(cls, at: Column, kind: DataType) -> Times:
        """The times of a column; of one without a time zone, as if it were UTC."""
        if not isinstance(kind, TimestampNTZType):
            return cls(F.unix_micros(at), at)
        days = F.datediff(at.cast("date"), F.lit("1970-01-01").cast("date")).cast("long")
        seconds = (F.date_part(F.lit("SECOND"), at) * 1_000_000).cast("long")
        hours = days * 24 + F.hour(at)
        return cls((hours * 60 + F.minute(at)) * 60_000_000 + seconds)

    def ahead(self, us: int, less: Times) -> Times:
        """So much later, less what ``less`` has; FOREVER where that is beyond it."""
        step = F.lit(us).cast("long") - less.us
        later = self.us > F.lit(FOREVER).cast("long") - step
        return Times(F.when(later, F.lit(FOREVER).cast("long")).otherwise(self.us + step))

    def __sub__(self, other: Times | int) -> Times:
        return Times(self.us - (other.us if isinstance(other, Times) else other))

    def __mod__(self, step_us: int) -> Times:
        return Times(F.pmod(self.us, F.lit(step_us).cast("long")))

    def __ge__(self, us: int) -> Column:
        if us <= NEVER:
            return self.us.isNotNull()
        return self.us >= us if self.stamp is None else self.stamp >= _stamp(us)

    def __lt__(self, us: int) -> Column:
        if us > FOREVER:
            return self.us.isNotNull()
        return self.us < us if self.stamp is None else self.stamp < _stamp(us)

    def __gt__(self, us: int) -> Column:
        return self.us > us

    def __le__(self, us: int) -> Column:
        return self.us <= us


def _stamp(us: int) -> Column:
    return F.timestamp_micros(F.lit(us).cast("long"))


@dataclass(frozen=True)
class Grid:
    """Windows ``[start, start + length)`` with ``start = offset + k x slide``."""

    length_us: int
    slide_us: int
    offset_us: int = 0

    @property
    def overlaps(self) -> bool:
        return self.slide_us < self.length_us

    def last_closed(self, at_us: int) -> int:
        """The last end of a window at or before an instant; at FOREVER all windows are closed."""
        if at_us >= FOREVER:
            return FOREVER
        return max(NEVER, at_us - (at_us - self.offset_us - self.length_us) % self.slide_us)

    def first_end(self, at_us: At) -> At:
        """The end of the earliest window that holds each instant; FOREVER if it is later."""
        return following(at_us, self.offset_us + self.length_us, self.slide_us)

    def last_end(self, at_us: At) -> At:
        """The end of the latest window that holds each instant; FOREVER if it is later."""
        return following(at_us, self.offset_us, self.slide_us, self.length_us - self.slide_us)

    def begin(self, closed_us: int) -> int:
        """The earliest instant that a window ending after ``closed_us`` can hold."""
        if closed_us >= FOREVER:
            return FOREVER
        return max(NEVER, self.last_closed(closed_us) + self.slide_us - self.length_us)

    def holds(self, at_us: Instants) -> bool:
        """Whether the windows of all instants begin and end at instants that a TIMESTAMP holds."""
        if not len(at_us):
            return True
        low, high = int(at_us.min()), int(at_us.max())
        first = low - (low - self.offset_us - self.length_us) % self.slide_us + self.slide_us
        last = high - (high - self.offset_us) % self.slide_us + self.length_us
        return first - self.length_us >= NEVER and last <= FOREVER

    def __str__(self) -> str:
        shown = duration_text(self.length_us)
        return f"{shown} by {duration_text(self.slide_us)}" if self.overlaps else shown


@dataclass(frozen=True)
class Band:
    """A join of rows whose times differ by ``low_us`` to ``high_us``: partner minus anchor.

    An anchor's partners are complete once the partner's watermark is past ``anchor + high_us``;
    then it is emitted with all of them, once.
    """

    anchor: str
    partner: str
    low_us: int
    high_us: int
    #: Whether the anchor is the right side of the join.
    on_right: bool = False

    def __str__(self) -> str:
        low, high = (f"{us / US_PER_S:+g} s" for us in (self.low_us, self.high_us))
        return f"{low} to {high}"


@dataclass(frozen=True)
class Windowing:
    """How a query's windows lie in time: on a grid, or one band around each anchor row."""

    over: Grid | Band
    #: Time column of each stream it reads.
    times: Mapping[str, str]
    #: Result columns that tell a row's window, and what each holds: window, start or end.
    marks: Mapping[str, str] = field(default_factory=dict)
    #: Length of the panes it is computed from; None: from rows.
    pane_us: int | None = None

    @property
    def closing(self) -> Closing:
        """When its windows close, by the watermarks of its streams."""
        streams = tuple(self.times)
        if isinstance(self.over, Band):
            return BandClosing(streams, self.over.anchor, self.over.partner, self.over.high_us)
        grid = self.over
        return GridClosing(streams, grid.length_us, grid.slide_us, grid.offset_us, self.pane_us)

    def bound(self, watermarks: Mapping[str, int]) -> int:
        """Up to where its windows are closed when its streams are at these watermarks."""
        return self.closing.bound(watermarks)

    def needed_from(self, stream: str, closed_us: int) -> int:
        """The earliest event time of a stream that windows after ``closed_us`` may hold."""
        if isinstance(self.over, Grid):
            return self.over.begin(closed_us)
        as_anchor = closed_us if stream == self.over.anchor else closed_us + self.over.low_us
        as_partner = closed_us + self.over.low_us if stream == self.over.partner else as_anchor
        return min(as_anchor, as_partner)

    def late(self, at_us: At, before_us: int) -> Any:
        """Rows of a segment that miss a window, given the watermark before the segment.

        An array of booleans, or a column of Spark's.
        """
        if isinstance(self.over, Band):
            return at_us < before_us
        return self.over.first_end(at_us) <= before_us

    @property
    def reach_us(self) -> int:
        """How far beyond its last row a stream must be for all windows to be closed."""
        if isinstance(self.over, Band):
            return max(0, self.over.high_us) + 1
        return self.over.length_us
