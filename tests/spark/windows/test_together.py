"""Aggregates over the same windows and keys: one job, the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.windows.logs import Log, S, bag, batch, declare, feed, in_order, tumbling_late

from daybreak.policies.registry import make_policy_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Result columns, condition and HAVING; all by the same windows and the same key.
QUERIES = {
    "plain": ("k, count(*) AS n", None, None),
    "few": ("k, sum(v) AS s, avg(v) AS m", "v > 45", None),
    "none": ("k, max(v) AS top", "v > 1000", None),
    "named": ("k, count(*) AS n, min(v) AS min_n", "v % 2 = 0", "n > 2 AND min_n < 40"),
    "hidden": ("k, sum(v) AS s", None, "count(*) > 3"),
    "filtered": ("k, count(*) FILTER (WHERE n % 3 = 0) AS third, count(*) AS n", "v < 30", None),
    "texts": (
        "k, concat('sum(v)=', sum(v), '; count(1)=', count(1), ' `v` p0 FILTER (WHERE') AS t",
        "v > 3",
        "max(concat('n > 2 ', v)) <> 'max(v)'",
    ),
    "share": ("k, count(*) FILTER (WHERE v > 9) / count(*) AS share", "k = 0", None),
    "inverse": ("k, count(*) AS n", "k = 1", "10 / count(*) > 0"),
    "spread": ("window.start AS b, k, max(v) - min(v) AS spread, 'count(1)' AS c", None, None),
}


def text(name: str, window: str) -> str:
    columns, where, having = QUERIES[name]
    return (
        f"SELECT window.end AS e, {columns} FROM a{f' WHERE {where}' if where else ''} "
        f"GROUP BY {window}, k{f' HAVING {having}' if having else ''}"
    )


@pytest.mark.spark
@pytest.mark.parametrize("panes", [True, False])
@pytest.mark.parametrize(
    ("seed", "window"),
    [(1, "window(at, '10 seconds')"), (2, "window(at, '10 seconds', '4 seconds')")],
)
def test_aggregates_run_together_and_give_the_rows_of_the_batch(
    spark: SparkSession, tmp_path: Path, seed: int, window: str, panes: bool
) -> None:
    log = in_order(Log.random(seed))
    app = declare(spark)
    app.panes = panes
    for name in QUERIES:
        app.query(name, sql=text(name, window), cls="low")
    app.query("other-key", sql=f"SELECT window.end AS e, n FROM a GROUP BY {window}, n", cls="low")
    with app.run(make_policy_with("stride", train=40), run_dir=tmp_path / "run") as run:
        feed(run, log.segments())
        run.drain(flush=True)
    assert not run.failures
    rows = {s: log.in_time(s, tumbling_late(10 * S)) for s in log.streams}
    for name in QUERIES:
        assert bag(run.rows(name)) == batch(spark, text(name, window), rows), name
    jobs = pq.read_table(tmp_path / "run/record/jobs.parquet").to_pylist()
    names = [*QUERIES, "other-key"]
    most = {name: max(job["together"] for job in jobs if job["query"] == name) for name in names}
    assert most == {**dict.fromkeys(QUERIES, len(QUERIES)), "other-key": 1}
