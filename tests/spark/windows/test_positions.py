"""One position per row: schema changes, given-up jobs, dropped queries and any name of a stream."""

from __future__ import annotations

import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.engine.inside import inside
from tests.spark.windows.logs import START, Log, Row, S, bag, batch, declare, feed, sliding

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.app import App
from daybreak.spark.failures import JobTimeout
from daybreak.spark.ingest import generator
from daybreak.spark.jobs.workers import Ticket
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = (
    "SELECT window.end AS e, k, count(*) AS n, sum(v) AS s FROM {} GROUP BY window(at, '{}'), k"
)
SLIDING = COUNTS.format("a", "10 seconds', '4 seconds")

#: How one stream is declared: at first, wider, and so that its first rows do not fit.
DDLS = {
    "narrow": "n INT, k INT, v INT, x FLOAT, d DECIMAL(8,2), at TIMESTAMP",
    "wide": "n BIGINT, k INT, v BIGINT, x DOUBLE, d DECIMAL(12,3), at TIMESTAMP, note STRING",
    "other": "n INT, k INT, v STRING, x FLOAT, d DECIMAL(8,2), at TIMESTAMP",
}
CHANGING = {
    "rows": "SELECT * FROM a WHERE v % 2 = 0",
    "tumbling": "SELECT window.end AS e, k, sum(v) AS s, CAST(max(d) AS DOUBLE) AS d, sum(x) AS x "
    "FROM a GROUP BY window(at, '10 seconds'), k",
    "paned": "SELECT window.end AS e, k, count(*) AS n, max(v) AS v, CAST(sum(d) AS DOUBLE) AS d, "
    "min(x) AS x, avg(v) FILTER (WHERE v < 30) AS m FROM a WHERE v > 5 AND d >= 1 "
    "GROUP BY window(at, '10 seconds', '4 seconds'), k",
    "joined": "SELECT x.n, y.n AS m, x.v FROM (SELECT *, window(at, '5 seconds') AS w FROM a) x "
    "JOIN (SELECT *, window(at, '5 seconds') AS w FROM b) y ON x.k = y.k AND x.w = y.w",
}


def columns(ddl: str) -> StructType:
    schema = StructType.fromDDL(DDLS[ddl])
    assert isinstance(schema, StructType)
    return schema


for name, ddl in DDLS.items():
    cast("dict[str, generator.Rows]", generator.KINDS)[f"by-hand-{name}"] = generator.Rows(
        ddl, lambda seed, n, now_us: pa.table({})
    )


def changing(spark: SparkSession, ddl: str) -> App:
    app = App(spark, name="changing")
    for stream, kind in (("a", f"by-hand-{ddl}"), ("b", "by-hand")):
        options = {"rows": kind, "limit": 0}
        app.stream(stream, format="generator", options=options, time="at", watermark="1 second")
    for name, sql in CHANGING.items():
        app.query(name, sql=sql)
    return app


