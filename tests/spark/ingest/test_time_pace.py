"""The watermark of a direct source: once per discovery, at most once per trigger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from daybreak.spark.ingest.direct.time_pace import TimePace
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore

S_US = 1_000_000


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
    stream.append(10)
    stream.now_s += 1
    assert stream.append(30, is_last=False) == (10, 10)
    stream.now_s += 1
    assert stream.append(20, is_last=False) == (10, 10), "not late by the piece before"
    assert stream.append(15) == (10, 30), "by all of them"
    assert stream.pace.due_s() is None


def test_it_moves_once_per_trigger_and_later_without_rows(stream: Stream) -> None:
    assert stream.append(10)[1] == 10
    stream.now_s += 0.04
    assert stream.append(30) == (10, 10)
    stream.now_s += 0.04
    assert stream.append(20) == (10, 10), "disorder within a trigger makes nothing late"
    assert stream.pace.due_s() == pytest.approx(0.02)
    stream.now_s += 0.02
    assert stream.pace.due_s() == 0
    assert stream.pace.move() == 30 * S_US
    assert stream.pace.move() is None
    assert stream.append(29)[0] == 30


def test_rows_after_a_trigger_move_it_with_those_that_were_held(stream: Stream) -> None:
    stream.append(10)
    stream.append(30)
    stream.now_s += 0.2
    assert stream.append(20) == (10, 30)


def test_what_a_crash_held_moves_after_the_restart(stream: Stream) -> None:
    stream.append(10)
    stream.append(30, is_last=False)
    again = SegmentStore(stream._rundir, stream.log)
    again.keep_time("a", "at", 0)
    clock = again.clock("a")
    assert clock is not None
    assert (clock.watermark_us, clock.held_us) == (10 * S_US, 30 * S_US)
    pace = TimePace(again, "a", 0.1, lambda: stream.now_s)
    assert pace.due_s() == 0
    assert pace.move() == 30 * S_US
    later = SegmentStore(stream._rundir, stream.log)
    later.keep_time("a", "at", 0)
    assert again.clock("a") == later.clock("a"), "the log has it"


def test_without_event_time_nothing_is_due(stream: Stream) -> None:
    pace = TimePace(stream.store, "b", 0.1)
    assert pace.due_s() is None
    assert pace.move() is None
