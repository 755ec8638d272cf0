"""Rows come back as they came in, however they are cut, kept or reopened."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.ranges import read

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segment_files import write_segment
from daybreak.spark.log.segments import SMALL_BYTES, Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL, joined_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = Cursor(0, 0)


@contextmanager
def opened(
    root: Path, memory_bytes: int = 2**20, small_bytes: int = 0
) -> Iterator[tuple[SegmentStore, CommitLog]]:
    with RunDirectory.open(root, "fires") as rundir:
        log = CommitLog(rundir.state_db)
        try:
            yield SegmentStore(rundir, log, memory_bytes, small_bytes), log
        finally:
            log.close()


@pytest.fixture(params=[0, SMALL_BYTES], ids=["file", "in-log"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SegmentStore]:
    with opened(tmp_path, small_bytes=request.param) as (opened_store, _):
        yield opened_store


def table(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int32())})


def add(store: SegmentStore, batch_id: int, *values: int, stream: str = "r") -> Segment | None:
    offsets = {"logOffset": batch_id}
    return store.append(stream, "cp", batch_id, offsets, table(*values), 1000 + batch_id)


def test_a_batch_becomes_one_file_and_one_row_of_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, log):
        segment = add(store, 7, 1, 2, 3)
        assert segment is not None
        assert log.segments("r") == [segment]
        assert (segment.seq, segment.batch_id, segment.rows) == (0, 7, 3)
        assert (segment.arrival_ns, segment.offsets) == (1007, '{"logOffset":7}')
        file = tmp_path / "segments" / segment.file
        assert file == tmp_path / "segments" / "r" / "000000000000-0001.parquet"
        assert file.stat().st_size == segment.bytes
        assert pq.read_table(file, partitioning=None).to_pylist() == [
            {"v": v, ARRIVAL: 1007} for v in (1, 2, 3)
        ]
        assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_segment_is_told_of_before_the_wait_for_the_disk_and_given_after_it(
    store: SegmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def sync(_log: CommitLog) -> None:
        happened.append("waited")
        if len(happened) == 2:
            raise OSError(errno.EIO, "the disk is gone")

    def listed(segment: Segment) -> None:
        happened.append("told")
        assert read(store, "r", START)[0]["v"].to_pylist() == [1, 2], "its rows can be read"
        assert store.segments("r") == [segment]

    monkeypatch.setattr(CommitLog, "sync", sync)
    offsets = {"logOffset": 0}
    with pytest.raises(OSError, match="disk"):
        store.append("r", "cp", 0, offsets, table(1, 2), 1000, listed)
    assert happened == ["told", "waited"]
    again = store.append("r", "cp", 0, offsets, table(1, 2), 2000, listed)
    assert again == store.segments("r")[0]
    assert happened == ["told", "waited"] * 2, "what was not durable yet is now"


def test_a_small_batch_is_in_the_log_and_leaves_with_its_row(tmp_path: Path) -> None:
    with opened(tmp_path, small_bytes=SMALL_BYTES) as (store, log):
        small, large = add(store, 0, 1, 2), add(store, 1, *range(SMALL_BYTES // 4))
        assert small is not None
        assert large is not None
        assert (small.file, large.file) == ("", "r/000000000001-0001.parquet")
        assert small.bytes == len(log.segment_content(small))
    with opened(tmp_path, memory_bytes=0) as (store, log):
        assert read(store, "r", START, 3)[0]["v"].to_pylist() == [1, 2, 0]
        assert store.remove_below("r", Cursor(1, 0)) == [small]
        with pytest.raises(EngineBug, match="not in the log"):
            log.segment_content(small)


def test_streams_are_numbered_apart_and_may_have_any_name(store: SegmentStore) -> None:
    for name in ("a/b", "..", "r"):
        segment = add(store, 0, 1, stream=name)
        assert segment is not None
        assert segment.seq == 0
        assert read(store, name, START)[0]["v"].to_pylist() == [1]


def test_an_empty_batch_makes_no_segment(store: SegmentStore) -> None:
    assert add(store, 0) is None
    assert add(store, 1, 5) is not None
    assert add(store, 2) is None
    assert store.end("r") == Cursor(1, 0)


@pytest.mark.parametrize("small_bytes", [0, SMALL_BYTES])
def test_every_type_of_spark_comes_back_the_same_from_the_disk(
    tmp_path: Path, small_bytes: int
) -> None:
    rich = pa.table(
        {
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "local": pa.array([datetime(2026, 1, 1), None], pa.timestamp("us")),  # noqa: DTZ001
            "tags": pa.array([["a", None], None], pa.list_(pa.string())),
            "by": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
            "pair": pa.array([{"x": 1, "y": None}, None]),
            "raw": pa.array([b"\x00\xff", None]),
            "money": pa.array([1, None], pa.decimal128(20, 3)),
            "nothing": pa.nulls(2),
        }
    )
    with opened(tmp_path, small_bytes=small_bytes) as (store, _):
        store.append("r", "cp", 0, None, rich, 1)
        held, _end = read(store, "r", START)
    with opened(tmp_path, memory_bytes=0, small_bytes=small_bytes) as (store, _):
        store.append("r", "cp", 1, None, rich, 1)
        again, _end = read(store, "r", START)
    assert again.schema.equals(held.schema)
    assert again.drop_columns(ARRIVAL).equals(pa.concat_tables([rich, rich]))


@pytest.mark.spark
def test_executors_read_packed_numbers_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    """In both of Spark's readers, with the extremes whose differences overflow."""
    numbers = {"tiny": pa.int8(), "small": pa.int16(), "n": pa.int32(), "a.b": pa.int64()}
    columns = {
        name: pa.array([-(2 ** (t.bit_width - 1)), None, 2 ** (t.bit_width - 1) - 1, 0] * 300, t)
        for name, t in numbers.items()
    }
    at = [datetime(1600, 1, 1, tzinfo=UTC), None, datetime(9999, 1, 1, tzinfo=UTC)] * 400
    columns["at"] = pa.array(at, pa.timestamp("us", "UTC"))
    columns["day"] = pa.array([t and t.date() for t in at], pa.date32())
    columns["big"] = pa.array([2**63 - 1, -(2**63), None, 5] * 300, pa.int64())
    rows = pa.table(columns)
    with (tmp_path / "segment.parquet").open("wb") as out:
        write_segment(rows, out)
    assert pq.read_table(tmp_path / "segment.parquet").equals(rows)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for vectorized in ("true", "false"):
        session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        read = session.read.parquet(str(tmp_path / "segment.parquet")).toArrow()
        assert read.cast(rows.schema).equals(rows)


