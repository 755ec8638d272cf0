"""Event times near the first and the last instant that a TIMESTAMP holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.windows.logs import DDL, START, Row, S, declare, feed, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: In microseconds.
NEVER, FOREVER = -(2**63), 2**63 - 1
QUERIES = {
    "tumbling": "SELECT window.end AS e, count(*) AS n FROM {} GROUP BY window(at, '10 seconds')",
    "sliding": "SELECT window.end AS e, k, sum(v) AS s FROM {} "
    "GROUP BY window(at, '10 seconds', '4 seconds'), k",
    "rows of sliding": "SELECT window.end AS e, count(DISTINCT v) AS n FROM {} "
    "GROUP BY window(at, '10 seconds', '4 seconds')",
    "long": "SELECT window.start AS b, sum(v) AS s FROM {} GROUP BY window(at, '5 minutes')",
    "join": "SELECT x.n, y.n AS m FROM (SELECT *, window(at, '10 seconds') AS w FROM {0}) x JOIN "
    "(SELECT *, window(at, '10 seconds') AS w FROM {0}) y ON x.w = y.w AND x.k = y.k",
    "band": "SELECT x.n, y.n AS m FROM {0} x JOIN {0} y ON x.k = y.k "
    "AND y.at BETWEEN x.at - INTERVAL 2 SECONDS AND x.at + INTERVAL 3 SECONDS",
}


def bag(found: pa.Table | None) -> Counter[tuple[Any, ...]]:
    """Rows as numbers: Python has no such dates."""
    if found is None:
        return Counter()
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.columns]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


def batch(spark: SparkSession, rows: list[Row]) -> dict[str, Counter[tuple[Any, ...]]]:
    session = spark.newSession()
    data: Any = table(rows)
    session.createDataFrame(data, DDL).createOrReplaceTempView("a")
    return {name: bag(session.sql(sql.format("a")).toArrow()) for name, sql in QUERIES.items()}


def made(first: int, step: int, rows: int = 30) -> list[Row]:
    return [{"n": n, "k": n % 3, "v": n, "at": first + n * step} for n in range(rows)]


@pytest.mark.parametrize(
    "rows",
    [
        made(FOREVER - 700 * S, 3 * S),
        made(NEVER + 700 * S, 3 * S),
        made(-(2**62) - 45 * S, 3 * S),
        [*made(NEVER + 700 * S, S, 10), *made(-(2**62), S, 5), *made(FOREVER - 700 * S, S, 10)],
    ],
    ids=["last", "first", "early", "all"],
)
def test_windows_that_a_timestamp_holds_are_computed(
    spark: SparkSession, tmp_path: Path, rows: list[Row]
) -> None:
    app = declare(spark)
    for name, sql in QUERIES.items():
        app.query(name, sql=sql.format("a"))
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        feed(run, [("a", k, rows[k * 10 : k * 10 + 10]) for k in range(3)])
        run.drain(flush=True)
        assert not run.failures
        waiting = [
            run.parts.scheduling.driver.engine.view.waiting[box] for box in range(len(QUERIES))
        ]
        assert not any(waiting)
    expected = batch(spark, rows)
    for name in QUERIES:
        assert expected[name]
        assert bag(run.rows(name)) == expected[name], name


@pytest.mark.parametrize("at", [NEVER, NEVER + 2 * S, FOREVER - 2 * S, FOREVER])
def test_a_window_that_no_timestamp_holds_fails_as_the_batch_does(
    spark: SparkSession, tmp_path: Path, at: int
) -> None:
    """Parked with the reason; the stream goes on, and so do queries without windows."""
    app = declare(spark)
    names = ("tumbling", "sliding", "rows of sliding")
    for name in names:
        app.query(name, sql=QUERIES[name].format("a"))
    app.query("rows", sql="SELECT n FROM a")
    with app.run("fcfs", run_dir=tmp_path / "run", on_failure="report") as run:
        feed(run, [("a", 0, [*made(START, S, 3), {"n": 9, "k": 0, "v": 0, "at": at}])])
        run.drain(flush=True)
        failures = dict(run.failures)
        found = run.rows("rows")
        assert found is not None
        assert found.num_rows == 4
    for name in names:
        why = failures.pop(name)
        assert "ARITHMETIC_OVERFLOW" in why or "beyond what a TIMESTAMP holds" in why, why
    assert not failures


def test_such_a_row_can_be_gone_past(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark)
    names = ("tumbling", "sliding", "rows of sliding")
    for name in names:
        app.query(name, sql=QUERIES[name].format("a"))
    with app.run("fcfs", run_dir=tmp_path / "run", on_failure="report") as run:
        feed(run, [("a", 0, [{"n": 9, "k": 0, "v": 0, "at": NEVER}, *made(START, S)])])
        run.drain()
        assert set(run.failures) == set(names)
        for name in names:
            run.resume(name, skip=True)
        feed(run, [("a", 1, made(START + 60 * S, S))])
        run.drain(flush=True)
        assert not run.failures
    expected = batch(spark, made(START + 60 * S, S))
    for name in names:
        assert bag(run.rows(name)) >= expected[name], name
