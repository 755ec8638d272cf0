"""A mode is declared at run time, too: the query is the one a pipeline would declare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.spark.modes.feeds import declare, row, write

from daybreak.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.run import Run

TOP = "SELECT k, max(v) AS v FROM rows GROUP BY k ORDER BY v DESC, k LIMIT 2"
COUNTS = "SELECT k, count(*) AS n FROM rows GROUP BY k"


def equal_a_batch(run: Run, spark: SparkSession, rows: int) -> None:
    """Both queries, over the first rows."""
    made = [(row(n)["k"], row(n)["v"]) for n in range(rows)]
    session = spark.newSession()
    session.createDataFrame(made, "k STRING, v INT").createOrReplaceTempView("rows")
    top, counts = (session.sql(query).collect() for query in (TOP, COUNTS))
    assert [(r["k"], r["v"]) for r in run.rows("top").to_pylist()] == [tuple(r) for r in top]
    newest = {r["k"]: r["n"] for r in run.rows("counts").to_pylist()}
    assert newest == {r["k"]: r["n"] for r in counts}


def test_a_query_registered_with_a_mode_equals_a_batch_and_keeps_its_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    app.query("every", sql="SELECT n FROM rows")
    write(tmp_path / "in", 0, map(row, range(25)))
    with app.run(run_dir=tmp_path / "run") as run:
        run.drain()
        run.register("top", TOP, mode="complete")
        run.register("counts", COUNTS, mode="update", start="earliest")
        run.drain()
        equal_a_batch(run, spark, 25)
        write(tmp_path / "in", 1, map(row, range(25, 40)))
        run.drain()
        equal_a_batch(run, spark, 40)
        kinds = {q.name: q.kind for q in run.snapshot().queries}
        assert (kinds["top"], kinds["counts"]) == ("complete", "stateful")
        refused: dict[str, dict[str, Any]] = {
            "mode 'compleet'; did you mean 'complete'": {"mode": "compleet"},
            'mode = "complete"': {},
            "cannot run in update mode": {"mode": "update"},
        }
        for finding, given in refused.items():
            with pytest.raises(ConfigError, match=finding):
                run.register("other", TOP, **cast(Any, given))
        assert "other" not in {q.name for q in run.snapshot().queries}
    write(tmp_path / "in", 2, map(row, range(40, 60)))
    with app.run(run_dir=tmp_path / "run") as run:
        run.drain()
        equal_a_batch(run, spark, 60)
