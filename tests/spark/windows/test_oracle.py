"""Every kind of window query against one batch over the log minus late rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.spark.both_ways import BothWays
from tests.spark.windows.logs import (
    Log,
    S,
    bag,
    band_late,
    batch,
    declare,
    feed,
    sliding,
    tumbling_late,
)

from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.spark.tasks.prepared.plans import SWITCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WINDOWS = {
    "tumbling": "SELECT window.end AS e, k, count(*) AS n, sum(v) AS s, max(v) AS m FROM a "
    "WHERE v > 3 GROUP BY window(at, '10 seconds'), k HAVING count(*) > 1",
    "by_subquery": "SELECT w.start AS s, count(*) AS n FROM "
    "(SELECT window(at, '10 seconds') AS w, v FROM a WHERE v % 2 = 0) GROUP BY w",
    "union": "SELECT window.end AS e, src, count(*) AS n FROM (SELECT at, 'a' AS src FROM a "
    "UNION ALL SELECT at, 'b' AS src FROM b) GROUP BY window(at, '10 seconds'), src",
    "join": "SELECT x.n, y.n AS m FROM a x JOIN b y ON x.k = y.k AND x.v < y.v "
    "AND window(x.at, '10 seconds') = window(y.at, '10 seconds')",
    "self_join": "SELECT x.w.end AS e, x.k, max(x.v - y.v) AS d FROM "
    "(SELECT *, window(at, '10 seconds') AS w FROM a) x JOIN "
    "(SELECT *, window(at, '10 seconds') AS w FROM a) y ON x.w = y.w AND x.k = y.k "
    "GROUP BY x.w, x.k",
    "anti_join": "SELECT x.n FROM (SELECT *, window(at, '10 seconds') AS w FROM a) x "
    "LEFT ANTI JOIN (SELECT *, window(at, '10 seconds') AS w FROM b) y ON x.w = y.w AND x.v = y.v",
    "except": "SELECT window(at, '10 seconds').end AS e, v FROM a EXCEPT "
    "SELECT window(at, '10 seconds').end AS e, v FROM b",
    "distinct": "SELECT DISTINCT window(at, '10 seconds') AS w, k FROM a",
    "exact": "SELECT window.end AS e, median(v) AS m, percentile_cont(0.3) WITHIN GROUP "
    "(ORDER BY v) AS c, percentile_disc(0.7) WITHIN GROUP (ORDER BY v DESC) AS d, bit_and(v) AS x, "
    "bit_or(v) AS y, bit_xor(v) AS z, regr_count(v, k) AS r FROM a "
    "GROUP BY window(at, '10 seconds')",
    "top": "SELECT x.n, x.k FROM (SELECT *, window(at, '10 seconds') AS w FROM a) x JOIN "
    "(SELECT window(at, '10 seconds') AS w, k, max(v) AS m FROM a "
    "GROUP BY window(at, '10 seconds'), k) y ON x.w = y.w AND x.k = y.k AND x.v = y.m",
}
#: Spark itself has no window(...) in a join's condition.
ORACLE = {
    "join": "SELECT x.n, y.n AS m FROM (SELECT *, window(at, '10 seconds') AS w FROM a) x JOIN "
    "(SELECT *, window(at, '10 seconds') AS w FROM b) y ON x.k = y.k AND x.v < y.v AND x.w = y.w"
}
BANDS = {
    "band": "SELECT x.n, y.n AS m FROM a x JOIN b y ON x.k = y.k "
    "AND y.at BETWEEN x.at - INTERVAL 2 SECONDS AND x.at + INTERVAL 3 SECONDS",
    "band_outer": "SELECT x.n, y.n AS m FROM a x LEFT JOIN b y ON x.k = y.k AND x.v = y.v "
    "AND y.at >= x.at AND y.at < x.at + INTERVAL 5 SECONDS",
    "band_self": "SELECT x.n, y.n AS m FROM a x, a y WHERE x.k = y.k AND x.n <> y.n "
    "AND x.at <= y.at AND y.at <= x.at + INTERVAL 1 SECOND",
}
SLIDING = (
    "SELECT window.end AS e, k, count(*) AS n, sum(v) AS s FROM a "
    "GROUP BY window(at, '10 seconds', '4 seconds'), k"
)
ROW_WISE = "SELECT n, v FROM a WHERE v > 25"


def compare(
    spark: SparkSession,
    run_dir: Path,
    log: Log,
    policy: BasePolicy,
    queries: list[str],
    *,
    panes: bool = True,
) -> None:
    app = declare(spark)
    app.panes = panes
    known = {**WINDOWS, **BANDS, "sliding": SLIDING, "rows": ROW_WISE}
    for name in queries:
        app.query(name, sql=known[name], cls="high" if name == "sliding" else "low")
    with app.run(policy, run_dir=run_dir) as run:
        feed(run, log.segments())
        run.drain(flush=True)
    assert not run.failures
    assert not run.parts.scheduling.runners.plans.reasons, "every train has a prepared plan"
    for name in queries:
        assert bag(run.rows(name)) == expected(spark, log, name), name


def expected(spark: SparkSession, log: Log, name: str) -> Counter[str]:
    if name == "sliding":
        return sliding(log.streams["a"], log, "a", 10 * S, 4 * S)
    if name == "rows":
        every = {s: [row for rows in made for row in rows] for s, made in log.streams.items()}
        return batch(spark, ROW_WISE, every)
    if name in BANDS:
        return batch(spark, BANDS[name], {s: log.in_time(s, band_late) for s in log.streams})
    windows = {s: log.in_time(s, tumbling_late(10 * S)) for s in log.streams}
    return batch(spark, ORACLE.get(name, WINDOWS[name]), windows)


@pytest.mark.parametrize(
    ("seed", "policy"),
    [*enumerate(name for name, policy in all_policies().items() if policy.on_spark)],
)
def test_every_policy_emits_each_closed_window_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, policy: str
) -> None:
    """With random cuts, disorder, late rows and trains; with prepared plans and without."""
    both = BothWays(spark, monkeypatch)
    chosen = make_policy_with(policy, train=Random(seed).choice([0, 7, 50]))
    queries = ["tumbling", "sliding", "rows", ["band", "join"][seed % 2]]
    compare(spark, tmp_path / "run", Log.random(seed), chosen, queries)
    assert both.trains
    assert not both.different


@pytest.mark.parametrize(("panes", "few_rows"), [(True, None), (False, None), (True, 0)])
def test_every_kind_of_window_query_gives_the_rows_of_the_batch(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    panes: bool,
    few_rows: int | None,
) -> None:
    """Overlapping windows from panes, and from rows; and as jobs on rows by way of files."""
    both = BothWays(spark, monkeypatch)
    if few_rows is not None:
        monkeypatch.setenv(SWITCH, "1")
        monkeypatch.setattr("daybreak.spark.tasks.worker_session.FEW_ROWS", few_rows)
    queries = [*WINDOWS, *BANDS, "sliding"] if panes else ["sliding"]
    policy = make_policy_with("stride")
    compare(spark, tmp_path / "run", Log.random(100 + panes), policy, queries, panes=panes)
    assert (both.trains > 0) == (few_rows is None)
    assert not both.different
