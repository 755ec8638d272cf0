"""RANK, DENSE_RANK, IN and EXISTS within a window run in append mode, as windows do."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.spark.modes.feeds import SCHEMA, declare, row, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "(SELECT *, window(at, '10 seconds') AS w FROM rows)"
TEXTS = {
    "rank": f"SELECT w.end AS e, k, n, r FROM (SELECT w, k, n, rank() OVER (PARTITION BY w, k "
    f"ORDER BY v DESC) AS r FROM {ROWS}) WHERE r <= 2",
    "dense": "SELECT e, k, c, dense_rank() OVER (PARTITION BY e ORDER BY c DESC) AS r FROM "
    "(SELECT window.end AS e, k, count(*) AS c FROM rows "
    "GROUP BY window(at, '10 seconds', '5 seconds'), k)",
    "in": f"SELECT n, v FROM {ROWS} WHERE (w, v) IN (SELECT w, max(v) FROM {ROWS} GROUP BY w)",
    "exists": f"SELECT x.n FROM {ROWS} x WHERE EXISTS (SELECT 1 FROM {ROWS} y "
    "WHERE y.w = x.w AND y.v = x.v AND y.n > x.n)",
    "not exists": f"SELECT x.n FROM {ROWS} x WHERE NOT EXISTS (SELECT 1 FROM {ROWS} y "
    "WHERE y.w = x.w AND y.v = x.v AND y.n > x.n)",
}


def plain(rows: pa.Table) -> list[str]:
    """Rows in any order, instants in any zone."""
    return sorted(
        str([v.timestamp() if isinstance(v, datetime) else v for v in r.values()])
        for r in rows.to_pylist()
    )


def test_ranks_and_subqueries_of_a_window_equal_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    for name, sql in TEXTS.items():
        app.query(name, sql=sql, mode="append")
    for number in range(3):
        write(tmp_path / "in", number, map(row, range(25 * number, 25 * number + 25)))
    with app.run(run_dir=tmp_path / "run") as run:
        assert {q.kind for q in run.snapshot().queries} == {"window"}
        run.drain(flush=True)
        found = {name: plain(run.rows(name)) for name in TEXTS}
    session = spark.newSession()
    session.read.schema(SCHEMA).json(str(tmp_path / "in")).createOrReplaceTempView("rows")
    for name, sql in TEXTS.items():
        assert found[name] == plain(session.sql(sql).toArrow()), name