def made(first: int, last: int) -> list[Row]:
    """Rows in order of time, half a second each; ``at`` in microseconds."""
    return [
        {"n": n, "k": n % 3, "v": n * 7 % 50, "x": n % 9 * 0.25, "d": Decimal(n * 125) / 100,
         "at": START + n * S // 2}
        for n in range(first, last)
    ]  # fmt: skip


def as_table(rows: list[Row], ddl: str) -> pa.Table:
    schema = to_arrow_schema(columns(ddl), timezone="UTC")
    full = [{name: row.get(name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(full, schema)


def append(run: Run, k: int, table: pa.Table) -> None:
    segment = run.parts.storage.store.append("a", "by-hand", k, [0, 0], table, time.time_ns())
    assert segment is not None
    run.parts.scheduling.arrivals.on_segment(segment)


def test_rows_of_a_narrower_schema_are_read_as_the_present_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By filters, windows, panes and joins alike, with the rows of the batch."""
    rows, others = made(0, 80), [{**row, "v": 0} for row in made(0, 80)]
    found: dict[str, Counter[str]] = {}
    with changing(spark, "narrow").run("fcfs", run_dir=tmp_path / "run") as run:
        run.pause("rows")
        for k in range(2):
            append(run, k, as_table(rows[k * 20 : k * 20 + 20], "narrow"))
            feed(run, [("b", k, others[k * 20 : k * 20 + 20])])
        run.drain()
        assert run.parts.storage.log.partials("paned"), (
            "open windows have partials of the old schema"
        )
    for name in CHANGING:
        found[name] = bag(run.rows(name))
    assert not found["rows"]
    assert found["paned"], "some windows are closed, and others open"

    with pytest.raises(ConfigError, match=r"column 'v' was INT and is STRING now.*--reset-query"):
        changing(spark, "other").run("fcfs", run_dir=tmp_path / "run")

    with changing(spark, "wide").run("fcfs", run_dir=tmp_path / "run") as run:
        run.resume("rows")
        for k in range(2, 4):
            append(run, k, as_table(rows[k * 20 : k * 20 + 20], "wide"))
            feed(run, [("b", k, others[k * 20 : k * 20 + 20])])
        run.drain(flush=True)
        assert not run.failures
        waiting = [
            run.parts.scheduling.driver.engine.view.waiting[box] for box in range(len(CHANGING))
        ]
        assert waiting == [0] * len(CHANGING)
    session = spark.newSession()
    data: Any = as_table(rows, "wide")
    session.createDataFrame(data, DDLS["wide"]).createOrReplaceTempView("a")
    data = as_table(others, "narrow")
    session.createDataFrame(data, DDLS["narrow"]).createOrReplaceTempView("b")
    for name, sql in CHANGING.items():
        expected = bag(session.sql(sql).toArrow())
        assert found[name] + bag(run.rows(name)) == expected, name


def test_a_job_that_was_given_up_or_overtaken_leaves_no_partials(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Partials are kept by the commit alone, and continue where the query is."""
    log = Log.random(7)
    segments = [s for s in log.segments() if s[0] == "a"]
    app = declare(spark)
    app.query("q", sql=SLIDING)
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.pause("q")
        feed(run, segments)
        # The query is paused: nothing else takes what waits for it.
        run.parts.scheduling.driver.ask().result()
        query, inbox = (
            run.parts.accepted.catalog.runnables[0],
            inside(run.parts.scheduling.driver.engine).queries.inboxes[0],
        )
        slow, retry = (
            run.parts.scheduling.runners.named("slow"),
            run.parts.scheduling.runners.named("retry"),
        )
        first, second = inbox.take(1), inbox.take(1)

        given_up = Ticket()
        assert given_up.give_up()
        with pytest.raises(JobTimeout):
            slow.run([query], first, [query], given_up)
        assert run.parts.storage.log.partials("q") == []
        assert run.parts.storage.log.places("q")["a"].seq == 0

        class Overtaken(Ticket):
            def commit(self) -> None:
                retry.run([query], first, [query], Ticket())
                super().commit()

        with pytest.raises(EngineBug, match="would add partials of segments 0 to"):
            slow.run([query], first, [query], Overtaken())
        assert len(run.parts.storage.log.partials("q")) == 1
        assert run.parts.storage.log.progress()["q"].closed_us == first[-1].closes_us
        inbox.put_back(second)
        slow.close()
        retry.close()
        run.resume("q")
        run.drain(flush=True)
        assert not run.failures
    assert bag(run.rows("q")) == sliding(log.streams["a"], log, "a", 10 * S, 4 * S)


def test_a_query_that_is_registered_again_does_not_use_its_old_partials(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log.random(21)
    segments = [s for s in log.segments() if s[0] == "a"]
    app = App(spark, name="again")
    options = {"rows": "by-hand", "limit": 0}
    app.stream(
        "a", format="generator", options=options, time="at", watermark="3 seconds",
        retain="1 hour",
    )  # fmt: skip
    app.query("q", sql=SLIDING)
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        feed(run, segments[:-2])
        run.drain()
        assert run.parts.storage.log.partials("q")
        run.drop("q")
        assert run.parts.storage.log.partials("q") == []
        run.register("q", SLIDING, start="earliest", force=True)
        feed(run, segments[-2:])
        run.drain(flush=True)
        assert not run.failures
    assert bag(run.rows("q")) == sliding(log.streams["a"], log, "a", 10 * S, 4 * S)


def test_a_stream_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Also those that progress and partials once were kept under."""
    rows = [{"n": n, "k": n % 3, "v": n, "at": START + n * S // 2} for n in range(80)]
    app = App(spark, name="names")
    for stream in ("#closed", "q#panes"):
        options = {"rows": "by-hand", "limit": 0}
        app.stream(stream, format="generator", options=options, time="at")
    queries = {
        "q": COUNTS.format("`q#panes`", "10 seconds', '4 seconds"),
        "tumbling": COUNTS.format("`#closed`", "10 seconds"),
        "rows": "SELECT n, v FROM `#closed` WHERE v > 5 UNION ALL SELECT n, k FROM `q#panes`",
    }
    for name, sql in queries.items():
        app.query(name, sql=sql)
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        for k in range(4):
            for stream in ("#closed", "q#panes"):
                feed(run, [(stream, k, rows[k * 20 : k * 20 + 20])])
        run.drain(flush=True)
        assert not run.failures
        assert run.snapshot().streams[0].name == "#closed"
    for name, sql in queries.items():
        expected = batch(
            spark, sql.replace("`", "").replace("#", "_"), {"_closed": rows, "q_panes": rows}
        )
        assert bag(run.rows(name)) == expected, name
