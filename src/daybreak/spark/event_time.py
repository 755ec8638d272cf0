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

import numpy as np
from numpy.typing import NDArray

from daybreak.model.durations import US_PER_S, duration_text, duration_us

__all__ = [
    "ANCHORS",
    "NEVER",
    "US_PER_S",
    "Band",
    "Grid",
    "Instants",
    "Windowing",
    "duration_text",
    "duration_us",
]

Instants = NDArray[np.int64]

#: Before any event, and small enough that adding a window does not overflow.
NEVER = -(2**62)
#: Begins the name of the view of the anchors of a stream that is joined with itself by a band.
#: No declared name has a control character.
ANCHORS = "\x1fanchors of "


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
        """The last end of a window at or before an instant."""
        return at_us - (at_us - self.offset_us - self.length_us) % self.slide_us

    def first_end(self, at_us: Instants) -> Instants:
        """The end of the earliest window that holds each instant."""
        return at_us - (at_us - self.offset_us - self.length_us) % self.slide_us + self.slide_us

    def last_end(self, at_us: Instants) -> Instants:
        """The end of the latest window that holds each instant."""
        return at_us - (at_us - self.offset_us) % self.slide_us + self.length_us

    def begin(self, closed_us: int) -> int:
        """The earliest instant that a window ending after ``closed_us`` can hold."""
        return self.last_closed(closed_us) + self.slide_us - self.length_us

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

    def bound(self, watermarks: Mapping[str, int]) -> int:
        """Up to where its windows are closed when its streams are at these watermarks."""
        if isinstance(self.over, Band):
            partner = watermarks[self.over.partner] - self.over.high_us
            return min(watermarks[self.over.anchor], partner)
        reached = min(watermarks[stream] for stream in self.times)
        if self.pane_us is not None:
            return reached - (reached - self.over.offset_us) % self.pane_us
        return self.over.last_closed(reached)

    def needed_from(self, stream: str, closed_us: int) -> int:
        """The earliest event time of a stream that windows after ``closed_us`` may hold."""
        if isinstance(self.over, Grid):
            return self.over.begin(closed_us)
        as_anchor = closed_us if stream == self.over.anchor else closed_us + self.over.low_us
        as_partner = closed_us + self.over.low_us if stream == self.over.partner else as_anchor
        return min(as_anchor, as_partner)

    def late(self, at_us: Instants, before_us: int) -> NDArray[np.bool_]:
        """Rows of a segment that miss a window, given the watermark before the segment."""
        if isinstance(self.over, Band):
            return at_us < before_us
        return self.over.first_end(at_us) <= before_us

    @property
    def reach_us(self) -> int:
        """How far beyond its last row a stream must be for all windows to be closed."""
        if isinstance(self.over, Band):
            return max(0, self.over.high_us) + 1
        return self.over.length_us
