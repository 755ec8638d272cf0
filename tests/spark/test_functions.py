"""Queries given as functions on DataFrames: the rules of SQL, and one plan for every call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.windows.logs import DDL, Log, S, bag, batch, declare, feed, tumbling_late

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.specs import Mode
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.forms import OverWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Checker:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(DDL)
    assert isinstance(schema, StructType)
    return Checker(spark, {"a": schema, "b": schema}, {"a": "at", "b": "at"})


def refusal(checker: Checker, function: Any, *reads: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        checker.function("q", function, reads or ("a",))
    return caught.value


def test_a_subquery_in_a_window_aggregate_is_resolved_for_each_job(
    spark: SparkSession, checker: Checker
) -> None:
    """Taken apart, it would keep the rows that its table had when the query was checked."""
    sql = (
        "SELECT window.end AS e, sum(v) AS s FROM a WHERE k IN (SELECT id FROM range(2)) GROUP BY "
    )
    for window in ("window(at, '10 seconds')", "window(at, '10 seconds', '5 seconds')"):
        checked = checker.sql("q", sql + window)
        assert type(checked.form) is OverWindows


@pytest.mark.parametrize(
    ("sql", "function"),
    [
        ("SELECT k, count(*) FROM a GROUP BY k", lambda a: a.groupBy("k").count()),
        ("SELECT count(*) FROM a", lambda a: a.agg({"*": "count"})),
        ("SELECT k FROM a LIMIT 3", lambda a: a.select("k").limit(3)),
        ("SELECT k FROM a ORDER BY k", lambda a: a.select("k").sort("k")),
        ("SELECT a.k FROM a JOIN b USING (k)", lambda a, b: a.join(b, "k").select("k")),
        ("SELECT rand() AS r FROM a", lambda a: a.selectExpr("rand() AS r")),
    ],
)
def test_a_function_is_refused_in_the_words_for_the_same_sql(
    checker: Checker, sql: str, function: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        checker.sql("q", sql)
    reads = ("a", "b") if "JOIN" in sql else ("a",)
    assert str(refusal(checker, function, *reads)) == str(caught.value)


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_no_mode_takes_a_function_that_gives_other_rows_each_time(
    checker: Checker, mode: Mode
) -> None:
    with pytest.raises(ConfigError, match="rand"):
        checker.function("q", lambda a: a.selectExpr("rand() AS r"), ("a",), "query 'q'", mode)


def test_a_function_that_runs_a_job_or_ignores_its_streams_is_refused(
    spark: SparkSession, checker: Checker
) -> None:
    def peeks(a: DataFrame) -> DataFrame:
        return a.filter("v > 3") if a.isEmpty() else a

    found = refusal(checker, peeks)
    assert found.finding == "its function starts a job while it is called"
    assert "without running a job" in found.remedy
    for job in ("count", "collect", "first", "toPandas"):
        assert "starts a job" in str(refusal(checker, lambda a, job=job: getattr(a, job)()))
    elsewhere = refusal(checker, lambda a: spark.range(3))
    assert "reads no stream" in elsewhere.finding
    made = refusal(checker, lambda a: a.join(spark.createDataFrame([(1,)], "k INT"), "k"))
    assert "another plan when it is called again" in made.finding
    more = refusal(checker, lambda a: a.select("k").union(a.sparkSession.table("b").select("k")))
    assert "reads stream 'b', which is none of its parameters" in more.finding
    half = refusal(checker, lambda a, b: a.select("k"), "a", "b")
    assert "does not read stream 'b'" in half.finding


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        twice = pa.array([2 * v for v in rows["v"].to_pylist()], pa.int32())
        yield pa.RecordBatch.from_arrays([twice], ["twice"])


def test_functions_run_as_the_queries_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """Windows close once, rows pass mapInArrow and UDFs, another plan at run time is no result."""
    from pyspark.sql import functions as F  # noqa: N812

    log = Log.random(5)
    app = declare(spark)
    calls: list[int] = []

    @app.query(cls="high")
    def counts(a: DataFrame) -> DataFrame:
        grouped = a.groupBy(F.window("at", "10 seconds"), "k").agg(F.sum("v").alias("s"))
        return grouped.select("window.end", "k", "s")

    @app.query(cls="low")
    def arrow(a: DataFrame) -> DataFrame:
        return a.mapInArrow(doubled, "twice INT")

    @app.query(cls="low")
    def python(b: DataFrame) -> DataFrame:
        plus = F.udf(lambda v: v + 1, "int")
        return b.filter("v > 10").select(plus("v").alias("more"))

    @app.query(cls="low")
    def fickle(b: DataFrame) -> DataFrame:
        return b.filter(f"v > {len(calls)}").select("v")

    with app.run(
        "round-robin", run_dir=tmp_path / "run", limits=Limits(retries=0), on_failure="report"
    ) as run:
        calls.append(1)
        feed(run, log.segments())
        run.drain(flush=True)
        found = {name: bag(run.rows(name)) for name in ("counts", "arrow", "python", "fickle")}
    assert list(run.failures) == ["fickle"]
    assert "another plan than when it was checked" in run.failures["fickle"]
    assert not found["fickle"]
    rows = {s: log.in_time(s, tumbling_late(10 * S)) for s in log.streams}
    grouped = "SELECT window.end, k, sum(v) AS s FROM a GROUP BY window(at, '10 seconds'), k"
    assert found["counts"] == batch(spark, grouped, rows)
    everything = {s: [row for made in log.streams[s] for row in made] for s in log.streams}
    assert found["arrow"] == batch(spark, "SELECT 2 * v AS twice FROM a", everything)
    more = "SELECT v + 1 AS more FROM b WHERE v > 10"
    assert found["python"] == batch(spark, more, everything)
