"""The refresh planner and its estimators on DataFrames, for mirrors larger than one memory.

The same search as `daybreak.freshness.refresh_planner`, but a step is one aggregation over cached
columns. The arithmetic of `daybreak.freshness.stationarity` is written out in SQL: Spark's
generated code runs it without a Python process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daybreak.freshness.estimate import RatePrior
from daybreak.freshness.multiplier import NEVER, Anchored, binned_multiplier, search
from daybreak.freshness.stationarity import M1, M2, M3, SERIES_BELOW
from daybreak.model import ConfigError, EngineBug

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Bins of log r per unit of the natural logarithm, for the first guess of mu.
_BINS_PER_E = 64


@dataclass(frozen=True, slots=True, eq=False)
class FramePlan:
    """A plan whose frequencies stay in Spark; the rest is as in `daybreak.freshness.Plan`."""

    #: id, frequency, freshness.
    frame: DataFrame
    perceived_freshness: float
    multiplier: float
    gap: float
    bandwidth: float
    spent: float
    #: How many aggregations went over all objects.
    passes: int
    #: What ``frame`` is computed from.
    cached: DataFrame

    def release(self) -> None:
        """Frees the cache; ``frame`` still works, but is then computed from the input again."""
        self.cached.unpersist()


def plan_frame(objects: DataFrame, bandwidth: float, start: float | None = None) -> FramePlan:
    """The best plan for objects with columns id, change_rate, access, size.

    ``access`` may be any weights. ``start`` is the multiplier of an earlier plan. The columns it
    works on stay cached, in memory and on disk, until `FramePlan.release`.
    """
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise ConfigError("bandwidth", f"is {bandwidth}", "give a number above 0")
    total = _checked_total(objects)
    demand = _FrameDemand(_priced(objects, total))
    first = demand.first_guess(bandwidth)
    if first is None:
        return demand.idle(bandwidth)
    begin = demand.depth(start or first)
    shallow, deep = search(demand, bandwidth, begin)
    return demand.spend(bandwidth, shallow, deep)


def synthetic_objects(spark: SparkSession, count: int) -> DataFrame:
    """Objects with exponential change rates, Zipf access and Pareto sizes, for benchmarks."""
    return spark.range(count).selectExpr(
        "id",
        "-2 * ln(1 - rand(1)) AS change_rate",
        "1 / (id + 1.0D) AS access",
        "0.5D * pow(1 - rand(2), -0.5D) AS size",
    )


def _checked_total(objects: DataFrame) -> float:
    """The sum of the weights, if every row makes sense."""
    missing = {"id", "change_rate", "access", "size"} - set(objects.columns)
    if missing:
        raise ConfigError("objects", f"no column {sorted(missing)[0]}", "add it")
    bad = {
        name: f"count_if(NOT coalesce({test}, false))"
        for name, test in (
            ("change_rate", "change_rate >= 0 AND change_rate < double('Infinity')"),
            ("access", "access >= 0 AND access < double('Infinity')"),
            ("size", "size > 0 AND size < double('Infinity')"),
        )
    }
    row = objects.selectExpr(
        "sum(double(access)) AS total", *(f"{e} AS bad_{n}" for n, e in bad.items())
    ).first()
    assert row is not None
    for name in bad:
        if row[f"bad_{name}"]:
            raise ConfigError(
                "objects",
                f"{row[f'bad_{name}']} rows have no usable {name}",
                "correct or drop them",
            )
    if not row["total"] or not math.isfinite(row["total"]):
        raise ConfigError("objects", f"access sums to {row['total']}", "some must be accessed")
    return float(row["total"])


def _priced(objects: DataFrame, total: float) -> DataFrame:
    """Cached: id, rate, size, worth = p, load = s lambda (0 if worthless), price = 1/r."""
    worthy = "rate > 0 AND worth > 0"
    return (
        objects.selectExpr(
            "id",
            "double(change_rate) AS rate",
            "double(size) AS size",
            f"double(access) / {_sql(total)} AS worth",
        )
        .selectExpr(
            "*",
            f"if({worthy}, size * rate, 0D) AS load",
            f"if({worthy}, greatest(least(size * rate / worth, {_sql(NEVER)}), 1E-290D), "
            f"{_sql(NEVER)}) AS price",
        )
        .persist()
    )


class _FrameDemand(Anchored):
    """The demand of all rows: one aggregation per depth."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self.anchor = NEVER
        #: The aggregation that checked the input counts too.
        self.passes = 1

    def first_guess(self, bandwidth: float) -> float | None:
        """mu of the binned problem; None if nothing is worth refreshing."""
        self.passes += 1
        rows = (
            self.frame.where("load > 0")
            .groupBy(_expr(f"floor(ln(price) * {_BINS_PER_E})").alias("bin"))
            .agg(
                _expr("sum(load)").alias("load"),
                _expr("sum(worth)").alias("worth"),
                _expr("min(price)").alias("least"),
            )
            .collect()
        )
        if not rows:
            return None
        self.anchor = min(row["least"] for row in rows)
        load, worth = (np.array([row[name] for row in rows]) for name in ("load", "worth"))
        return binned_multiplier(load, worth, bandwidth)

    def __call__(self, depth: float) -> tuple[float, float]:
        own = f"price = {_sql(self.anchor)}"
        pull = "load * pace * pace * (1 + pace)"
        row = self._first(
            _with_pace(self.frame, depth, self.anchor).selectExpr(
                "sum(load * pace) AS use",
                f"sum(if({own}, {pull}, 0D)) AS own",
                f"sum(if({own}, 0D, {pull} * price / greatest(1 - share, 1E-300D))) AS others",
            )
        )
        fade = math.exp(-depth) / self.anchor
        return row["use"], -row["own"] - fade * row["others"]

    def dearest_below(self, limit: float) -> float:
        row = self._first(self.frame.where(f"price < {_sql(limit)}").selectExpr("max(price) AS m"))
        return float(row["m"] or 0.0)

    def spend(self, bandwidth: float, shallow: float, deep: float) -> FramePlan:
        """The convex combination of the bracket's ends, with its certificate."""
        both = self.frame
        for name, depth in (("low", deep), ("high", shallow)):
            both = _with_pace(both, depth, self.anchor).selectExpr(
                *both.columns, f"rate * pace AS {name}"
            )
        ends = self._first(
            both.selectExpr(
                "sum(size * low) AS use_low",
                "sum(size * high) AS use_high",
                f"sum(worth * {_fresh('low')}) AS pf_low",
            )
        )
        width = ends["use_high"] - ends["use_low"]
        share = (bandwidth - ends["use_low"]) / width if width > 0 else 0.0
        planned = both.selectExpr(
            "id", "rate", "size", "worth", f"low + {_sql(share)} * (high - low) AS frequency"
        ).selectExpr("*", f"{_fresh('frequency')} AS freshness")
        last = self._first(
            planned.selectExpr("sum(worth * freshness) AS pf", "sum(size * frequency) AS spent")
        )
        if last["spent"] > bandwidth * (1 + 1e-9):
            raise EngineBug(f"a plan for {bandwidth!r} of bandwidth spends {last['spent']!r}")
        multiplier = self.multiplier(deep)
        bound = ends["pf_low"] + multiplier * (bandwidth - ends["use_low"])
        return FramePlan(
            frame=planned.select("id", "frequency", "freshness"),
            perceived_freshness=last["pf"],
            multiplier=multiplier,
            gap=max(0.0, bound - last["pf"]),
            bandwidth=bandwidth,
            spent=last["spent"],
            passes=self.passes,
            cached=self.frame,
        )

    def idle(self, bandwidth: float) -> FramePlan:
        """Nothing read ever changes: no refresh helps."""
        frame = self.frame.selectExpr("id", "0D AS frequency", f"{_fresh('0D')} AS freshness")
        pf = self._first(self.frame.selectExpr(f"sum(worth * {_fresh('0D')}) AS pf"))["pf"]
        return FramePlan(frame, pf, 0.0, 0.0, bandwidth, 0.0, self.passes, self.frame)

    def _first(self, frame: DataFrame) -> Any:
        self.passes += 1
        return frame.first()


