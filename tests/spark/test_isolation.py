"""One query fails, whatever way: it is tried again, parked with its error, and the rest goes on."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.soaking.nonsense import records
from pyspark.sql.types import IntegerType
from tests.until import until

from daybreak.model import Arrivals, ConfigError, QueryFailed
from daybreak.model.limits import Limits
from daybreak.runtime.control import call
from daybreak.runtime.report import RunReport
from daybreak.spark.app import App
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SOON = Limits(retries=2, retry_s=0.05)


def declare(spark: SparkSession, rows: int = 100, folder: Path | None = None) -> App:
    app = App(spark, name="isolation", folder=folder or Path())
    arrivals = Arrivals(rate_per_s=rows * 4)
    app.stream("readings", format="generator", options={"limit": rows}, arrivals=arrivals)
    app.query("well", sql="SELECT reading FROM readings")
    return app


def readings(run: Run, query: str) -> list[int]:
    return sorted(run.rows(query)["reading"].to_pylist())


def stands(run: Run, query: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        q for q in call(run.folder, "snapshot")["queries"] if q["name"] == query
    )
    return found


def test_a_poisoned_record_is_narrowed_down_and_can_be_stepped_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A UDF that throws on one record out of sixteen."""

    def fragile(n: int) -> int:
        if n == 9:
            raise ValueError("poison")
        return n

    spark.udf.register("fragile", fragile, IntegerType())
    app = declare(spark, rows=16)
    app.query("poisoned", sql="SELECT fragile(CAST(reading AS INT)) AS reading FROM readings")
    limits = Limits(retries=5, retry_s=0.001)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        run.drain()
        assert readings(run, "well") == list(range(16))
        parked = stands(run, "poisoned")
        assert parked["state"] == "parked"
        assert parked["failures"] == 6
        assert "poison" in parked["error"] or "PythonException" in parked["error"]
        assert readings(run, "poisoned") == list(range(9)), "all before the bad record"
        call(run.folder, "resume", {"query": "poisoned"})
        run.drain()
        assert stands(run, "poisoned")["state"] == "parked", "it fails again"
        told = call(run.folder, "resume", {"query": "poisoned", "skip": True})
        assert told["skipped"] == 1
        run.drain()
        assert readings(run, "poisoned") == [n for n in range(16) if n != 9]
        assert stands(run, "poisoned")["losses"] == {"skipped": 1}
    assert run.report().manifest["lost"] == {"poisoned": {"skipped": 1}}
    assert not run.failures


def test_a_parked_query_is_a_warning_and_an_error_at_the_end_of_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Spark's own message, and an empty table for what it has given."""
    monkeypatch.chdir(tmp_path)
    app = declare(spark)
    at = "timestamp_micros(reading)"
    app.query("pattern", sql=f"SELECT date_format({at}, 'YYYY-MM-DD') AS day FROM readings")
    with (  # noqa: PT012  # what is raised at the end of the block is the point
        warnings.catch_warnings(record=True) as warned,
        pytest.raises(
            QueryFailed, match=r"query 'pattern' is parked: .*Fail to recognize"
        ) as caught,
        app.run("fcfs", limits=SOON) as run,
    ):
        warnings.simplefilter("always")
        run.drain()
        nothing = run.rows("pattern")
        assert (nothing.num_rows, nothing.schema) == (0, pa.schema([("day", pa.string())]))
    assert caught.value.failures == run.failures
    assert "[INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION] " in str(
        caught.value
    )
    assert [str(w.message).split(":")[0] for w in warned if w.category is RuntimeWarning] == [
        "query 'pattern' is parked"
    ]
    assert readings(run, "well") == list(range(100))
    assert run.folder == tmp_path / "runs" / "isolation", "named after the application"
    app.name = "another"
    with pytest.raises(ConfigError, match="belongs to application 'isolation', not 'another'"):
        app.run("fcfs", run_dir="runs/isolation")


