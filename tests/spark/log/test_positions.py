"""Rows and the position of their source move together, and survive together or not at all."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.log.conftest import OpenLog

from daybreak.model import EngineBug
from daybreak.model.errors import NewerFormat
from daybreak.spark.failures import LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.positions import Malformed, Position, ReadFile, SourceMove
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import OnSegment, Segment, SegmentStore
from daybreak.spark.log.sqlite_log import SqliteDatabase

BEGIN = Position(
    stream="r", kind="offsets", source="rate", checkpoint_id="c", batch_id=-1, place="0"
)


def moved(
    batch_id: int, files: Sequence[ReadFile] = (), malformed: Malformed | None = None
) -> SourceMove:
    position = replace(BEGIN, batch_id=batch_id, place=str(batch_id + 1))
    return SourceMove(position=position, files=files, malformed=malformed)


def test_a_position_is_as_it_was_after_every_opening(open_log: OpenLog) -> None:
    log = open_log()
    assert log.position("r") is None
    log.begin_position(BEGIN, [("/in/a", 5, 7)])
    log.move_source(moved(0, [("/in/b", 6, 8)]))
    log.close()
    log = open_log()
    assert log.position("r") == moved(0).position
    assert log.known_files("r", ["/in/a", "/in/b", "/in/c"]) == {"/in/a", "/in/b"}
    assert log.known_files("s", ["/in/a"]) == set()
    log.end_position("r")
    assert (log.position("r"), log.read_files("r")) == (None, [])


@pytest.mark.parametrize("wrong", [moved(1), moved(-1), replace(
    moved(0), position=replace(moved(0).position, checkpoint_id="other")
)])  # fmt: skip
def test_a_batch_that_does_not_follow_the_position_changes_nothing(
    open_log: OpenLog, wrong: SourceMove
) -> None:
    log = open_log()
    log.begin_position(BEGIN)
    with pytest.raises(EngineBug, match="does not follow its position"):
        log.move_source(replace(wrong, files=[("/in/a", 1, 1)]))
    assert (log.position("r"), log.read_files("r")) == (BEGIN, [])


def test_old_files_take_little_room_and_are_forgotten_at_last(open_log: OpenLog) -> None:
    log = open_log()
    log.begin_position(BEGIN, [(f"/in/{k:03d}", k, k) for k in range(300)])
    assert len(log.fold_files("r", 200, 0)) == 200
    assert len(log.fold_files("r", 250, 0)) == 50
    every = {f"/in/{k:03d}" for k in range(300)}
    assert log.known_files("r", sorted(every)) == {f"/in/{k:03d}" for k in range(250, 300)}
    assert log.folded_files("r") == {f"/in/{k:03d}" for k in range(250)}
    assert {path for path, _, _ in log.read_files("r")} == every
    log.fold_files("r", 0, 220)  # the newest of the first batch is older, of the second it is not
    assert log.folded_files("r") == {f"/in/{k:03d}" for k in range(200, 250)}
    log.fold_files("r", 0, 290)
    assert {path for path, _, _ in log.read_files("r")} == {f"/in/{k}" for k in range(290, 300)}


def test_a_file_that_was_forgotten_is_another_one_when_it_comes_again(open_log: OpenLog) -> None:
    log = open_log()
    log.begin_position(BEGIN, [("/in/a", 5, 7)])
    log.move_source(moved(0, [("/in/a", 50, 8)]))
    assert log.read_files("r") == [("/in/a", 50, 8)]


def test_malformed_records_wait_in_the_log_until_they_are_at_their_place(
    open_log: OpenLog,
) -> None:
    log = open_log()
    log.begin_position(BEGIN)
    few, many = Malformed(records=2, content=b"ipc"), Malformed(records=9, file="000-e1")
    log.move_source(moved(0, malformed=few))
    log.move_source(moved(1, malformed=many))
    assert log.kept_malformed() == [("r", 0, few), ("r", 1, many)]
    log.place_malformed([("r", 0)])
    assert log.kept_malformed() == [("r", 1, many)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[SegmentStore, CommitLog]]:
    rundir = RunDirectory.open(tmp_path / "run", "p")
    log = CommitLog(rundir.state_db)
    log.begin_position(BEGIN)
    yield SegmentStore(rundir, log), log
    log.close()
    rundir.close()


def append(
    store: SegmentStore, batch_id: int, rows: int, listed: OnSegment = lambda _segment: None
) -> Segment | None:
    table = pa.table({"v": pa.array(range(rows), pa.int64())})
    move = moved(batch_id, [(f"/in/{batch_id}", batch_id, 1)])
    return store.append("r", "c", batch_id, [batch_id], table, 1, listed, move)


@pytest.mark.parametrize("rows", [3, 100_000])
def test_rows_and_position_are_one_transaction(
    store: tuple[SegmentStore, CommitLog], rows: int
) -> None:
    segments, log = store
    assert append(segments, 0, rows) is not None
    assert append(segments, 1, 0) is None, "a batch without a row moves the position, too"
    assert append(segments, 2, rows) is not None
    assert log.position("r") == moved(2).position
    assert [(s.seq, s.batch_id) for s in log.segments("r")] == [(0, 0), (1, 2)]
    with pytest.raises(EngineBug, match="does not follow"):
        append(segments, 5, rows)
    assert len(log.segments("r")) == 2


def test_queries_hear_of_rows_before_the_wait_for_the_disk(
    store: tuple[SegmentStore, CommitLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, log = store
    order: list[str] = []
    monkeypatch.setattr(log, "sync", lambda: order.append("sync"))
    append(segments, 0, 3, listed=lambda s: order.append(f"listed {s.seq}"))
    append(segments, 1, 0)
    assert order == ["listed 0", "sync", "sync"]


def test_a_commit_that_seemed_to_have_failed_is_found_in_the_log(
    store: tuple[SegmentStore, CommitLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, log = store
    add = log.add_segment

    def fails(*given: Any) -> None:
        add(*given)
        raise LogUnavailable("disk I/O error")

    with monkeypatch.context() as failing:
        failing.setattr(log, "add_segment", fails)
        with pytest.raises(LogUnavailable):
            append(segments, 0, 3)
    assert segments.segments("r") == []
    heard: list[int] = []
    segments.catch_up("r", lambda s: heard.append(s.seq))
    assert (heard, log.position("r")) == ([0], moved(0).position)
    assert segments.table(segments.segments("r")[0])["v"].to_pylist() == [0, 1, 2]
    again = append(segments, 1, 3)
    assert again is not None
    assert again.seq == 1


def test_a_power_cut_leaves_rows_and_positions_that_agree(tmp_path: Path) -> None:
    """The log is cut at drawn frames; each cut is opened as after a crash."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rundir = RunDirectory.open(tmp_path / "run", "p")
    log = CommitLog(rundir.state_db)
    log.begin_position(BEGIN)
    log.settle()
    segments = SegmentStore(rundir, log)
    rows = [3, 0, 2000, 10, 0, 1]
    for batch, count in enumerate(rows):
        append(segments, batch, count)
    database = rundir.state_db.read_bytes()
    frames = rundir.state_db.with_name("state.db-wal").read_bytes()
    log.close()
    rundir.close()
    size = 24 + int.from_bytes(frames[8:12], "big")
    cuts = range(32, len(frames) + 1, size)
    found = set()
    for cut in [*random.Random(seed).sample(cuts, min(20, len(cuts))), len(frames)]:
        after = tmp_path / f"cut-{cut}"
        after.mkdir(exist_ok=True)
        (after / "state.db").write_bytes(database)
        (after / "state.db-wal").write_bytes(frames[:cut])
        again = CommitLog(after / "state.db")
        position = again.position("r")
        assert position is not None
        done = position.batch_id + 1
        assert [s.batch_id for s in again.segments("r")] == [b for b in range(done) if rows[b]]
        assert {path for path, _, _ in again.read_files("r")} == {f"/in/{b}" for b in range(done)}
        found.add(done)
        again.close()
    assert len(rows) in found
    assert len(found) > 1


def test_an_earlier_daybreak_leaves_a_log_with_positions_alone(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "state.db")
    log.database.rows("PRAGMA user_version = 99")
    log.close()
    with pytest.raises(NewerFormat):
        SqliteDatabase(tmp_path / "state.db").open(None)


def test_a_log_without_positions_is_given_their_tables(
    tmp_path: Path, cut_tables: Callable[[Path], None]
) -> None:
    path = tmp_path / "state.db"
    log = CommitLog(path)
    log.register_query("q", "1", {})
    log.close()
    cut_tables(path)
    log = CommitLog(path)
    assert log.position("r") is None
    assert log.queries() == {"q": "1"}
    assert log.database.rows("PRAGMA user_version") == [(5,)]
    log.close()


@pytest.fixture
def cut_tables() -> Callable[[Path], None]:
    """Makes a log one of version 4."""

    def cut(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            for table in ("positions", "source_files", "source_batches", "dead_letters"):
                db.execute(f"DROP TABLE {table}")
            db.execute("PRAGMA user_version = 4")

    return cut
