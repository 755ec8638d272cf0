"""Queries over windows put together at random, with unions in every place: the rows of a batch."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.spark.both_ways import BothWays
from tests.spark.windows.logs import Log, bag, batches, declare, feed, in_order

from daybreak.policies.registry import make_policy_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WINDOWS = (
    "window(at, '10 seconds')",
    "window(at, '6 seconds', '6 seconds', '2 seconds')",
    "window(at, '10 seconds', '4 seconds')",
    "window(at, '8 seconds', '2 seconds', '1 second')",
)
#: What stands above rows with their window w, k and v: unions among them, or beside them.
ABOVE = {
    "group": "SELECT w, k, count(*) AS c, sum(v) AS s FROM {u} GROUP BY w, k",
    "whole": "SELECT w.end AS e, count(DISTINCT v) AS c, max(v) AS m FROM {u} GROUP BY w",
    "having": "SELECT w.start AS b, k FROM {u} GROUP BY w, k HAVING count(*) > 2",
    "distinct": "SELECT DISTINCT w, k FROM {u}",
    "ranks": "SELECT w, k, v, rank() OVER (PARTITION BY w, k ORDER BY v DESC) AS r FROM {u}",
    "join": "SELECT x.w, x.v, y.n FROM {u} x JOIN {one} y ON x.w = y.w AND x.v = y.v",
    "semi": "SELECT x.w, x.k, x.v FROM {u} x LEFT SEMI JOIN {one} y ON x.w = y.w AND x.v = y.v",
    "outer": "SELECT x.w, x.n, y.v FROM {one} x LEFT JOIN {u} y ON x.w = y.w AND x.v = y.v",
    "except": "SELECT w, v FROM {u} EXCEPT SELECT w, v FROM {one}",
    "intersect": "SELECT w, v FROM {one} INTERSECT SELECT w, v FROM {u}",
    "again": "SELECT w, max(c) AS m FROM (SELECT w, k, count(*) AS c FROM {u} GROUP BY w, k) "
    "GROUP BY w",
    "counts": "SELECT w, 'u' AS t, count(*) AS c FROM {u} GROUP BY w UNION ALL "
    "SELECT w, 'one', count(*) FROM {one} GROUP BY w",
}


def branch(rng: Random, *, nested: bool = True) -> str:
    """Rows with columns at, k and v: of a stream, or of a union in its turn."""
    if nested and rng.random() < 0.3:
        inner = (branch(rng, nested=False) for _ in range(2))
        return f"SELECT at, k, v FROM ({' UNION ALL '.join(inner)})"
    stream = rng.choice("aab")
    columns = rng.choice(["at, k, v", "at, k + 1 AS k, v", "at, k, CAST(v * 2 AS BIGINT) AS v"])
    source = rng.choice(
        [stream, stream, f"{stream} JOIN (VALUES (0, 3), (2, 4)) AS t(i, j) ON k = i",
         f"(SELECT * FROM {stream} WHERE v % 3 > 0)"]
    )  # fmt: skip
    where = rng.choice(["", "", " WHERE v < 40", " WHERE k IN (SELECT id FROM range(2))"])
    return f"SELECT {columns} FROM {source}{where}"


def query(rng: Random, above: str) -> str:
    """A query of this form; the window is assigned above the union, or in each of its branches."""
    window, branches = rng.choice(WINDOWS), [branch(rng) for _ in range(rng.choice([2, 2, 3]))]
    one = f"(SELECT *, {window} AS w FROM {rng.choice('ab')})"
    if rng.random() < 0.4:
        union = " UNION ALL ".join(f"SELECT *, {window} AS w FROM ({b})" for b in branches)
    else:
        union = f"SELECT *, {window} AS w FROM ({' UNION ALL '.join(branches)})"
    if rng.random() < 0.3:
        return f"WITH u AS ({union}) {ABOVE[above].format(u='u', one=one)}"
    return ABOVE[above].format(u=f"({union})", one=one)


def usual(rng: Random) -> str:
    """An aggregate over a union as most people write it."""
    union = " UNION ALL ".join(branch(rng) for _ in range(2))
    calls = rng.choice(["count(*) AS c, sum(v) AS s", "avg(v) AS m", "count(DISTINCT k) AS d"])
    having = rng.choice(["", " HAVING max(v) > 30"])
    return f"SELECT window, {calls} FROM ({union}) GROUP BY {rng.choice(WINDOWS)}{having}"


MORE = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 6)]


@pytest.mark.parametrize("seed", [0, *MORE])
def test_any_shape_gives_the_rows_of_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """By prepared plans and by jobs, with segments and trains cut anyhow."""
    both, rng = BothWays(spark, monkeypatch), Random(seed)
    queries = {name: query(rng, name) for name in ABOVE} | {"usual": usual(rng)}
    log = in_order(Log.random(seed))
    app = declare(spark)
    for name, sql in queries.items():
        app.query(name, sql=sql, cls="low")
    with app.run(make_policy_with("stride", train=rng.choice([7, 50])), run_dir=tmp_path) as run:
        feed(run, log.segments())
        run.drain(flush=True)
    assert not run.failures
    every = {s: [row for made in segments for row in made] for s, segments in log.streams.items()}
    expected = batches(spark, queries, every)
    for name, sql in queries.items():
        assert bag(run.rows(name)) == expected[name], sql
    assert both.trains
    assert not both.different
