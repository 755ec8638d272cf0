"""Rows that never pass the driver: the same results as one batch, by executors alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyspark.sql.functions as F  # noqa: N812  # its usual name
import pytest
from benchmarks.soaking.large_kills import large_kills

from daybreak.engine.inbox import Waiting
from daybreak.model.limits import Limits
from daybreak.report.run import job_lines
from daybreak.runtime.starts import load_run
from daybreak.spark.app import App
from daybreak.spark.jobs.adhoc import Kept, ad_hoc
from daybreak.spark.jobs.committer import Committer
from daybreak.spark.log import rows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_clock import as_us
from daybreak.spark.log.event_time import Times
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks import views
from daybreak.spark.tasks.segment_frames import SegmentFrames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "n BIGINT, city STRING, price DOUBLE, at TIMESTAMP"
ROWS, FILES = 2000, 2
SQL = {
    "dear": "SELECT n, city, price FROM sales WHERE price > 60",
    "cheap": "SELECT n, price * 2 AS twice FROM sales WHERE price < 10",
    "named": "SELECT n, upper(city) AS city FROM sales WHERE city LIKE 'b%'",
    "joined": "SELECT s.n, c.country FROM sales s JOIN cities c ON s.city = c.city",
    "union": "SELECT n FROM sales WHERE n % 7 = 0 UNION ALL SELECT n FROM others WHERE n % 5 = 0",
    "tumbling": "SELECT window.end AS e, city, count(*) AS c, sum(price) AS s FROM sales "
    "GROUP BY window(at, '10 seconds'), city",
    "sliding": "SELECT window.end AS e, max(price) AS m FROM sales "
    "GROUP BY window(at, '20 seconds', '5 seconds')",
    "of_view": "SELECT n, city FROM busy WHERE n % 2 = 1",
}
VIEW = "SELECT n, city, price FROM sales WHERE price > 30"
SINKS: dict[str, dict[str, Any]] = {
    "dear": {"format": "parquet", "partition_by": ["city"]},
    "cheap": {"format": "json"},
    "named": {"format": "csv"},
}


def feed(folder: Path, first: int, count: int, files: int) -> None:
    """Files of JSON lines; a malformed record in the first."""
    folder.mkdir(parents=True, exist_ok=True)
    each = count // files
    for f in range(files):
        lines = [json.dumps(record(n)) for n in range(first + f * each, first + (f + 1) * each)]
        if f == 0:
            lines.insert(5, '{"n": "not a number"')
        (folder / f"part-{first}-{f}.json").write_text("\n".join(lines) + "\n")


def record(n: int) -> dict[str, object]:
    city = ("berlin", "bonn", "kiel", "ulm")[n * 7919 % 4]
    at = f"2024-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z"
    return {"n": n, "city": city, "price": (n * 31 % 100) / 1.0, "at": at}


def make_app(spark: SparkSession, folder: Path, bytes_: int) -> App:
    spark.createDataFrame(
        [("berlin", "de"), ("kiel", "de"), ("ulm", None)], "city STRING, country STRING"
    ).createOrReplaceTempView("cities")
    app = App(spark, folder=folder, name="large", limits=Limits(driver_batch_bytes=bytes_))
    for stream in ("sales", "others"):
        app.stream(
            stream, format="json", schema=SCHEMA, path=f"in/{stream}", time="at",
            watermark="1 second", trigger="100 milliseconds",
        )  # fmt: skip
    app.view("busy", sql=VIEW)
    for name, sql in SQL.items():
        sink = SINKS.get(name, {"format": "parquet"})
        app.query(name, sql=sql, sink={**sink, "path": f"out/{name}"})
    app.query("kept", sql="SELECT n FROM sales WHERE n < 10", sink={"format": "memory"})
    return app


def bag(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in found)


def delivered(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in folder.rglob("*.*"):
        if "_staging" in path.parts or not path.is_file():
            continue
        if path.suffix == ".json":
            found += [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == ".csv":
            found += pa_csv.read_csv(path).to_pylist()
        else:
            table = pq.read_table(path, partitioning=None)
            for part in path.parent.parts:
                if "=" in part:
                    key, value = part.split("=")
                    table = table.append_column(key, pa.array([value] * len(table)))
            found += table.to_pylist()
    return found


def expected(spark: SparkSession, folder: Path) -> dict[str, Counter[str]]:
    """Each query as one batch over all rows."""
    for stream in ("sales", "others"):
        frame = spark.read.schema(SCHEMA).json(str(folder / "in" / stream))
        frame.where("n IS NOT NULL").createOrReplaceTempView(stream)
    spark.sql(VIEW).createOrReplaceTempView("busy")
    found = {name: bag(spark.sql(sql).toArrow().to_pylist()) for name, sql in SQL.items()}
    for name in ("sales", "others", "busy"):
        spark.catalog.dropTempView(name)
    return found


def test_results_are_those_of_a_batch_and_no_row_passes_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ADOPT_BYTES", 0)
    monkeypatch.setattr(rows, "TRAIN_BYTES", 1)
    feed(tmp_path / "in/sales", 0, ROWS, FILES)
    feed(tmp_path / "in/others", 0, 300, 1)
    app = make_app(spark, tmp_path, 1)
    with app.run(run_dir=tmp_path / "run [1]") as run:
        run.drain()
        feed(tmp_path / "in/sales", ROWS, 600, 1)
        run.drain(flush=True)
        snapshot, store = run.snapshot(), run.parts.storage.store
        newest = store.segments("sales")[-1]
        some = Waiting(0, "sales", 3, newest.seq, 2, whole=True)
        schemas = run.parts.accepted.catalog.application.schemas
        cut = SegmentFrames(spark, schemas, store).frame("sales", [some]).toArrow()
        [file] = store.files([some])
        assert cut["n"].to_pylist() == pq.read_table(file.path)["n"].to_pylist()[2:5]
    assert run.failures == {}
    kept, sql = Kept(tmp_path / "run [1]"), "SELECT count(*) AS c FROM sales"
    [[count]] = ad_hoc(spark, kept, {"sales": schemas["sales"]}, sql).to_pydict().values()
    assert count in (newest.rows, ROWS + newest.rows), "with or without the segment before"
    lines = job_lines(load_run(tmp_path / "run [1]"))
    assert "ingested rows through the driver: 0" in lines
    assert "result rows through the driver: " in "".join(lines), "panes, and a sink in memory"
    wanted = expected(spark, tmp_path)
    for name in SQL:
        assert bag(delivered(tmp_path / "out" / name)) == wanted[name], name
    streams = {row.name: row for row in snapshot.streams}
    assert streams["sales"].dead_letters == 2
    assert streams["sales"].rows_through_driver == 0


def test_what_is_committed_stays_staged_if_the_job_fails_afterwards(tmp_path: Path) -> None:
    """A delivery or a watermark may fail after the commit; sweeping would lose the result."""
    nothing: Any = None
    with RunDirectory.open(tmp_path, "large") as rundir:
        log = CommitLog(rundir.state_db)
        committer = Committer(SegmentStore(rundir, log), log, nothing)
        committer.begin()
        first = committer.number()
        committer.abandon()
        committer.begin()
        assert committer.number() != first
        committer.commit([], [], [])
        committer.abandon()
        assert log.take_abandoned() == {first}
        log.close()


def test_instants_of_executors_are_those_of_the_driver(spark: SparkSession) -> None:
    texts = ["1969-12-31 23:59:58.123456", "2024-03-31 02:30:00", "2024-10-27 02:30:00.000001"]
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING").select(
        F.to_timestamp_ntz("text").alias("local"), F.to_timestamp("text").alias("instant")
    )
    both = [Times.of(F.col(name), frame.schema[name].dataType).us for name in frame.columns]
    table, found = frame.toArrow(), frame.select(*both).toArrow()
    for at, name in enumerate(frame.columns):
        assert found[at].to_pylist() == as_us(table[name]).to_pylist()


@pytest.mark.soak
def test_kills_at_every_stage_past_the_driver_lose_nothing(tmp_path: Path) -> None:
    """Without a JVM, ``test_crash.py`` does so in the suite."""
    found = large_kills(6, random.SystemRandom().randrange(10**6), tmp_path, print)
    assert found["wrong"] == [], (tmp_path / "log.txt").read_text()[-3000:]
    assert found["kills"] == 6
