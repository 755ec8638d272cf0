"""Staleness on Spark is exact: a query is stale only while a tuple that will pass is pending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.model import Arrivals, ConfigError
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.spark.app import App
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sql.composite import BITS, MASK, Cutter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]
#: Filters, and the same predicates in Python.
FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "hot": (
        "temperature > 30 AND humidity < 40",
        lambda r: bool(r["temperature"] > 30 and r["humidity"] < 40),
    ),
    "rare": ("reading % 97 = 96", lambda r: bool(r["reading"] % 97 == 96)),
    "never": ("reading < 0", lambda _: False),
    "always": ("reading >= 0", lambda _: True),
}
OPAQUE = {"exploded", "function"}


def declare(spark: SparkSession, rows: int) -> App:
    app = App(spark, name="staleness")
    app.stream(
        "readings",
        format="generator",
        options={"seed": 3, "limit": rows},
        arrivals=Arrivals(rate_per_s=500),
    )
    for name, (condition, _) in FILTERS.items():
        app.query(name, sql=f"SELECT *, wind + 1 AS w FROM readings WHERE {condition}")
    condition = FILTERS["rare"][0]
    app.query(
        "exploded",
        sql="SELECT reading, part FROM readings LATERAL VIEW explode(array(1, 2)) t AS part "
        f"WHERE {condition}",
    )

    @app.query("function")
    def function(readings: DataFrame) -> DataFrame:
        return readings.where(condition)

    return app


def brute_force(
    name: str,
    rows: list[tuple[int, Row]],
    passes: Callable[[Row], bool],
    jobs: dict[str, list[Any]],
    report: RunReport,
    start_ns: int,
) -> float:
    """Row by row: who passes is stale from its arrival to the commit of the job it was in."""
    mine = [i for i, query in enumerate(jobs["query"]) if query == name]
    mine.sort(key=lambda i: jobs["committed_ns"][i])
    left = [at for i in mine for at in [jobs["committed_ns"][i]] * jobs["tuples"][i]]
    assert len(left) == len(rows), "every row was answered by one job"
    events: list[tuple[int, int]] = []
    for (arrival_ns, row), left_ns in zip(rows, left, strict=True):
        if passes(row):
            events += [(max(arrival_ns - start_ns, 0), 1), (left_ns, -1)]
    stale_ns = pending = since_ns = 0
    for at_ns, change in sorted(events):
        stale_ns += (at_ns - since_ns) * (pending > 0)
        pending, since_ns = pending + change, at_ns
    return stale_ns / report.spent.wall_ns


@pytest.mark.parametrize("rider_bound_s", [0.1, 0.0])
def test_it_is_what_a_row_by_row_account_says(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rider_bound_s: float,
) -> None:
    """Composited and each by itself, with trains that cut segments apart."""
    rows: list[tuple[int, Row]] = []
    append = SegmentStore.append

    def recording(self: SegmentStore, *args: Any, **kwargs: Any) -> Any:
        segment = append(self, *args, **kwargs)
        if segment is not None:
            rows.extend((segment.arrival_ns, r) for r in self.table(segment).to_pylist())
        return segment

    monkeypatch.setattr(SegmentStore, "append", recording)
    policy = make_policy_with("fas-mcq", train=67)
    with declare(spark, rows=400).run(
        policy, run_dir=tmp_path / "run", rider_bound_s=rider_bound_s
    ) as run:
        run.drain()
    report = run.report()
    jobs = pq.read_table(tmp_path / "run/record/jobs.parquet").to_pydict()
    assert (max(jobs["together"]) > 1) == (rider_bound_s > 0)
    measured = dict(zip(report.queries, report.staleness.tolist(), strict=True))
    start_ns = run.parts.scheduling.driver.accounts.start_ns
    for name, (_, passes) in FILTERS.items():
        exact = brute_force(name, rows, passes, jobs, report, start_ns)
        assert measured[name] == pytest.approx(exact, abs=1e-12), name
    assert measured["never"] == 0.0
    assert 0 < measured["rare"] < 1
    assert 0 < measured["always"] < 1
    for name in OPAQUE:
        # Which tuple gave a row is not known of these: at least as stale as they were.
        args = (rows, FILTERS["rare"][1], jobs, report, start_ns)
        assert brute_force(name, *args) - 1e-12 <= measured[name] < 1
    loaded = RunReport.load(tmp_path / "run/record")
    assert np.array_equal(loaded.staleness, report.staleness)


def test_weights_follow_the_subscribers_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    app = App(spark, name="subscribers")
    app.stream(
        "readings",
        format="generator",
        options={"limit": 50},
        arrivals=Arrivals(rate_per_s=100),
    )
    for name, count in (("many", 100), ("few", 10)):
        app.query(name, sql="SELECT reading FROM readings", subscribers=count)
    app.query("own", sql="SELECT reading FROM readings", weight=0.3)
    with pytest.raises(ConfigError, match="has a weight and subscribers"):
        app.query("both", sql="SELECT reading FROM readings", weight=0.3, subscribers=2)
    with app.run("fas-mcq", run_dir=tmp_path / "run") as run:
        index = run.parts.accepted.catalog.application.network.query_index
        assert run.parts.keeping.figures.view.query_weight == (0.1, 1.0, 0.3)
        assert [index[n] for n in ("few", "many", "own")] == [0, 1, 2]
        run.set_subscribers("few", 400)
        assert run.parts.keeping.figures.view.query_weight == (1.0, 0.25, 0.3)
        run.set_weight("many", 0.5)
        run.set_subscribers("few", 800)
        assert run.parts.keeping.figures.view.query_weight == (1.0, 0.5, 0.3)
        with pytest.raises(ConfigError, match="-1 subscribers"):
            run.set_subscribers("few", -1)
        run.drain()
    report = run.report()
    assert report.weights == (1.0, 0.5, 0.3)
    assert [c["what"] for c in report.manifest["changes"]] == [
        "subscribers", "weight", "subscribers",
    ]  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=5),
    kept=st.dictionaries(st.integers(0, 69), st.sets(st.integers(0, 19))),
)
def test_the_earliest_row_of_each_query_in_one_result(
    batches: list[tuple[int, int]], kept: dict[int, set[int]]
) -> None:
    """Against a look at every row; more queries than one mask has bits."""
    stamps = np.array([at for at, rows in batches for _ in range(rows)], dtype=np.int64)
    masks = np.zeros((2, len(stamps)), dtype=np.int64)
    for query, rows in kept.items():
        for row in rows & set(range(len(stamps))):
            masks[query // BITS, row] |= np.int64(1 << query % BITS)
    result = pa.table({f"{MASK}{i}": mask for i, mask in enumerate(masks)})
    composite = Cutter((("c0",),) * 70)
    expected = [
        min((int(stamps[r]) for r in kept.get(q, ()) if r < len(stamps)), default=None)
        for q in range(70)
    ]
    assert composite.earliest(result, stamps, range(70)) == expected
