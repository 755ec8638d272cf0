"""Complete mode: any SELECT over what is retained, its result replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.modes.feeds import declare, row, write
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks import snapshots
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.snapshots import SnapshotSink, read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.run import Run

RANKED = """
SELECT k, n, v, row_number() OVER (PARTITION BY k ORDER BY v DESC, n) AS place
FROM rows WHERE v > (SELECT avg(v) FROM rows) ORDER BY k, place LIMIT 7
"""


def expected(rows: int) -> list[dict[str, object]]:
    """What ``RANKED`` is over the first rows, by hand."""
    read = [row(n) for n in range(rows)]
    mean = sum(r["v"] for r in read) / len(read)
    found: list[dict[str, object]] = []
    for k in "abc":
        mine = [r for r in read if r["k"] == k and r["v"] > mean]
        mine.sort(key=lambda r: (-r["v"], r["n"]))
        found += [{"k": k, "n": r["n"], "v": r["v"], "place": i + 1} for i, r in enumerate(mine)]
    return found[:7]


def test_a_result_is_that_of_a_batch_and_replaces_the_last_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    write(tmp_path / "in", 0, map(row, range(40)))
    app.query("ranked", sql=RANKED, mode="complete", sink={"format": "parquet", "path": "out"})
    app.query("newest", sql="SELECT max(n) AS n FROM rows", mode="complete")

    @app.query(mode="complete")
    def counted(rows):  # type: ignore[no-untyped-def]
        return rows.groupBy("k").count().orderBy("k").limit(2)

    run_dir = tmp_path / "run"
    with app.run(run_dir=run_dir) as run:
        run.drain()
        assert run.rows("newest").to_pylist() == [{"n": 39}]
        first = read_snapshot(tmp_path / "out")
        assert first is not None
        assert first.table().to_pylist() == expected(40)
        assert first.streams == {"rows": {"first": 0, "end": 1, "rows": 40}}
        write(tmp_path / "in", 1, map(row, range(40, 100)))
        until(lambda: newest(run) == 99, "the next result")
        run.drain()
        assert run.rows("counted").to_pylist() == [{"k": "a", "count": 34}, {"k": "b", "count": 33}]
        status = {q.name: q for q in run.snapshot().queries}
        assert (status["ranked"].kind, status["ranked"].behind) == ("complete", 0)
    second = read_snapshot(tmp_path / "out")
    assert second is not None
    assert second.table().to_pylist() == expected(100)
    assert second.streams["rows"]["rows"] == 100
    with app.run(run_dir=run_dir) as run:  # retained rows are there after a restart
        write(tmp_path / "in", 2, map(row, range(100, 120)))
        until(lambda: newest(run) == 119, "a result after the restart")
        run.drain()
    third = read_snapshot(tmp_path / "out")
    assert third is not None
    assert third.table().to_pylist() == expected(120)
    assert third.streams["rows"] == {"first": 0, "end": 3, "rows": 120}


def newest(run: Run) -> object:
    found = run.rows("newest").to_pylist()
    return found[0]["n"] if found else None


def test_complete_mode_is_refused_where_it_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark, tmp_path, retain=None)
    app.query("q", sql="SELECT max(n) FROM rows", mode="complete")
    with pytest.raises(ConfigError, match="retains no rows") as refused:
        app.check()
    assert "retain" in refused.value.remedy
    app = declare(spark, tmp_path)
    app.query("q", sql="SELECT rand() AS r, n FROM rows", mode="complete")
    with pytest.raises(ConfigError, match=r"uses rand\(\)"):
        app.check()
    app = declare(spark, tmp_path)
    app.query("q", sql="SELECT n FROM rows", mode="complete", sink={"format": "csv", "path": "out"})
    with pytest.raises(ConfigError, match="cannot replace a result as a whole"):
        app.check()


def test_a_refusal_names_complete_mode(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark, tmp_path)
    app.query("q", sql="SELECT n FROM rows ORDER BY v")
    with pytest.raises(ConfigError) as refused:
        app.check()
    assert 'mode = "complete"' in refused.value.remedy


def committed(sink: SnapshotSink, number: int, rows: int, log: str = "log") -> CommittedFile:
    job = f"{log}-{number}"
    [staged] = sink.stage(job, pa.table({"n": list(range(rows))}))
    return CommittedFile(number, job, "q", staged.path, rows, staged.content)


def test_snapshots_are_replaced_in_order_and_an_older_one_never_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = SnapshotSink("q", out, pq.write_table)
    files = [committed(sink, number, rows) for number, rows in ((1, 3), (2, 0), (3, 5), (4, 2))]
    assert sink.deliver(files[0])
    assert sink.deliver(files[1])
    empty = read_snapshot(out)
    assert empty is not None
    assert empty.table().num_rows == 0, "a result without rows replaces one with rows"
    assert sink.deliver(files[3])
    assert sink.deliver(files[2]), "its content is needed no more"
    current = read_snapshot(out)
    assert current is not None
    assert (current.number, current.table().num_rows) == (4, 2)
    assert sink.has(files[2])
    assert not sink.staged()
    assert len(list(out.glob("snapshot-*"))) == 2, "the newest and the one before it"


def test_results_of_another_run_directory_replace_those_that_were_numbered_higher(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    sink = SnapshotSink("q", out, pq.write_table)
    assert sink.deliver(committed(sink, 7, 3))
    # Left by a crash of some other run directory, under the number that comes next.
    (out / "snapshot-000000000008").mkdir()
    pq.write_table(pa.table({"n": [9]}), out / "snapshot-000000000008" / "a.parquet")
    for number, rows in ((1, 5), (2, 4)):
        file = committed(sink, number, rows, "other")
        assert not sink.has(file)
        assert sink.deliver(file)
        assert sink.has(file)
        current = read_snapshot(out)
        assert current is not None
        assert (current.number, current.table().num_rows) == (7 + number, rows)


@pytest.mark.parametrize(
    ("step", "call"),
    [
        ("make_folder", 0), ("_write_synced", 0), ("_write_synced", 1), ("move_durably", 0),
        ("move_durably", 1), ("_pointer", 1), ("_pointer", 2),
    ],
)  # fmt: skip
def test_a_driver_that_was_suspended_does_not_put_an_older_result_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int
) -> None:
    out = tmp_path / "out"
    suspended, other = (SnapshotSink("q", out, pq.write_table) for _ in range(2))
    files = [committed(other, number, number) for number in (1, 2, 3)]
    assert other.deliver(files[0])
    take, calls = getattr(snapshots, step), list[object]()

    def take_over(*args: Any) -> Any:
        """Before this call the driver is suspended, and the other one delivers all there is."""
        calls.append(args)
        if len(calls) == call + 1:
            assert other.deliver(files[1])
            assert other.deliver(files[2])
        return take(*args)

    monkeypatch.setattr(snapshots, step, take_over)
    suspended.deliver(files[1])
    monkeypatch.undo()
    assert len(calls) > call
    current = read_snapshot(out)
    assert current is not None
    assert (current.number, current.table().num_rows) == (3, 3)
    last = out / "snapshot-000000000002" / files[1].path.name
    assert pq.read_metadata(last).num_rows == 2, "somebody may be reading it"
    assert not [path for path in out.iterdir() if path.name.startswith((".", "CURRENT."))]


def test_what_a_crash_left_of_a_pointer_is_no_reason_to_refuse_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("CURRENT.partial", ".CURRENT-00"):
        (out / name).write_text("{")
    spec = SinkSpec(format="parquet", path="out")
    sink = make_sink("q", spec, tmp_path, tmp_path / "staging", mode="complete")
    assert isinstance(sink, SnapshotSink)
    assert sink.deliver(committed(sink, 1, 3))
    current = read_snapshot(out)
    assert current is not None
    assert current.table().num_rows == 3


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.parquet").write_bytes(b"")
    spec = SinkSpec(format="parquet", path="out")
    with pytest.raises(ConfigError, match=r"rows\.parquet, which is no result of complete mode"):
        make_sink("q", spec, tmp_path, tmp_path / "staging", mode="complete")