def test_a_sink_folder_that_refuses_parks_its_query_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A file where the sink's staging folder should be refuses even root."""
    app = declare(spark, folder=tmp_path)
    app.query(
        "blocked",
        sql="SELECT reading FROM readings WHERE reading >= 0",
        sink={"format": "parquet", "path": "out"},
    )
    run = app.run("fcfs", run_dir=tmp_path / "run", limits=SOON)
    shutil.rmtree(tmp_path / "out")  # the start has made it, for its lock
    (tmp_path / "out").write_text("in the way")
    with run:
        run.drain()
        assert run.failures.keys() == {"blocked"}
        assert readings(run, "well") == list(range(100))
        (tmp_path / "out").unlink()
        run.resume("blocked")
        run.drain()
        assert not run.failures
    found = pq.read_table(tmp_path / "out", partitioning=None)["reading"].to_pylist()
    assert sorted(found) == list(range(100))
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_a_sink_that_will_not_take_a_result_gets_it_later_and_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    works, got, calls = threading.Event(), list[int](), [0]

    def external(rows: pa.Table, _key: str) -> None:
        calls[0] += 1
        if not works.is_set():
            raise ConnectionError("database is away")
        got.extend(rows["reading"].to_pylist())

    app = declare(spark)
    app.query("external", sql="SELECT reading FROM readings", sink=external)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=SOON) as run:
        run.drain()
        assert run.failures == {"external": "ConnectionError: database is away"}
        assert calls[0] == 1 + SOON.retries
        assert readings(run, "well") == list(range(100))
        works.set()
        run.resume("external")
        run.drain()
        assert stands(run, "external")["state"] == "running"
    assert sorted(got) == list(range(100))