def test_a_range_is_cut_across_segments(store: SegmentStore) -> None:
    add(store, 0, 1, 2, 3)
    add(store, 1, 4, 5)
    add(store, 2, 6)

    def cut(start: Cursor, limit: int | None) -> tuple[list[int], Cursor]:
        found, end = read(store, "r", start, limit)
        return found["v"].to_pylist(), end

    assert cut(START, None) == ([1, 2, 3, 4, 5, 6], Cursor(3, 0))
    assert cut(START, 2) == ([1, 2], Cursor(0, 2))
    assert cut(Cursor(0, 2), 1) == ([3], Cursor(1, 0))
    assert cut(Cursor(0, 2), 2) == ([3, 4], Cursor(1, 1))
    assert cut(Cursor(1, 1), 99) == ([5, 6], Cursor(3, 0))
    assert cut(Cursor(3, 0), None) == ([], Cursor(3, 0))
    assert cut(Cursor(1, 0), 0) == ([], Cursor(1, 0))
    assert read(store, "r", START)[0][ARRIVAL].to_pylist() == [1000] * 3 + [1001] * 2 + [1002]
    waiting = store.waiting("r", Cursor(0, 2))
    assert [(w.arrival_ns, w.seq, w.row, w.tuples) for w in waiting] == [
        (1000, 0, 2, 1),
        (1001, 1, 0, 2),
        (1002, 2, 0, 1),
    ]
    assert store.waiting("r", Cursor(0, 2), end_seq=1) == waiting[:1]
    assert store.waiting("r", Cursor(3, 0)) == []


def test_a_cursor_that_is_nowhere_is_our_bug(store: SegmentStore) -> None:
    add(store, 0, 1, 2)
    for nowhere in (Cursor(0, 2), Cursor(1, 1), Cursor(2, 0), Cursor(-1, 0)):
        with pytest.raises(EngineBug, match="is not a row of segments 0 to 0"):
            store.waiting("r", nowhere)
    [first] = store.waiting("r", START)
    for broken in ([first, first], [first._replace(row=1)], [first._replace(seq=1)]):
        with pytest.raises(EngineBug, match=r"do not follow|is not there"):
            store.passed(broken)


@pytest.mark.parametrize("reopen", [False, True])
def test_a_replayed_batch_keeps_its_first_rows_and_stamp(tmp_path: Path, reopen: bool) -> None:
    with opened(tmp_path) as (store, _):
        add(store, 0, 1)
        first = add(store, 1, 2, 3)
        if not reopen:
            assert store.append("r", "cp", 1, '{"logOffset": 1}', table(9), 5000) == first
    with opened(tmp_path) as (store, _):
        assert store.append("r", "cp", 1, {"logOffset": 1}, table(), 5000) == first
        assert store.append("r", "cp", 0, {"logOffset": 0}, table(9), 5000) is not None
        assert read(store, "r", START)[0]["v"].to_pylist() == [1, 2, 3]
        assert add(store, 2, 4) is not None