def _with_pace(frame: DataFrame, depth: float, anchor: float) -> DataFrame:
    """Adds share = c and pace = 1/x = f/lambda at this depth; see `solve_staleness`."""
    mu = -math.expm1(-depth) / anchor
    own = "double(NULL)" if math.isinf(depth) else _sql(depth)
    kept = frame.columns
    series = "t * (1 + t * (1/3D + t * (1/36D + t * (-1/270D + t/4320D))))"
    halley = "x - 2 * e * x * (1 + x) / (2 * x * x - e)"
    # One projection whose columns build on each other (lateral aliases); a missing depth means
    # not worth refreshing.
    solved = frame.selectExpr(
        "*",
        f"least({_sql(mu)} * price, 1D) AS share",
        f"if(price = {_sql(anchor)}, {own}, if(share < 1, -log1p(-share), NULL)) AS depth",
        "sqrt(depth) AS root",
        f"{_sql(M1 / math.sqrt(2))} * root / (1 + {M2}D * depth * exp({M3}D * root)) AS bend",
        f"depth + {_sql(2 / M1)} * bend / (1 + bend) AS x",
        f"{_sql(math.sqrt(2))} * root AS t",
        "x - log1p(x) - depth AS e",
        f"if(depth < {SERIES_BELOW}D, {series}, {halley}) AS solved",
        "if(depth IS NULL, 0D, 1 / solved) AS pace",
    )
    return solved.select(*kept, "share", "pace")


