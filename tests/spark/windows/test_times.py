"""The arithmetic of windows against what a window is: every instant, every window, by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.engine.inbox import Tick
from daybreak.engine.window_inbox import WindowInbox
from daybreak.model import ConfigError
from daybreak.spark.log.event_clock import EventClock
from daybreak.spark.log.event_time import (
    FOREVER,
    NEVER,
    US_PER_S,
    Band,
    Grid,
    Windowing,
    duration_text,
    duration_us,
)
from daybreak.spark.sql.windows.pane_plans import width_us
from daybreak.spark.sql.windows.parsed import duration_fault

grids = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 39)).map(
    lambda g: Grid(max(g[0], g[1]), min(g[0], g[1]), g[2] % min(g[0], g[1]))
)


def windows(grid: Grid, around: int) -> list[tuple[int, int]]:
    starts = [grid.offset_us + k * grid.slide_us for k in range(-200, 200)]
    return [(s, s + grid.length_us) for s in starts if abs(s - around) < 200]


@given(grids, st.integers(-100, 100))
def test_ends_are_those_of_the_windows_that_hold_an_instant(grid: Grid, at: int) -> None:
    ends = [end for start, end in windows(grid, at) if start <= at < end]
    assert grid.first_end(np.array([at]))[0] == min(ends)
    assert grid.last_end(np.array([at]))[0] == max(ends)
    assert grid.last_closed(at) == max(end for _, end in windows(grid, at) if end <= at)


@given(grids, st.integers(-50, 50))
def test_nothing_before_begin_is_held_by_a_window_that_is_still_open(
    grid: Grid, closed: int
) -> None:
    open_starts = [start for start, end in windows(grid, closed) if end > closed]
    assert grid.begin(closed) == min(open_starts)


EDGES = st.one_of(st.integers(NEVER, NEVER + 200), st.integers(FOREVER - 200, FOREVER))


@given(grids, EDGES)
def test_windows_at_the_ends_of_time_are_those_anywhere_or_saturate(grid: Grid, at: int) -> None:
    """As whole numbers without bounds have it, and FOREVER for what a TIMESTAMP cannot hold."""
    starts = [at - (at - grid.offset_us) % grid.slide_us - k * grid.slide_us for k in range(200)]
    held = [(s, s + grid.length_us) for s in starts if s <= at < s + grid.length_us]
    ends = [end for _, end in held]
    instant = np.array([at])
    assert grid.first_end(instant)[0] == min(FOREVER, *ends)
    assert grid.last_end(instant)[0] == min(FOREVER, max(ends))
    assert grid.holds(instant) == (
        max(ends) <= FOREVER and min(start for start, _ in held) >= NEVER
    )
    assert NEVER <= grid.last_closed(at) <= FOREVER
    assert NEVER <= grid.begin(at) <= FOREVER
    assert grid.last_closed(FOREVER) == FOREVER, "then all windows are closed"


def test_durations_are_read_and_written() -> None:
    assert duration_us("10 seconds", "", "") == 10 * US_PER_S
    assert duration_us("1 minute 30 seconds", "", "") == 90 * US_PER_S
    assert duration_us("0.5 hours", "", "") == 1800 * US_PER_S
    assert duration_text(90 * US_PER_S) == "90 seconds"
    assert duration_text(7200 * US_PER_S) == "2 hours"
    for wrong in ("", "ten seconds", "10", "10 parsecs", "-1 second"):
        with pytest.raises(ConfigError, match="watermark"):
            duration_us(wrong, "stream 's'", "watermark")


def test_panes_are_for_windows_that_overlap_or_are_long() -> None:
    second = US_PER_S
    assert width_us(Grid(10 * second, 10 * second)) is None
    assert width_us(Grid(60 * second, second)) == second
    assert width_us(Grid(10 * second, 4 * second)) == 2 * second
    assert width_us(Grid(3600 * second, 3600 * second)) == 60 * second


def segment(*at: int) -> pa.Table:
    return pa.table({"at": pa.array(at, pa.timestamp("us", "UTC"))})


def test_a_watermark_only_rises_and_is_known_before_each_segment() -> None:
    clock = EventClock("at", delay_us=10)
    spans = []
    for rows in ((100, 90), (80,), (None, 130)):
        span = clock.span(segment(*rows))
        clock.moved(span.high_us, span.after_us)
        spans.append(tuple(span))
    assert spans == [(90, 100, NEVER, 90), (80, 80, 90, 90), (130, 130, 90, 120)]
    empty = clock.span(segment(None))  # type: ignore[arg-type]
    assert tuple(empty) == (None, None, 120, 120)


def test_windows_wait_from_the_segment_that_closed_them() -> None:
    """And only once all streams have passed their end."""
    inbox = WindowInbox(Windowing(Grid(10, 10), {"a": "at", "b": "at"}).closing)
    assert inbox.tick(Tick(1, "a", 5, 25)) == 0
    assert inbox.tick(Tick(2, "b", 3, 12)) == 8
    assert inbox.tick(Tick(3, "b", 2, 19)) == 0
    assert inbox.tick(Tick(4, "b", 1, 40)) == 3
    assert inbox.tick(Tick(5, "a", 0, 60)) == 1, "a mark without rows still closes windows"
    assert [(w.arrival_ns, w.tuples, w.closes_us) for w in inbox.take(None)] == [
        (2, 8, 10),
        (4, 3, 20),
        (5, 1, 40),
    ]


def test_a_train_takes_what_one_segment_closed_as_a_whole() -> None:
    inbox = WindowInbox(Windowing(Grid(10, 10), {"a": "at"}).closing)
    for n in range(1, 4):
        inbox.tick(Tick(n, "a", 5, n * 10))
    taken = inbox.take(6)
    assert [w.closes_us for w in taken] == [10, 20]
    assert inbox.tuples == 5
    inbox.put_back(taken)
    assert [w.closes_us for w in inbox.take(None)] == [10, 20, 30]


def test_a_band_closes_when_the_last_possible_partner_has_passed() -> None:
    over = Windowing(Band("a", "b", -2, 5), {"a": "at", "b": "at"})
    assert over.bound({"a": 100, "b": 103}) == 98
    assert over.bound({"a": 90, "b": 103}) == 90
    assert over.needed_from("b", 98) == 96
    assert over.needed_from("a", 98) == 98


@pytest.mark.parametrize(
    ("texts", "finding"),
    [
        (["1 month"], "length of '1 month'; months differ in length"),
        (["1 day", "INTERVAL 2 YEARS"], "slide of 'INTERVAL 2 YEARS'"),
        (["10 seconds", "5 seconds", "1 month"], "start time of '1 month'"),
        (["0 seconds"], "length of '0 seconds'"),
        (["-10 seconds"], "length of '-10 seconds'"),
        (["10 seconds", "0 seconds"], "slide of '0 seconds'"),
        (["10 seconds", "-5 seconds"], "slide of '-5 seconds'"),
        (["10 seconds", "20 seconds"], "slides by '20 seconds', more than its length"),
        (["10 seconds", "5 seconds", "7 seconds"], "start time of '7 seconds', a slide or more"),
        (["10 seconds", "5 seconds", "-5 seconds"], "start time of '-5 seconds', a slide or more"),
    ],
)
def test_durations_that_make_no_windows_are_named(texts: list[str], finding: str) -> None:
    fault = duration_fault(texts)
    assert fault is not None
    assert finding in fault[0]
    assert fault[1]


def test_durations_that_make_windows_have_no_fault() -> None:
    for texts in (
        [], ["10 seconds"], ["interval 10 seconds"], ["10000000"], ["nonsense"],
        ["10 seconds", "10 seconds"], ["10 seconds", "3 seconds", "-2 seconds"],
    ):  # fmt: skip
        assert duration_fault(texts) is None
