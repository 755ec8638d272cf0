"""Append and update mode: what needs state runs by Spark's own, over segments, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.modes.feeds import declare, row, write
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.spark.stateful.stateful_query import StatefulQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from daybreak.spark.run import Run

COUNTS = "SELECT k, count(*) AS n FROM rows GROUP BY k"
SESSIONS = """
SELECT k, session_window(at, '5 seconds') AS w, count(*) AS n FROM rows
GROUP BY k, session_window(at, '5 seconds')
"""


def distinct(rows: DataFrame) -> DataFrame:
    return rows.select("k", "v").dropDuplicates()


def last(run: Run, query: str, key: str = "k") -> dict[Any, Any]:
    """The newest row of each key."""
    return {r[key]: r for r in run.rows(query).to_pylist()}


def counted(rows: Iterable[int]) -> dict[str, int]:
    return dict(Counter(row(n)["k"] for n in rows))


def test_stateful_queries_equal_a_batch_and_survive_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    app.query("counts", sql=COUNTS, mode="update")
    app.stateful("distinct", mode="append")(distinct)
    app.query("sessions", sql=SESSIONS, mode="append")

    @app.stateful("pairs", mode="append")
    def pairs(rows):  # type: ignore[no-untyped-def]
        other = rows.selectExpr("n AS m", "v AS w").where("m % 10 = 0")
        return rows.join(other, rows.v == other.w).select("n", "m")

    run_dir = tmp_path / "run [1]"  # no pattern
    write(tmp_path / "in", 0, map(row, range(30)))
    with app.run(run_dir=run_dir) as run:
        run.drain()
        assert {k: r["n"] for k, r in last(run, "counts").items()} == counted(range(30))
        assert {q.kind for q in run.snapshot().queries} == {"stateful"}
        write(tmp_path / "in", 1, map(row, range(30, 50)))
        until(lambda: sum(r["n"] for r in last(run, "counts").values()) == 50, "the second file")
        run.drain()
        seen = run.rows("distinct").num_rows
        joined = {(r["n"], r["m"]) for r in run.rows("pairs").to_pylist()}
        closed = run.rows("sessions").num_rows
    write(tmp_path / "in", 2, [*map(row, range(50, 60)), row(600)])
    with app.run(run_dir=run_dir) as run:
        run.drain()
        assert {k: r["n"] for k, r in last(run, "counts").items()} == counted([*range(60), 600])
        every = [row(n) for n in (*range(60), 600)]
        wanted = {(r["k"], r["v"]) for r in every}
        assert seen + run.rows("distinct").num_rows == len(wanted), "each once, over the restart"
        joined |= {(r["n"], r["m"]) for r in run.rows("pairs").to_pylist()}
        assert joined == {
            (a["n"], b["n"]) for a in every for b in every if b["n"] % 10 == 0 and a["v"] == b["v"]
        }
        sessions = run.rows("sessions").to_pylist()
        assert closed + len(sessions) == 3, "one of each key, closed by a row ten minutes later"
        assert {r["k"]: r["n"] for r in sessions} == counted(range(60))
        first = "*/000000000000-*.parquet"
        until(lambda: not list((run_dir / "feed").glob(first)), "all have passed it")
        for name in ("counts", "distinct", "sessions", "pairs"):
            run.drop(name)
        until(
            lambda: not list((run_dir / "state").iterdir()), "state of dropped queries is removed"
        )
        until(lambda: not list((run_dir / "feed").glob("*/*.parquet")), "and what they read")
        assert not run.parts.scheduling.runners.stateful._queries, "Spark has stopped them"


def test_a_failure_after_the_commit_neither_loses_nor_repeats_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, failed = StatefulQuery._take, list[int]()

    def fail_once(self: StatefulQuery, frame: Any, batch: int) -> None:
        take(self, frame, batch)
        if batch == 1 and not failed:  # committed here, and not by Spark
            failed.append(batch)
            raise OSError("no space left for Spark's own log")

    monkeypatch.setattr(StatefulQuery, "_take", fail_once)
    app = declare(spark, tmp_path)
    app.stateful("distinct", mode="append")(distinct)
    app.query("counts", sql=COUNTS, mode="update")
    with app.run(run_dir=tmp_path / "run", limits=Limits(retry_s=0.05)) as run:
        for number in range(3):
            write(tmp_path / "in", number, map(row, range(20 * number, 20 * number + 20)))
            run.drain()
        assert failed == [1]
        assert {k: r["n"] for k, r in last(run, "counts").items()} == counted(range(60))
        rows = [(r["k"], r["v"]) for r in run.rows("distinct").to_pylist()]
    assert sorted(rows) == sorted({(row(n)["k"], row(n)["v"]) for n in range(60)})


def test_what_no_mode_but_complete_takes_is_refused_with_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    app.query("q", sql="SELECT * FROM rows ORDER BY n", mode="update")
    with pytest.raises(ConfigError, match="cannot run in update mode") as refused:
        app.check()
    assert 'mode = "complete"' in refused.value.remedy
    app = declare(spark, tmp_path)
    app.query("q", sql=COUNTS, mode="update", sink={"format": "parquet", "path": "out"})
    with pytest.raises(ConfigError, match="cannot replace rows"):
        app.check()


def test_a_function_reads_no_streams_but_its_parameters(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    app.stream("other", format="rate")

    @app.stateful("joined", mode="append")
    def joined(rows):  # type: ignore[no-untyped-def]
        other = rows.sparkSession.table("other")
        return rows.join(other, rows.n == other.value).select("n")

    with pytest.raises(ConfigError, match="'other', which is none of its parameters"):
        app.check()


@pytest.mark.parametrize(
    ("sql", "mode"),
    [(COUNTS, "update"), ("SELECT DISTINCT k FROM rows", "update"), (SESSIONS, "append")],
)
def test_a_refusal_names_the_mode_that_takes_the_query(
    spark: SparkSession, tmp_path: Path, sql: str, mode: str
) -> None:
    app = declare(spark, tmp_path)
    app.query("q", sql=sql)
    with pytest.raises(ConfigError) as refused:
        app.check()
    assert f'mode = "{mode}"' in refused.value.remedy


def test_the_refusal_of_a_function_names_the_mode_that_takes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare(spark, tmp_path)
    app.query("distinct")(lambda rows: rows.dropDuplicates(["k"]))
    with pytest.raises(ConfigError, match="dropDuplicates") as refused:
        app.check()
    assert 'mode = "append"' in refused.value.remedy
