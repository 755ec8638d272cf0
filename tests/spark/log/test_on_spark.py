"""A run whose log is in PostgreSQL, with a store: outages show and pass; a new folder continues."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from benchmarks.servers import PostgresServer
from tests.until import until

from daybreak.model import Arrivals, ConfigError
from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.failures import LeaseLost
from daybreak.spark.jobs.adhoc import Kept, ad_hoc
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "correct-horse-battery"


def application(spark: SparkSession, root: Path, server: PostgresServer, rows: int) -> App:
    app = App(spark, name="outlives", folder=root)
    app.log = server.dsn.replace("postgres@", f"postgres:{PASSWORD}@")
    app.store = f"file://{root}/shared"
    app.stream(
        "readings", format="generator", options={"limit": rows}, time="at", retain="1 hour",
        arrivals=Arrivals(rate_per_s=400),
    )  # fmt: skip
    app.query(
        "all",
        sql="SELECT reading FROM readings",
        sink={"format": "parquet", "path": str(root / "out/all")},
    )
    app.query(
        "windows", sql="SELECT count(*) AS n FROM readings GROUP BY window(at, '1 second')",
    )  # fmt: skip
    return app


def readings(root: Path) -> list[int]:
    files = list((root / "out/all").glob("*.parquet"))
    found = [pq.read_table(path, partitioning=None)["reading"].to_pylist() for path in files]
    return sorted(n for numbers in found for n in numbers)


def mount(root: Path, what: str) -> None:
    """Another folder is at the store's path, at once; an empty one, where nothing is mounted."""
    (root / what).mkdir(exist_ok=True)
    link = root / "link"
    link.symlink_to(root / what)
    link.rename(root / "shared")


def awaits_more(run: Run, root: Path) -> None:
    before = len(readings(root))
    until(lambda: len(readings(root)) > before, "it delivers more")
    until(lambda: not run.snapshot().troubles, "all troubles are over")


def test_outages_show_and_pass_and_a_new_folder_continues(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer
) -> None:
    shown: list[str] = []
    mount(tmp_path, "share")
    limits = Limits(lease_s=2.0, retries=1, retry_s=0.05)
    first = application(spark, tmp_path, postgres, 10**6)
    with first.run("fcfs", run_dir=tmp_path / "one", limits=limits) as run:
        awaits_more(run, tmp_path)
        postgres.kill()
        until(lambda: "storage" in run.snapshot().troubles, "the outage shows")
        shown.append(json.dumps(run.snapshot().to_json()))
        assert "out of reach" in run.troubles["storage"]
        postgres.start()
        awaits_more(run, tmp_path)
        mount(tmp_path, "empty")
        until(lambda: "store.json" in run.snapshot().troubles.get("storage", ""), "it shows, too")
        mount(tmp_path, "share")
        awaits_more(run, tmp_path)
        assert not run.failures
        report = run.stop()
    shown.append(json.dumps(report.manifest, default=str))
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file():
            shown.append(path.read_bytes().decode(errors="replace"))
    assert not [text for text in shown if PASSWORD in text]
    shutil.rmtree(tmp_path / "one")

    rows = max(readings(tmp_path)) + 400
    second = application(spark, tmp_path, postgres, rows)
    run = second.run("fcfs", run_dir=tmp_path / "two", limits=limits)
    try:
        run.drain()
        checked = second.check()
        kept = Kept(tmp_path / "two", checked.name, checked.log, checked.store)
        counted = ad_hoc(spark, kept, checked.schemas, "SELECT count(*) AS n FROM readings")
        assert counted.to_pylist() == [{"n": len(readings(tmp_path))}]
        run.parts.storage.log.database.rows(
            "UPDATE lease SET epoch = epoch + 1, holder = 'process 7 on mars' RETURNING 1"
        )
        with pytest.raises(LeaseLost, match=r"another driver \(process 7 on mars\)"):
            run.wait(30)
    finally:
        run.stop()
    assert readings(tmp_path) == list(range(len(readings(tmp_path))))
    assert len(readings(tmp_path)) >= rows


def test_an_address_where_nothing_answers_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    app = App(spark, name="nowhere", folder=tmp_path)
    app.log = f"postgresql://me:{PASSWORD}@127.0.0.1:1/nowhere"
    app.stream("readings", format="generator", options={"limit": 1})
    app.query("all", sql="SELECT reading FROM readings")
    with pytest.raises(ConfigError, match=r"me@127\.0\.0\.1:1/nowhere: .*correct log in") as told:
        app.run(run_dir=tmp_path / "run")
    assert PASSWORD not in str(told.value)