def _fresh(frequency: str) -> str:
    """Fbar of a frequency, as SQL; ``rate`` is lambda."""
    return (
        f"(CASE WHEN rate = 0 THEN 1D WHEN {frequency} = 0 THEN 0D "
        f"ELSE -expm1(-rate / {frequency}) * {frequency} / rate END)"
    )


def _sql(value: float) -> str:
    """A double literal with all its digits."""
    return "double('Infinity')" if math.isinf(value) else f"{value!r}D"


def _expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def access_frame(log: DataFrame) -> DataFrame:
    """Access weights from an access log: how often each id occurs."""
    return log.groupBy("id").agg(_expr("double(count(*))").alias("access"))


def master_profile_frame(profiles: DataFrame, users: DataFrame | None = None) -> DataFrame:
    """The master profile (id, access) of user profiles with columns user, id, weight.

    Each user's weights are scaled to sum 1; ``users`` (user, weight) makes some count more.
    """
    totals = profiles.groupBy("user").agg(_expr("sum(weight)").alias("whole"))
    scaled = profiles.join(totals.where("whole > 0"), "user").selectExpr(
        "user", "id", "weight / whole AS interest"
    )
    if users is not None:
        scaled = scaled.join(users.selectExpr("user", "weight AS importance"), "user")
        scaled = scaled.selectExpr("id", "interest * importance AS interest")
    return scaled.groupBy("id").agg(_expr("sum(interest)").alias("access"))


def visits_from_log(log: DataFrame) -> DataFrame:
    """id, elapsed, changed from a log of id, visited_at (in periods), changed.

    An object's first visit has nothing before it and is left out.
    """
    before = "lag(visited_at) OVER (PARTITION BY id ORDER BY visited_at)"
    return log.selectExpr("id", f"double(visited_at - {before}) AS elapsed", "changed").where(
        "elapsed > 0"
    )


def estimate_frame(visits: DataFrame, prior: RatePrior | None = None) -> DataFrame:
    """id, change_rate, visits from rows of id, elapsed, changed.

    The same estimate as `daybreak.freshness.estimate.estimate_rates`. Equal intervals of an
    object are counted together first, so regular logs shrink to a few rows per object.
    """
    counted = visits.groupBy("id", "elapsed", "changed").agg(_expr("double(count(*))").alias("n"))
    known = counted.groupBy("id").agg(
        _expr("sum(n)").alias("seen"),
        _expr("sum(n * elapsed)").alias("total"),
        _expr("coalesce(sum(if(changed, 0D, n * elapsed)), 0D)").alias("quiet"),
        _expr("coalesce(sum(if(changed, n, 0D)), 0D)").alias("hits"),
        _expr("collect_list(if(changed, struct(elapsed AS tau, n AS k), NULL))").alias("taus"),
    )
    shape = "0D" if prior is None else _sql(prior.weight)
    burden = "total / (2 * seen)" if prior is None else _sql(prior.weight / prior.mean)
    return (
        known.selectExpr("*", f"{shape} AS shape", f"{burden} AS burden")
        .selectExpr("*", "(hits + shape) / (total + burden) AS first")
        .selectExpr("id", f"{_newton_sql()} AS change_rate", "bigint(seen) AS visits")
    )


def _newton_sql() -> str:
    """Newton's steps of `estimate_rates` for one row, as a fold over at most 60 turns."""
    z = "(s.rate * v.tau)"
    h = f"if({z} > 700, 0D, {z} / expm1({z}))"
    slope = (
        f"CASE WHEN {z} < 1E-4D THEN -0.5D + {z} / 6 WHEN {z} > 700 THEN 0D "
        f"ELSE (1 - {z} * exp({z}) / expm1({z})) / expm1({z}) END"
    )
    sums = (
        "aggregate(taus, struct(0D AS h, 0D AS d), (a, v) -> "
        f"struct(a.h + v.k * {h} AS h, a.d + v.k * v.tau * ({slope}) AS d))"
    )
    step = (
        f"transform(array({sums}), a -> "
        "(shape + a.h - s.rate * (burden + quiet)) / greatest(burden + quiet - a.d, 1E-300D))[0]"
    )
    turn = (
        f"transform(array({step}), d -> "
        "struct(s.rate + greatest(d, 0D) AS rate, d <= 1E-13D * s.rate AS done))[0]"
    )
    return (
        "if(first = 0, 0D, aggregate(sequence(1, 60), struct(first AS rate, false AS done), "
        f"(s, i) -> if(s.done, s, {turn}), s -> s.rate))"
    )
