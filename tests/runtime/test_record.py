"""A record in parts: bounded in files, bytes and memory, and read as one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak.runtime import record as record_module
from daybreak.runtime.record import MOST_PARTS, MOST_WAITING, RecordParts
from daybreak.runtime.starts import MOST_STARTS, earlier_starts


def part(first: int, rows: int = 10) -> dict[str, pa.Table]:
    """Two series; the second names what it knows in a dictionary that grows."""
    names = pa.array([f"q{i}" for i in range(first // 100 + 1)])
    codes = pa.array([first // 100] * rows, pa.int32())
    return {
        "a.parquet": pa.table({"n": pa.array(range(first, first + rows), pa.int64())}),
        "b.parquet": pa.table({"query": pa.DictionaryArray.from_arrays(codes, names)}),
    }


@pytest.mark.slow
def test_parts_are_put_together_and_nothing_is_missing(tmp_path: Path) -> None:
    record = RecordParts(tmp_path, 2**30)
    for i in range(3 * MOST_PARTS):
        record.add(part(i * 10))
        record.write()
        assert len(list((tmp_path / "a.parquet").iterdir())) <= MOST_PARTS + 1
    numbers = pq.read_table(tmp_path / "a.parquet", partitioning=None)["n"].to_pylist()
    assert sorted(numbers) == list(range(30 * MOST_PARTS))
    queries = pq.read_table(tmp_path / "b.parquet", partitioning=None)["query"].to_pylist()
    assert sorted(queries) == sorted([f"q{i // 10}" for i in range(3 * MOST_PARTS)] * 10)


def test_the_oldest_parts_make_room_for_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "MOST_PARTS", 10**6)
    record = RecordParts(tmp_path, 20_000)
    for i in range(50):
        record.add(part(i * 1000, rows=1000))
        record.write()
        size = sum(f.stat().st_size for f in tmp_path.rglob("*.parquet") if f.is_file())
        assert size <= 20_000
    numbers = pq.read_table(tmp_path / "a.parquet", partitioning=None)["n"].to_pylist()
    assert max(numbers) == 49_999
    assert record.dropped > 0


def test_what_cannot_be_written_waits_but_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RecordParts(tmp_path / "record", 2**30)
    (tmp_path / "record").write_text("in the way")
    for i in range(2 * MOST_WAITING):
        record.add(part(i * 10))
    with pytest.raises(OSError, match=r"exists|directory"):
        record.write()
    (tmp_path / "record").unlink()
    record.write()
    numbers = pq.read_table(tmp_path / "record/a.parquet", partitioning=None)["n"].to_pylist()
    assert numbers == list(range(10 * MOST_WAITING, 20 * MOST_WAITING))


def test_a_new_start_keeps_the_record_of_the_earlier_one(tmp_path: Path) -> None:
    first = RecordParts(tmp_path, 2**30)
    first.add(part(0))
    first.write()
    (tmp_path / "report.json").write_text("{}")
    RecordParts(tmp_path, 2**30)
    assert [p.name for p in tmp_path.iterdir()] == ["starts"]
    kept = {p.name for p in (tmp_path / "starts/000001").iterdir()}
    assert kept == {"a.parquet", "b.parquet", "report.json"}


def test_a_start_that_never_wrote_a_report_leaves_nothing(tmp_path: Path) -> None:
    first = RecordParts(tmp_path, 2**30)
    first.add(part(0))
    first.write()
    (tmp_path / "boxes.parquet").write_bytes(b"old")
    RecordParts(tmp_path, 2**30)
    assert not list(tmp_path.iterdir())


def test_earlier_starts_make_room_first_and_are_bounded(tmp_path: Path) -> None:
    for _ in range(MOST_STARTS + 5):
        (tmp_path / "report.json").write_text("{}")
        record = RecordParts(tmp_path, 20_000)
    assert len(earlier_starts(tmp_path)) == MOST_STARTS
    (tmp_path / "report.json").write_text("x" * 15_000)
    record = RecordParts(tmp_path, 20_000)
    for i in range(10):
        record.add(part(i * 1000, rows=1000))
        record.write()
    assert not earlier_starts(tmp_path)
    assert pq.read_table(tmp_path / "a.parquet", partitioning=None).num_rows >= 1000


def test_a_part_that_finds_no_room_for_its_second_series_does_not_repeat_its_first(
    tmp_path: Path,
) -> None:
    """Until there is room, all of it can be read from memory."""
    record = RecordParts(tmp_path, 2**30)
    record.add(part(0))
    record.write()
    (tmp_path / "b.parquet").rename(tmp_path / "aside")
    (tmp_path / "b.parquet").write_text("in the way")
    record.add(part(10))
    with pytest.raises(OSError, match="exists"):
        record.write()
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "aside").rename(tmp_path / "b.parquet")
    assert record.tables()["a.parquet"]["n"].to_pylist() == list(range(20))
    assert record.tables()["b.parquet"].num_rows == 20
    record.write()
    numbers = pq.read_table(tmp_path / "a.parquet", partitioning=None)["n"].to_pylist()
    assert numbers == list(range(20))