def test_a_checkpoint_that_tells_another_story_is_refused(store: SegmentStore) -> None:
    add(store, 3, 1)
    add(store, 5, 2)
    cases = [
        ("new", 0, {"logOffset": 0}, "end with batch 5 of checkpoint cp.*deleted or replaced"),
        ("new", 6, {"logOffset": 6}, "deleted or replaced"),
        ("cp", 5, {"logOffset": 4}, "comes again with offsets .*changed"),
        ("cp", 4, {"logOffset": 4}, "go on to batch 5: the checkpoint was set back"),
    ]
    for checkpoint, batch, offsets, finding in cases:
        for rows in (table(9), table()):
            with pytest.raises(ConfigError, match=f"stream 'r': .*{finding}.*new run directory"):
                store.append("r", checkpoint, batch, offsets, rows, 1)
    assert read(store, "r", START)[0]["v"].to_pylist() == [1, 2]


def test_a_column_of_our_name_is_refused(store: SegmentStore) -> None:
    with pytest.raises(ConfigError, match="rename that column"):
        store.append("r", "cp", 0, {}, pa.table({ARRIVAL: [1]}), 1)


def test_files_that_the_log_does_not_list_are_removed_at_open(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        add(store, 0, 1)
    folder = tmp_path / "segments" / "r"
    for leftover in ("000000000001.parquet", "000000000001.parquet.partial"):
        (folder / leftover).write_bytes(b"cut sh")
    with opened(tmp_path) as (store, _):
        assert [p.name for p in folder.iterdir()] == ["000000000000-0001.parquet"]
        add(store, 1, 2)
        assert read(store, "r", START)[0]["v"].to_pylist() == [1, 2]


def test_removal_spares_the_newest_and_what_is_half_read(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        for batch in range(4):
            add(store, batch, batch, batch)
        assert [s.seq for s in store.remove_below("r", Cursor(2, 1))] == [0, 1]
        assert store.begin("r") == Cursor(2, 0)
        assert read(store, "r", Cursor(2, 1))[0]["v"].to_pylist() == [2, 3, 3]
        with pytest.raises(EngineBug):
            read(store, "r", START)
        assert [s.seq for s in store.remove_below("r", store.end("r"))] == [2]
        assert store.remove_below("nobody", START) == []
        files = list((tmp_path / "segments" / "r").iterdir())
        assert [p.name for p in files] == ["000000000003-0001.parquet"]
    with opened(tmp_path) as (store, _):
        assert read(store, "r", Cursor(4, 0))[0].num_rows == 0
        assert add(store, 3, 9) == store.segments("r")[0]  # the replay still finds its segment
        segment = add(store, 4, 4)
        assert segment is not None
        assert segment.seq == 4


def test_memory_is_bounded_and_what_fell_out_is_read_back(tmp_path: Path) -> None:
    batch = list(range(1000))
    with opened(tmp_path, memory_bytes=40_000) as (store, _):
        for number in range(10):
            add(store, number, *batch)
            assert store._tables._bytes <= 40_000
        assert set(store._tables._held) == {("r", 7), ("r", 8), ("r", 9)}
        assert read(store, "r", START)[0]["v"].to_pylist() == batch * 10
        assert store._tables._bytes <= 40_000


def test_streams_are_appended_and_read_from_many_threads(store: SegmentStore) -> None:
    def ingest(stream: str) -> None:
        for batch in range(10):
            add(store, batch, *range(batch * 3, batch * 3 + 3), stream=stream)

    threads = [threading.Thread(target=ingest, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in "abcd":
        assert read(store, name, START)[0]["v"].to_pylist() == list(range(30))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(any),
    limits=st.lists(st.one_of(st.none(), st.integers(1, 7)), max_size=60),
    memory_bytes=st.sampled_from([0, 100, 10_000]),
)
def test_any_cut_gives_every_row_once(
    sizes: list[int], limits: list[int | None], memory_bytes: int
) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder), memory_bytes) as (store, _):
        total = 0
        for batch, size in enumerate(sizes):
            add(store, batch, *range(total, total + size))
            total += size
        seen: list[int] = []
        cursor = START
        for limit in [*limits, None]:
            assert sum(w.tuples for w in store.waiting("r", cursor)) == total - len(seen)
            part, cursor = read(store, "r", cursor, limit)
            assert limit is None or part.num_rows == min(limit, total - len(seen))
            seen += part["v"].to_pylist()
        assert seen == list(range(total))
        assert cursor == store.end("r")


def test_joined_rows_have_no_empty_chunk() -> None:
    schema = pa.schema([("n", pa.int64())])
    full, empty = pa.table({"n": [1]}, schema), schema.empty_table()
    joined = joined_rows([empty, full, empty, full], schema)
    assert [len(chunk) for chunk in joined["n"].chunks] == [1, 1]
    assert joined_rows([empty], schema) == joined_rows([], schema) == empty
