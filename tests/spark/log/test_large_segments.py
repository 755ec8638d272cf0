"""Segments of files that executors wrote: listed whole or not at all, read by file, removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.log.conftest import OpenLog

from daybreak.engine.inbox import Inbox, Waiting
from daybreak.model import ConfigError
from daybreak.spark.log import rows
from daybreak.spark.log.large_segments import read_footers
from daybreak.spark.log.rows import Cursor, Part
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL

FILES = ([1, 2, 3], [4, 5])


@pytest.fixture(autouse=True)
def trains_of_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TRAIN_BYTES", 1)


@contextmanager
def opened(root: Path, open_log: OpenLog) -> Iterator[SegmentStore]:
    with RunDirectory.open(root, "fires") as rundir:
        log = open_log()
        try:
            yield SegmentStore(rundir, log)
        finally:
            log.close()


def at(second: int) -> datetime:
    return datetime(2024, 1, 1, 0, 0, second, tzinfo=UTC)


def write(folder: Path, time: str | None) -> tuple[Part, ...]:
    """As executors do."""
    folder.mkdir()
    for i, values in enumerate(FILES):
        stamps = pa.array([at(v) for v in values], pa.timestamp("us", "UTC"))
        table = pa.table({"v": pa.array(values, pa.int32()), "at": stamps})
        pq.write_table(table, folder / f"part-{i}.parquet")
    pq.write_table(table.slice(0, 0), folder / "part-9.parquet")
    return read_footers(folder, time).parts


def never(_folder: Path, _time: str | None) -> tuple[Part, ...]:
    raise AssertionError("the batch is known")


def append(store: SegmentStore, batch_id: int = 0) -> Segment:
    segment = store.append_files("r", "cp", batch_id, {"end": batch_id}, write, 1000 + batch_id)
    assert segment is not None
    return segment


def test_it_is_listed_with_its_files_and_found_again(tmp_path: Path, open_log: OpenLog) -> None:
    with opened(tmp_path, open_log) as store:
        store.keep_time("r", "at", 1_000_000)
        segment = append(store)
        assert (segment.rows, segment.borders) == (5, (3, 2))
        first, last = (round(at(second).timestamp()) * 10**6 for second in (1, 5))
        assert (segment.low_us, segment.high_us) == (first, last)
        assert segment.after_us == last - 1_000_000
    with opened(tmp_path, open_log) as store:
        assert store.segments("r") == [segment]
        again = store.append_files("r", "cp", 0, {"end": 0}, never, 5)
        assert again is not None
        assert again.seq == segment.seq
        table = store.table(segment)
        assert table["v"].to_pylist() == [1, 2, 3, 4, 5]
        assert set(table[ARRIVAL].to_pylist()) == {1000}
        assert store.driver_rows.streams == {"r": 5}, "this was a read by the driver"


def test_small_files_are_read_together(
    tmp_path: Path, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, open_log) as store:
        append(store)
        monkeypatch.setattr(rows, "TRAIN_BYTES", 2**20)
        [item] = store.waiting("r", Cursor(0, 0))
        assert [file.path.name for file in store.files([item])] == [
            "part-0.parquet", "part-1.parquet",
        ]  # fmt: skip
        [rest] = store.waiting("r", Cursor(0, 2))
        assert [(file.first, file.rows) for file in store.files([rest])] == [(2, 1), (0, 2)]


def test_trains_name_files_and_rows_in_them(tmp_path: Path, open_log: OpenLog) -> None:
    with opened(tmp_path, open_log) as store:
        append(store)
        inbox = Inbox.of(store.waiting("r", Cursor(0, 0)))
        taken = inbox.take(1)
        assert [(f.path.name, f.rows, f.whole) for f in store.files(taken)] == [
            ("part-0.parquet", 3, True)
        ]
        assert store.passed(taken) == {"r": (Cursor(0, 0), Cursor(0, 3))}
        cut = Inbox.of(store.waiting("r", Cursor(0, 1))).take(1, cuts=True)
        assert cut == [Waiting(1000, "r", 1, 0, 1, whole=True)]
        assert store.read(cut)["v"].to_pylist() == [2]
        assert store.driver_rows.streams == {"r": 1}, "not the whole segment"
        [file] = store.files(cut)
        assert (file.path.name, file.first, file.rows, file.whole) == (
            "part-0.parquet", 1, 1, False,
        )  # fmt: skip


def test_what_was_not_listed_is_swept_and_what_was_is_removed_whole(
    tmp_path: Path, open_log: OpenLog
) -> None:
    with opened(tmp_path, open_log) as store:
        first, second = append(store, 0), append(store, 1)
        left = tmp_path / "segments/r/000000000002-0001-0badcafe"
        left.mkdir()
        (left / "part-0.parquet").write_bytes(b"torn")
    with opened(tmp_path, open_log) as store:
        assert not left.exists()
        assert store.remove_below("r", Cursor(1, 0)) == [first]
        assert not (tmp_path / "segments" / first.file).exists()
        assert (tmp_path / "segments" / second.file).is_dir()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, open_log: OpenLog) -> None:
    def fail(folder: Path, time: str | None) -> tuple[Part, ...]:
        write(folder, time)
        raise OSError("an executor is gone")

    with opened(tmp_path, open_log) as store:
        with pytest.raises(OSError, match="executor"):
            store.append_files("r", "cp", 0, {}, fail, 1000)
        assert list((tmp_path / "segments/r").iterdir()) == []
        assert append(store).seq == 0


def test_a_start_is_refused_if_a_file_is_missing(tmp_path: Path, open_log: OpenLog) -> None:
    with opened(tmp_path, open_log) as store:
        segment = append(store)
    (tmp_path / "segments" / segment.file / "part-1.parquet").unlink()
    with (
        pytest.raises(ConfigError, match=r"part-1\.parquet is missing"),
        opened(tmp_path, open_log),
    ):
        pass
