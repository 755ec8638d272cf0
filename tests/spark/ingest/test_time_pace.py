"""The watermark of a direct source: once per discovery, and a trigger after its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from daybreak.spark.ingest.direct.time_pace import TimePace
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import NEVER
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore

S_US = 1_000_000
#: The watermark before the first row.
NEVER_S = NEVER // S_US


class Stream:
    """One stream in a log, on a clock that stands still."""

    def __init__(self, folder: Path, delay_us: int) -> None:
        self._rundir = RunDirectory.open(folder, "paced")
        self.now_s = 100.0
        self.log = CommitLog(self._rundir.state_db)
        self.store = SegmentStore(self._rundir, self.log)
        self.store.keep_time("a", "at", delay_us)
        self.pace = TimePace(self.store, "a", 0.1, lambda: self.now_s)

    def close(self) -> None:
        self.log.close()
        self._rundir.close()

    def append(self, *at_s: float, is_last: bool = True) -> tuple[int, int]:
        """The watermarks before and after a segment, in seconds."""
        at = pa.array([round(s * S_US) for s in at_s], pa.timestamp("us", "UTC"))
        batch = self.store.end("a").seq
        made = self.store.append(
            "a", "direct", batch, [batch], pa.table({"at": at}), batch,
            moves_time=self.pace.moves(is_last=is_last),
        )  # fmt: skip
        assert made is not None
        assert made.before_us is not None
        assert made.after_us is not None
        return made.before_us // S_US, made.after_us // S_US


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    made = Stream(tmp_path, delay_us=0)
    yield made
    made.close()


def test_pieces_of_one_discovery_move_it_once_with_the_last(stream: Stream) -> None:
    assert stream.append(30, is_last=False) == (NEVER_S, NEVER_S)
    stream.now_s += 1
    assert stream.append(20, is_last=False) == (NEVER_S, NEVER_S), "not late by the piece before"
    stream.now_s += 1
    assert stream.append(15) == (NEVER_S, 30), "by all of them"
    assert stream.pace.due_s() is None


def test_it_moves_a_trigger_after_the_first_rows_that_raise_it(stream: Stream) -> None:
    assert stream.append(30)[1] == NEVER_S
    stream.now_s += 0.04
    assert stream.append(20)[1] == NEVER_S, "disorder within a trigger makes nothing late"
    assert stream.pace.due_s() == pytest.approx(0.06)
    stream.now_s += 0.06
    assert stream.pace.due_s() == pytest.approx(0)
    assert stream.pace.move() == 30 * S_US
    assert stream.pace.move() is None
    stream.now_s += 10
    assert stream.append(29) == (30, 30)
    stream.now_s += 10
    assert stream.append(50) == (30, 30), "a trigger begins with it"
    stream.now_s += 0.2
    assert stream.append(40) == (30, 50), "rows move it with those that were held"


def test_what_a_crash_held_moves_after_the_restart(stream: Stream) -> None:
    stream.append(10)
    stream.pace.move()
    stream.append(30, is_last=False)
    again = SegmentStore(stream._rundir, stream.log)
    again.keep_time("a", "at", 0)
    clock = again.clock("a")
    assert clock is not None
    assert (clock.watermark_us, clock.held_us) == (10 * S_US, 30 * S_US)
    pace = TimePace(again, "a", 0.1, lambda: stream.now_s)
    assert pace.due_s() == pytest.approx(0.1)
    assert pace.move() == 30 * S_US
    later = SegmentStore(stream._rundir, stream.log)
    later.keep_time("a", "at", 0)
    assert again.clock("a") == later.clock("a"), "the log has it"


def test_without_event_time_nothing_is_due(stream: Stream) -> None:
    pace = TimePace(stream.store, "b", 0.1)
    assert pace.due_s() is None
    assert pace.move() is None
