"""The planner and the estimators on DataFrames give the local ones' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from daybreak.freshness import Mirror, plan
from daybreak.freshness.estimate import RatePrior, Visits, estimate_rates
from daybreak.model import ConfigError
from daybreak.spark.adapters.freshness import (
    access_frame,
    estimate_frame,
    master_profile_frame,
    plan_frame,
    synthetic_objects,
    visits_from_log,
)
from daybreak_experiments.freshening.mirrors import pareto_sizes, thesis_mirror

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def as_frame(spark: SparkSession, mirror: Mirror) -> DataFrame:
    columns = {"change_rate": mirror.change_rate, "access": mirror.access, "size": mirror.size}
    return spark.createDataFrame(pa.table({"id": np.arange(len(mirror)), **columns}))


@pytest.mark.parametrize("budget", [1e-6, 0.3])
def test_the_same_plan_as_the_local_planner(spark: SparkSession, budget: float) -> None:
    base = thesis_mirror(3, objects=3000, rate_deviation=2.0)
    sizes = pareto_sizes(3000, 1.5, np.random.default_rng(1))
    # Some objects never change, some are never read.
    rates = np.where(np.arange(3000) % 10 == 0, 0.0, base.change_rate)
    access = np.where(np.arange(3000) % 7 == 0, 0.0, base.access)
    mirror = Mirror.of(rates, access, sizes)
    bandwidth = budget * float(mirror.size @ mirror.change_rate)
    local, made = plan(mirror, bandwidth), plan_frame(as_frame(spark, mirror), bandwidth)
    assert made.perceived_freshness == pytest.approx(local.perceived_freshness, rel=1e-9)
    assert made.spent == pytest.approx(bandwidth, rel=1e-9)
    assert made.gap < 1e-9
    assert made.passes <= 15
    table = made.frame.toArrow().sort_by("id")
    found = np.array(table["frequency"].to_pylist())
    assert found == pytest.approx(local.frequency, rel=1e-6, abs=1e-9 * bandwidth)


def test_table_2_1_and_a_warm_start(spark: SparkSession) -> None:
    frame = as_frame(spark, Mirror.of([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]))
    made = plan_frame(frame, 5)
    found = [r["frequency"] for r in made.frame.orderBy("id").collect()]
    assert found == pytest.approx([1.6857, 1.8263, 1.4880, 0, 0], abs=1e-4)
    again = plan_frame(frame, 5, start=made.multiplier)
    assert again.perceived_freshness == pytest.approx(made.perceived_freshness, rel=1e-12)


def test_nothing_to_refresh(spark: SparkSession) -> None:
    made = plan_frame(as_frame(spark, Mirror.of([0.0, 2.0], [1, 0])), 5)
    assert (made.perceived_freshness, made.spent, made.multiplier) == (1, 0, 0)
    assert [r["freshness"] for r in made.frame.orderBy("id").collect()] == [1, 0]


def test_synthetic_objects_keep_the_gap_small(spark: SparkSession) -> None:
    made = plan_frame(synthetic_objects(spark, 200_000), 100_000)
    assert made.gap < 1e-9
    assert 0.5 < made.perceived_freshness < 1
    assert made.cached.is_cached
    made.release()
    assert not made.cached.is_cached


@pytest.mark.parametrize(
    ("columns", "finding"),
    [
        ("1 AS id, 1D AS change_rate, 1D AS access", "no column size"),
        ("1 AS id, -1D AS change_rate, 1D AS access, 1D AS size", "1 rows have no usable change"),
        ("1 AS id, 1D AS change_rate, double(NULL) AS access, 1D AS size", "no usable access"),
        ("1 AS id, 1D AS change_rate, 0D AS access, 1D AS size", "access sums to 0"),
    ],
)
def test_unusable_objects_are_refused(spark: SparkSession, columns: str, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        plan_frame(spark.sql(f"SELECT {columns}"), 5)


@pytest.mark.parametrize("prior", [None, RatePrior(mean=0.7, weight=0.5)])
def test_the_same_estimates_as_the_local_ones(spark: SparkSession, prior: RatePrior | None) -> None:
    rng = np.random.default_rng(2)
    item = rng.integers(0, 40, 3000)
    elapsed = np.where(rng.random(3000) < 0.5, 1.0, rng.exponential(2, 3000) + 0.01)
    changed = rng.random(3000) < -np.expm1(-rng.gamma(1, 1, 40)[item] * elapsed)
    changed[item == 0], changed[item == 1] = False, True
    local = estimate_rates(Visits.of(item, elapsed, changed), 40, prior)
    frame = spark.createDataFrame(pa.table({"id": item, "elapsed": elapsed, "changed": changed}))
    rows = estimate_frame(frame, prior).orderBy("id").collect()
    assert [r["change_rate"] for r in rows] == pytest.approx(local, rel=1e-9, abs=1e-15)
    assert [r["visits"] for r in rows] == np.bincount(item).tolist()


def test_visits_follow_from_a_log(spark: SparkSession) -> None:
    log = spark.sql(
        "SELECT * FROM VALUES ('a', 3.0D, true), ('a', 1.0D, false), ('b', 2.0D, true), "
        "('a', 3.5D, false) AS t(id, visited_at, changed)"
    )
    rows = visits_from_log(log).orderBy("elapsed").collect()
    assert [tuple(r) for r in rows] == [("a", 0.5, False), ("a", 2.0, True)]


def test_access_logs_and_profiles_aggregate(spark: SparkSession) -> None:
    log = spark.sql("SELECT explode(array('a', 'b', 'a', 'c', 'a')) AS id")
    assert {r["id"]: r["access"] for r in access_frame(log).collect()} == {"a": 3, "b": 1, "c": 1}
    profiles = spark.sql(
        "SELECT * FROM VALUES ('general', 'a', 3D), ('general', 'b', 1D), ('clerk', 'c', 9D) "
        "AS t(user, id, weight)"
    )
    users = spark.sql("SELECT * FROM VALUES ('general', 3D), ('clerk', 1D) AS t(user, weight)")
    alike = {r["id"]: r["access"] for r in master_profile_frame(profiles).collect()}
    assert alike == pytest.approx({"a": 0.75, "b": 0.25, "c": 1.0})
    ranked = {r["id"]: r["access"] for r in master_profile_frame(profiles, users).collect()}
    assert ranked == pytest.approx({"a": 2.25, "b": 0.75, "c": 1.0})
