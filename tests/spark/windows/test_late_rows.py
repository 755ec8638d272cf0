"""Late rows: written apart from ingest, and not lost by a crash before that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import Grid, Windowing
from daybreak.spark.log.rows import CursorMove
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore

S_US = 1_000_000
WINDOWS = Windowing(Grid(10 * S_US, 10 * S_US), {"a": "at"})


class Log:
    """A stream with an event time, and what was late in it; opened again and again."""

    def __init__(self, folder: Path) -> None:
        self.rundir = RunDirectory.open(folder, "late")
        self.folder = folder / "late"
        self.log = CommitLog(self.rundir.state_db)
        self.open()
        self.register("q")

    def open(self) -> None:
        """As a process does that finds the log."""
        self.store = SegmentStore(self.rundir, self.log)
        self.store.keep_time("a", "at", 0)

    def register(self, query: str) -> None:
        self.log.register_query(query, "", {"a": self.store.end("a")}, reset=True)

    def late(self, *queries: str) -> LateRows:
        return LateRows(self.folder, self.store, self.log, dict.fromkeys(queries, WINDOWS))

    def append(self, late: LateRows, *at_s: int) -> None:
        at = pa.array([s * S_US for s in at_s], pa.timestamp("us", "UTC"))
        batch = self.store.end("a").seq
        made = self.store.append("a", "cp", batch, [batch], pa.table({"at": at}), 1, late.look)
        assert made is not None

    def pass_all(self, query: str) -> None:
        """A job has answered all rows: no query needs them."""
        old, new = self.log.cursors()[query, "a"], self.store.end("a")
        self.log.commit(self.log.new_job(), [CursorMove(query, "a", old, new)], [])

    def kept(self, query: str) -> list[int]:
        """Event times of the rows in the files, in seconds."""
        if not list((self.folder / query).glob("*.parquet")):
            return []
        found = pq.read_table(self.folder / query)["at"].cast(pa.int64()).to_pylist()
        return sorted(us // S_US for us in found)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.log.close()
    made.rundir.close()


def test_ingest_writes_nothing_and_the_next_call_all(log: Log) -> None:
    late = log.late("q")
    log.append(late, 25)
    log.append(late, 3, 21, 9)
    log.append(late, 30, 8)
    assert log.kept("q") == []
    assert late.needed_from("a") == 1
    late.write()
    assert log.kept("q") == [3, 8, 9]
    assert late.counts == {"q": 3}
    assert late.needed_from("a") is None
    late.write()
    assert late.counts == {"q": 3}


def test_a_crash_before_the_files_loses_nothing(log: Log) -> None:
    late = log.late("q")
    log.append(late, 25)
    log.append(late, 3)
    late.write()
    log.append(late, 4)
    log.pass_all("q")  # its job ended before the second came to an end
    log.open()
    again = log.late("q")
    assert log.kept("q") == [3, 4]
    assert again.counts == {"q": 2}


def test_files_that_were_taken_away_do_not_come_back(log: Log) -> None:
    late = log.late("q")
    log.append(late, 25)
    log.append(late, 3)
    late.write()
    for file in (log.folder / "q").iterdir():
        file.unlink()
    log.open()
    log.late("q")
    assert log.kept("q") == []


def test_what_cannot_be_written_now_is_written_later(log: Log) -> None:
    late = log.late("q")
    log.append(late, 25)
    log.append(late, 3)
    log.folder.mkdir()
    (log.folder / "q").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        late.write()
    assert late.needed_from("a") == 1
    (log.folder / "q").unlink()
    late.write()
    assert log.kept("q") == [3]


def test_a_query_sees_what_comes_after_its_registration_whatever_crashes(log: Log) -> None:
    late = log.late("q")
    log.append(late, 25)
    log.append(late, 3)
    log.register("more")
    late.adopt("more", WINDOWS)
    log.append(late, 4)
    log.pass_all("more")
    log.open()
    again = log.late("q", "more")
    assert (log.kept("q"), log.kept("more")) == ([3, 4], [4])
    log.log.drop_query("more")
    again.drop("more")
    log.append(again, 5)
    again.write()
    assert (log.kept("q"), log.kept("more")) == ([3, 4, 5], [4])
    assert set(log.log.late_rows_written()) == {("q", "a")}
