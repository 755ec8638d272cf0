"""Streams that are read directly: what is there is answered once, whatever happens meanwhile."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.spark.ingest.direct_app import answered, application, arrive
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.report.run import ingest_lines
from daybreak.runtime.starts import load_run
from daybreak.spark.ingest.direct.intake import Intake, IntakeFailed
from daybreak.spark.log.commitlog import CommitLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_files_are_answered_once_over_several_starts(spark: SparkSession, tmp_path: Path) -> None:
    app, run_dir = application(spark, tmp_path), tmp_path / "run"
    arrive(tmp_path, "a b%20c", 1, 2)
    with app.run("fcfs", run_dir=run_dir) as run:
        run.drain()
        arrive(tmp_path, "b", 3)
        run.drain()
        arrive(tmp_path, "empty")
        run.drain()
    arrive(tmp_path, "c", 4)
    with app.run("fcfs", run_dir=run_dir) as run:
        run.drain()
        assert not (run_dir / "checkpoints/r").exists()
    assert answered(tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["add_segment", "sync", "move_source"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), OSError(errno.ENOSPC, "full")])
def test_after_an_error_the_log_decides_where_to_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool,
    error: OSError,
) -> None:  # fmt: skip
    """A commit that was reported as failed may be there, and one that was not synced as well."""
    app = application(spark, tmp_path)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=Limits(retry_s=0.01)) as run:
        arrive(tmp_path, "a", 1)
        run.drain()
        log = run.parts.storage.log
        real, left = getattr(log, step), [1]

        def fails(*given: Any) -> Any:
            ingesting = threading.current_thread().name == "ingest-r"
            if after or not ingesting or not left[0]:
                done = real(*given)
            if ingesting and left[0]:
                left[0] -= 1
                raise error
            return done

        monkeypatch.setattr(log, step, fails)
        arrive(tmp_path, "b", *((2, 3) if step != "move_source" else ()))
        until(lambda: not left[0], "it fails")
        arrive(tmp_path, "c", 4)
        run.drain()
        assert not run.failures
        assert not run.parts.inflow.sources.stopped()
    assert answered(tmp_path) == ([1, 2, 3, 4] if step != "move_source" else [1, 4])


def test_a_read_that_fails_is_repeated_as_a_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times in a row; jobs read from then on."""
    reads = [0]

    def fails(*_given: Any) -> Any:
        reads[0] += 1
        raise IntakeFailed("no shared memory")

    monkeypatch.setattr(Intake, "read_files", fails)
    with application(spark, tmp_path).run("fcfs", run_dir=tmp_path / "run") as run:
        for number in range(5):
            arrive(tmp_path, str(number), number)
            run.drain()
        [stream] = run.snapshot().streams
        assert stream.ingest == "jobs: IntakeFailed: no shared memory"
    assert answered(tmp_path) == [0, 1, 2, 3, 4]
    assert reads == [3]


def test_what_no_job_can_read_stops_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    """With the reader's own words; another file in its place, and it goes on."""
    app = application(spark, tmp_path, format="parquet")
    bad = tmp_path / "in/bad.parquet"
    bad.write_bytes(b"no parquet, but long enough for a tail")
    limits = Limits(retries=0)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        sources = run.parts.inflow.sources
        until(lambda: sources.stopped().get("r"), "the stream stops")
        assert "bad.parquet is not a Parquet file" in sources.stopped()["r"]
        pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "in/.good")
        (tmp_path / "in/.good").rename(bad)
        sources.resume("r")
        until(lambda: not sources.stopped(), "it is started again")
        run.drain()
    assert answered(tmp_path) == [1, 2]


def test_the_way_of_a_stream_is_shown_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    for folder in ("in", "kept"):
        (tmp_path / folder).mkdir()
    app = application(spark, tmp_path)
    ways: dict[str, dict[str, Any]] = {
        "archived": {"options": {"cleanSource": "delete"}},
        "chosen": {"ingest": "spark"},
        "made": {"format": "generator", "schema": None, "path": None},
    }
    for name, declared in ways.items():
        stream = {"format": "json", "schema": "n BIGINT", "path": "in", **declared}
        app.stream(name, **stream)
        app.query(f"of {name}", sql=f"SELECT * FROM {name}")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        shown = {stream.name: stream.ingest for stream in run.snapshot().streams}
        assert shown["r"] == "direct"
        assert shown["archived"].startswith("spark: cleanSource")
        assert shown["chosen"] == 'spark: ingest = "spark"'
        assert shown["made"] == ""
    report = load_run(tmp_path / "run")
    assert "streams: 1 of 3 were read directly" in ingest_lines(report)
    app = application(spark, tmp_path, options={"cleanSource": "delete"})
    with pytest.raises(ConfigError, match=r"cannot be read directly: cleanSource .*auto"):
        app.run("fcfs", run_dir=tmp_path / "other")


def test_large_batches_and_their_malformed_records_pass_the_driver_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    arrive(tmp_path, "a", *range(50))
    (tmp_path / "in/b.json").write_text('{"n": 50}\nbad\nworse\n')
    app = application(spark, tmp_path)
    limits = Limits(driver_batch_bytes=1)
    for _ in range(2):
        with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
            run.drain()
            [stream] = run.snapshot().streams
            assert (stream.dead_letters, stream.ingest) == (2, "direct")
            assert stream.rows_through_driver <= 51, "of them, those that jobs read"
    kept = ds.dataset(tmp_path / "run/dead/r").to_table()["record"].to_pylist()
    assert sorted(kept) == ["bad", "worse"]
    assert answered(tmp_path) == list(range(51))


def test_many_malformed_records_are_listed_with_their_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that no transaction lists is swept; its records come with their batch again."""
    application(spark, tmp_path)
    (tmp_path / "in/a.json").write_text("bad " * 5 + "\n" + '{"n": 1}\n' + "x" * 300_000 + "\n")
    limits = Limits(retries=0)

    def killed(*_given: Any) -> None:
        raise ConfigError("test", "killed", "start again")

    with monkeypatch.context() as killing:
        killing.setattr(CommitLog, "add_segment", killed)
        with (
            pytest.raises(ConfigError, match="killed"),
            application(spark, tmp_path).run(
                "fcfs", run_dir=tmp_path / "run", limits=limits
            ) as run,
        ):
            run.drain()
    unlisted = tmp_path / "run/dead/r"
    assert [path.name[:14] for path in unlisted.glob("*.parquet")] == ["000000000000-e"]
    with application(spark, tmp_path).run("fcfs", run_dir=tmp_path / "run") as run:
        run.drain()
        assert run.snapshot().streams[0].dead_letters == 2
    assert [path.name for path in unlisted.glob("*.parquet")] == ["000000000000.parquet"]
    assert answered(tmp_path) == [1]