def test_a_sink_that_does_not_return_holds_up_its_own_query_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One worker, so that nobody else could do the rest; the same key comes again."""
    released, keys, got = threading.Event(), list[str](), dict[str, list[int]]()

    def external(rows: pa.Table, key: str) -> None:
        keys.append(key)
        assert released.wait(120)
        got[key] = rows["reading"].to_pylist()  # by its key: a repetition changes nothing

    app = declare(spark)
    app.query("external", sql="SELECT reading FROM readings", sink=external)
    limits = Limits(retries=2, retry_s=0.05, job_timeout_s=1.0)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits, workers=1) as run:
        run.drain()
        assert run.failures.keys() == {"external"}
        assert readings(run, "well") == list(range(100))
        assert len(keys) == 1, "it is not called again before it has returned"
        released.set()
        until(lambda: len(got) == 1)
        run.resume("external")
        run.drain()
        assert stands(run, "external")["state"] == "running"
    assert sorted(n for rows in got.values() for n in rows) == list(range(100))
    assert keys[:2] == keys[:1] * 2, "what it was given is given again, with the same key"


def test_a_job_past_its_time_is_cancelled_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """On Spark by its tag, and where its plan was prepared; what hangs in Python is left behind."""

    def slow(n: int) -> int:
        time.sleep(60)
        return n

    spark.udf.register("slow", slow, IntegerType())
    hung = threading.Event()
    app = declare(spark)
    app.query("slow", sql="SELECT slow(CAST(reading AS INT)) AS reading FROM readings")
    app.query(  # half a minute and more, most of it after the time limit
        "long",
        sql="SELECT reading FROM readings LATERAL VIEW explode(sequence(1, 10000)) t AS x "
        "LATERAL VIEW explode(sequence(1, 10000)) u AS y WHERE x + y < 0",
    )

    @app.query()
    def hanging(readings: DataFrame) -> DataFrame:
        if threading.current_thread().name.startswith("worker"):
            hung.wait(60)
        return readings.select("reading")

    limits = Limits(retries=0, job_timeout_s=4.0)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits, on_failure="report") as run:
        run.drain()
        assert run.failures.keys() == {"slow", "long", "hanging"}
        assert all("job_timeout = 4 s" in why for why in run.failures.values())
        assert readings(run, "well") == list(range(100))
        hung.set()  # what was left behind comes back, and must not commit
        run.resume("hanging")
        run.drain()
        assert readings(run, "hanging") == list(range(100))


def test_malformed_records_are_kept_aside_once(spark: SparkSession, tmp_path: Path) -> None:
    source, seed = tmp_path / "in", random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    source.mkdir()
    lines = [json.dumps({"reading": n, "t": n}) for n in range(20)]
    bad = ["{not json", json.dumps({"reading": "x", "t": 1}), "just text"]
    (source / "1.json").write_text("\n".join([*lines[:10], *bad, *lines[10:]]))
    app = App(spark, name="malformed", folder=tmp_path)
    app.stream("readings", format="json", schema="reading INT, t INT", path="in")
    app.query("all", sql="SELECT * FROM readings WHERE reading IS NOT NULL")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.drain()
        assert readings(run, "all") == list(range(20))
        assert call(run.folder, "snapshot")["streams"][0]["dead_letters"] == 3
        (source / "2.json").write_bytes(records(lines, 300, random.Random(seed)))
        run.drain()
        assert not run.failures
        # What garbage happens to be well formed is a row like any other.
        assert set(range(20)) <= set(readings(run, "all"))
    kept = pq.read_table(tmp_path / "run/dead/readings", partitioning=None)
    assert set(bad) <= set(kept["record"].to_pylist())
    report = RunReport.load(tmp_path / "run/record")
    assert report.manifest["dead_letters"] == {"readings": kept.num_rows}
    assert kept.num_rows > 100, "garbage is noticed"


def test_a_source_that_fails_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark)
    run = app.run("fcfs", run_dir=tmp_path / "run", limits=SOON)
    append, failures = run.parts.storage.store.append, [0]

    def full(*args: Any, **more: Any) -> Any:
        if failures[0] < 2:
            failures[0] += 1
            raise OSError(28, "No space left on device")
        return append(*args, **more)

    run.parts.storage.store.__dict__["append"] = full
    with run:
        until(lambda: failures[0] == 2)
        run.drain()
        assert readings(run, "well") == list(range(100))


def test_a_full_log_is_skipped_by_those_that_may(spark: SparkSession, tmp_path: Path) -> None:
    """A parked archive query must not hold up the alarms."""
    app = App(spark, name="full")
    app.query_class("alarm", 10)
    app.query_class("archive", 1)
    arrivals = Arrivals(rate_per_s=2000)
    app.stream("readings", format="generator", options={"limit": 4000}, arrivals=arrivals)
    app.query("alarm", sql="SELECT reading FROM readings", cls="alarm")
    app.query("archive", sql="SELECT reading FROM readings", cls="archive")
    limits = Limits(log_max_bytes=60_000)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        run.pause("archive")
        run.drain()
        assert readings(run, "alarm") == list(range(4000))
        until(lambda: run.parts.keeping.retention.unread_bytes() <= limits.log_max_bytes)
        run.resume("archive")
        run.drain()
        lost = stands(run, "archive")["losses"]["full"]
        kept = readings(run, "archive")
        assert len(kept) == len(set(kept)) == 4000 - lost
        ranges = [entry for entry in run.parts.storage.log.lost() if entry["query"] == "archive"]
        assert sum(entry["rows"] for entry in ranges) == lost > 0
    assert run.report().manifest["lost"] == {"archive": {"full": lost}}


def test_a_full_log_slows_the_sources_of_those_that_block(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App(spark, name="full")
    arrivals = Arrivals(rate_per_s=2000)
    app.stream("readings", format="generator", options={"limit": 4000}, arrivals=arrivals)
    app.query("all", sql="SELECT reading FROM readings", on_full="block")
    limits = Limits(log_max_bytes=30_000)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        run.pause("all")
        until(lambda: run.parts.inflow.backpressure.full)
        assert call(run.folder, "snapshot")["streams"][0]["blocked"]
        waited = stands(run, "all")["waiting"]
        assert waited < 4000
        run.resume("all")
        run.drain()
        assert readings(run, "all") == list(range(4000))
        assert stands(run, "all")["losses"] == {}
        run.pause("all")
    assert not run.failures


def test_a_source_that_waits_for_room_can_be_stopped(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for part in range(4):
        lines = [json.dumps({"reading": part * 500 + n}) for n in range(500)]
        (source / f"{part}.json").write_text("\n".join(lines))
    app = App(spark, name="waiting", folder=tmp_path)
    options = {"maxFilesPerTrigger": 1}
    app.stream("readings", format="json", schema="reading INT", path="in", options=options)
    app.query("all", sql="SELECT reading FROM readings")
    with app.run("fcfs", run_dir=tmp_path / "run", limits=Limits(log_max_bytes=4000)) as run:
        run.pause("all")
        until(lambda: run.parts.inflow.backpressure.full)
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.resume("all")
        run.drain()
        assert readings(run, "all") == list(range(2000)), "nothing was lost by stopping"
