"""The event time of one stream: its column, its delay, its watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from daybreak.spark.log.event_time import NEVER, Instants


class Span(NamedTuple):
    """What the log keeps of a segment's time; low and high are None where no row has one."""

    low_us: int | None
    high_us: int | None
    before_us: int
    after_us: int


@dataclass
class EventClock:
    """Follows the watermark of a stream, segment by segment.

    ``delay_us`` None: rows do not move the watermark, only marks do (the rows of a view, whose
    order is known).
    """

    column: str
    delay_us: int | None
    watermark_us: int = NEVER
    #: The largest event time seen, for ends and idle streams; None: no row had one.
    high_us: int | None = None

    def span(self, table: pa.Table, *, moves: bool = True) -> Span:
        """The next segment's times; the clock itself is moved by ``moved``.

        ``moves``: the watermark follows; else it is held where it is, for rows that belong together
        are not late by each other.
        """
        at = pc.min_max(as_us(table[self.column]))
        return self.span_of(at["min"].as_py(), at["max"].as_py(), moves=moves)

    def span_of(self, low: int | None, high: int | None, *, moves: bool = True) -> Span:
        """The same of rows whose first and last event time are known."""
        after = self._reached(high) if moves else self.watermark_us
        return Span(low, high, self.watermark_us, after)

    @property
    def held_us(self) -> int | None:
        """Where the watermark would be if rows were not held together; None where it is there."""
        reached = self._reached(None)
        return reached if reached > self.watermark_us else None

    def _reached(self, high: int | None) -> int:
        """The watermark by all rows so far, and one more event time."""
        known = [us for us in (high, self.high_us) if us is not None]
        if not known or self.delay_us is None:
            return self.watermark_us
        return max(self.watermark_us, max(known) - self.delay_us)

    def moved(self, high_us: int | None, after_us: int) -> None:
        self.watermark_us = max(self.watermark_us, after_us)
        if high_us is not None:
            self.high_us = high_us if self.high_us is None else max(self.high_us, high_us)


def as_us(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A timestamp column as microseconds since 1970."""
    zone = column.type.tz if kinds.is_timestamp(column.type) else None
    return column.cast(pa.timestamp("us", zone)).cast(pa.int64())


def instants(column: pa.ChunkedArray) -> Instants:
    """The same as numbers; NEVER where there is none, see ``is_timed``."""
    found: Instants = pc.fill_null(as_us(column), NEVER).to_numpy()
    return found.astype(np.int64, copy=False)


def is_timed(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which rows have an event time: those without lie in no window."""
    found: NDArray[np.bool_] = pc.is_valid(column).to_numpy()
    return found
