"""The Delta sink and partitions: what readers find, and what is refused before anything starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.soaking.delta_reader import delta_rows
from benchmarks.soaking.duck import duck_rows
from deltalake import DeltaTable, write_deltalake
from tests.until import until

from daybreak import extras
from daybreak.model import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.failures import SinkUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.delivery import bring, recover
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.partitioning import UnfitPartition
from daybreak.spark.sinks.sink import Sink

pytestmark = pytest.mark.slow

DAY = date(2024, 2, 29)
ROWS = pa.table(
    {
        "station": ["a", "b", "ü/?=% .", None],
        "t": pa.array([1, 2, 3, 4], pa.int32()),
        "day": pa.array([DAY, date(2024, 3, 1), DAY, None]),
    }
)
ALL = [
    ("a", 1, "2024-02-29"),
    ("b", 2, "2024-03-01"),
    ("ü/?=% .", 3, "2024-02-29"),
    (None, 4, None),
]


def make(
    folder: Path,
    kind: str = "delta",
    schema: pa.Schema | None = ROWS.schema,
    by: tuple[str, ...] = (),
    **options: str,
) -> Sink:
    spec = SinkSpec(format=kind, path="out", options=options, partition_by=by)
    return make_sink("fire", spec, folder, folder / "staging", place="p.toml:3", schema=schema)


def commit(log: CommitLog, sink: Sink, rows: pa.Table = ROWS) -> list[CommittedFile]:
    job = log.new_job()
    return log.commit(job, [], sink.stage(job, rows))


def deliver(folder: Path, sink: Sink, rows: pa.Table = ROWS, times: int = 1) -> None:
    log = CommitLog(folder / "state.db")
    for _ in range(times):
        for file in commit(log, sink, rows):
            bring(sink, file)
    sink.publish(now=True)
    log.close()


@pytest.mark.parametrize("by", [(), ("day",), ("station",), ("day", "station")])
def test_two_readers_find_all_rows_of_a_table(tmp_path: Path, by: tuple[str, ...]) -> None:
    deliver(tmp_path, make(tmp_path, by=by))
    shown = "station, t, CAST(day AS text)"
    assert delta_rows(tmp_path / "out", shown, "ORDER BY t") == ALL
    table = DeltaTable(tmp_path / "out")
    rows = table.to_pyarrow_table().select(["station", "t", "day"]).sort_by("t").to_pylist()
    assert rows == ROWS.to_pylist()
    assert table.metadata().partition_columns == list(by)
    make(tmp_path, by=by)  # what it made is what it appends to


@pytest.mark.parametrize("by", [("day",), ("day", "station")])
def test_partitions_of_files_are_read_by_another_engine(
    tmp_path: Path, by: tuple[str, ...]
) -> None:
    deliver(tmp_path, make(tmp_path, "parquet", by=by))
    files = f"{tmp_path}/out/*{'/*' * len(by)}"
    read = f"read_parquet('{files}', hive_partitioning = true, hive_types_autocast = false)"
    assert duck_rows(f"SELECT station, t, CAST(day AS text) FROM {read} ORDER BY t") == ALL
    make(tmp_path, "parquet", by=by)


def test_every_type_that_spark_and_delta_share(tmp_path: Path) -> None:
    at = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
    rows = pa.table(
        {
            "i8": pa.array([-1], pa.int8()),
            "i64": pa.array([2**63 - 1], pa.int64()),
            "f32": pa.array([0.5], pa.float32()),
            "nan": pa.array([float("nan")], pa.float64()),
            "yes": [True],
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "local": pa.array([at.replace(tzinfo=None)], pa.timestamp("us")),
            "raw": pa.array([b"\x00"], pa.binary()),
            "list": pa.array([[1, None]], pa.list_(pa.int32())),
            "deep": pa.array([{"a": "x"}], pa.struct([("a", pa.string())])),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    deliver(tmp_path, make(tmp_path, schema=rows.schema), rows)
    found = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    assert str(found) == str(rows.to_pylist())  # as a text: nan differs from itself


def test_results_are_gathered_into_one_version(tmp_path: Path) -> None:
    sink = make(tmp_path, publish_every="1 hour")
    log = CommitLog(tmp_path / "state.db")
    files = [file for _ in range(5) for file in commit(log, sink)]
    for file in files:
        bring(sink, file)
    sink.publish(now=False)
    assert not (tmp_path / "out").exists(), "an hour has not passed"
    assert not any(map(sink.settled, files))
    sink.publish(now=True)
    log.close()
    table = DeltaTable(tmp_path / "out")
    assert (table.version(), len(table.file_uris())) == (1, 1), "made, and appended to once"
    assert table.to_pyarrow_table().num_rows == 5 * ROWS.num_rows
    [added] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    stats = {k: v for k, v in added.items() if k.split(".")[-1] in ("t", "day", "num_records")}
    assert stats == {
        "num_records": 20, "null_count.t": 0, "min.t": 1, "max.t": 4,
        "null_count.day": 5, "min.day": DAY, "max.day": date(2024, 3, 1),
    }  # fmt: skip


def test_enough_results_are_published_before_their_time(tmp_path: Path) -> None:
    sink = make(tmp_path, publish_every="1 hour", publish_files="3")
    log = CommitLog(tmp_path / "state.db")
    for _ in range(4):
        [file] = commit(log, sink)
        bring(sink, file)
    log.close()
    assert DeltaTable(tmp_path / "out").to_pyarrow_table().num_rows == 3 * ROWS.num_rows


def test_compaction_changes_files_and_no_rows(tmp_path: Path) -> None:
    for _ in range(3):
        deliver(tmp_path, make(tmp_path))
    before = DeltaTable(tmp_path / "out").file_uris()
    sink = make(tmp_path, compact_every="1 microsecond")
    sink.publish(now=False)
    until(lambda: len(DeltaTable(tmp_path / "out").file_uris()) == 1, "compaction")
    assert len(before) == 3
    assert len(delta_rows(tmp_path / "out", "t")) == 3 * ROWS.num_rows
    deliver(tmp_path, make(tmp_path))
    assert len(delta_rows(tmp_path / "out", "t")) == 4 * ROWS.num_rows


def test_another_run_directory_appends_to_the_same_table(tmp_path: Path) -> None:
    """Numbers of deliveries begin at 1 again; they are not taken for repetitions."""
    for life in ("one", "two"):
        (tmp_path / life).mkdir()
        deliver(tmp_path / life, make(tmp_path))
    assert len(delta_rows(tmp_path / "out", "t")) == 2 * ROWS.num_rows


def _other(
    schema: dict[str, Any], by: list[str] | None = None, **more: Any
) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_deltalake(path, pa.table(schema), partition_by=by, **more)

    return write


def _nonsense(path: Path) -> None:
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / f"{0:020d}.json").write_text("nonsense")


SAME = dict(zip(ROWS.column_names, ROWS.columns, strict=True))


@pytest.mark.parametrize(
    ("before", "kind", "by", "expected"),
    [
        (_other({**SAME, "t": ["1"] * 4}), "delta", (), "column 't' is .*integer.*in the table"),
        (_other({"t": ROWS["t"]}), "delta", (), "'station' is .* no such column; choose another"),
        (_other(SAME, ["day"]), "delta", (), r"partitioned by \['day'\], the query's by \[\]"),
        (_other(SAME), "delta", ("day",), r"give partition_by = \[\], or choose another path"),
        (_other(SAME), "parquet", (), "out holds a Delta table; choose an empty folder"),
        (lambda p: (p / "a.csv").write_text(""), "delta", (), "holds a.csv, and is no Delta"),
        (lambda p: (p / "a.csv").write_text(""), "csv", (), "a.csv, which no sink of Daybreak"),
        (_nonsense, "delta", (), "no Delta table that can be read"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused(
    tmp_path: Path,
    before: Callable[[Path], object],
    kind: str,
    by: tuple[str, ...],
    expected: str,
) -> None:
    (tmp_path / "out").mkdir()
    before(tmp_path / "out")
    with pytest.raises(ConfigError, match=expected) as refused:
        make(tmp_path, kind, by=by)
    assert str(refused.value).startswith("p.toml:3: sink: ")


@pytest.mark.parametrize(("kind", "by"), [("json", ()), ("parquet", ("day",)), ("delta", ())])
def test_a_folder_of_ours_with_another_layout_is_refused(
    tmp_path: Path, kind: str, by: tuple[str, ...]
) -> None:
    deliver(tmp_path, make(tmp_path, "parquet"))
    make(tmp_path, "parquet")
    with pytest.raises(ConfigError, match=r"out holds .*\.parquet.*; choose an empty folder"):
        make(tmp_path, kind, by=by)


@pytest.mark.parametrize(
    ("by", "options", "expected"),
    [
        (("dya",), {}, "partition_by 'dya' is not one of its columns; did you mean 'day'"),
        (("station", "t", "day"), {}, "partition_by names all columns"),
        (("day", "day"), {}, "name each column once"),
        ((), {"publish_files": "0"}, "publish_files '0'"),
        ((), {"publish_every": "soon"}, "publish_every = 'soon' is no duration"),
        ((), {"compression": "rar"}, "compression 'rar'"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(
    tmp_path: Path, by: tuple[str, ...], options: dict[str, str], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        make(tmp_path, by=by, **options)


def test_types_that_a_place_does_not_have_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("took", pa.duration("us")), ("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(ConfigError, match=r"'took' is duration\[us\], which Delta does not have"):
        make(tmp_path, schema=schema)
    with pytest.raises(
        ConfigError, match=r"column 'at' is timestamp.* cast it in the query: to DATE"
    ):
        make(tmp_path, "parquet", schema, ("at",))


def test_an_empty_text_is_no_partition(tmp_path: Path) -> None:
    for kind in ("parquet", "delta"):
        sink = make(tmp_path, kind, by=("station",))
        with pytest.raises(UnfitPartition, match=r"nullif\(station, ''\)"):
            sink.stage("j", pa.table({"station": [""], "t": [1], "day": [DAY]}))


def test_the_missing_package_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'daybreak\[delta\]'"):
        make(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("spared", [0, 2**12, 2**14])
def test_a_full_disk_keeps_results_waiting(tmp_path: Path, spared: int) -> None:
    """Before or after the rows are written; once there is room, each is there once."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a tmpfs")
    log = CommitLog(tmp_path / "state.db")
    try:
        spec = SinkSpec(format="delta", path="out")
        sink = make_sink("fire", spec, disk, tmp_path / "staging", schema=ROWS.schema)
        [file] = commit(log, sink)
        bring(sink, file)
        balloon = disk / "balloon"
        with suppress(OSError), balloon.open("wb", buffering=0) as out:
            while out.write(bytes(2**12)):
                pass
        os.truncate(balloon, balloon.stat().st_size - spared)
        with suppress(SinkUnavailable):  # there may be room after all
            sink.publish(now=True)
        if spared == 0:
            assert not sink.settled(file)
            with pytest.raises(
                SinkUnavailable, match=r"no room for rows in .*/out; results are kept"
            ):
                bring(sink, file)
        balloon.unlink()
        sink.publish(now=True)
        assert sink.settled(file)
        assert len(delta_rows(disk / "out", "t")) == ROWS.num_rows
    finally:
        log.close()
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_table_that_somebody_changed_keeps_its_rows_waiting(tmp_path: Path) -> None:
    """Found when it is published: named, kept in the log, and delivered once it is mended."""
    sink = make(tmp_path)
    deliver(tmp_path, sink)
    path, aside = tmp_path / "out", tmp_path / "aside"
    path.rename(aside)
    write_deltalake(path, pa.table({"other": [1]}))
    log = CommitLog(tmp_path / "state.db")
    [file] = commit(log, sink)
    bring(sink, file)
    with pytest.raises(ConfigError, match="no such column"):
        sink.publish(now=True)
    with pytest.raises(ConfigError, match="no such column"):
        bring(sink, file)  # the engine is told at the next delivery
    assert not sink.settled(file)
    path.rename(tmp_path / "theirs")
    aside.rename(path)
    recover(log, {"fire": make(tmp_path)})
    assert not log.undelivered()
    log.close()
    assert len(delta_rows(path, "t")) == 2 * ROWS.num_rows
