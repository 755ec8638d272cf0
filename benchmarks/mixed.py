"""What compositing buys and what scheduling buys, on a mixed workload at and beyond capacity.

60 queries of three classes over one stream: filters, window aggregates, window and band joins,
joins with a static table, one expensive Python function, and one whose sink always fails. Loads
are shares of the rate this machine works off with compositing on, measured first. Every figure is
of the run's own record, after a warm-up in which queries are compiled. All runs share one Spark.

    python benchmarks/mixed.py [--quick] [--seconds 20] [--warm-up 10] [--json] [--docs FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from daybreak.model import Arrivals, ConfigError
from daybreak.policies.registry import make_policy_with
from daybreak.report.text import duration, markdown, table
from daybreak.simulation.recorded import Record
from daybreak.spark.app import App
from daybreak.spark.session import local_session

CLASSES = {
    "critical": (60, [[0, 1.0], [0.5, 1.0], [1.5, 0.0]]),
    "normal": (30, [[0, 1.0], [2.0, 1.0], [5.0, 0.0]]),
    "archive": (10, [[0, 1.0], [10.0, 1.0], [30.0, 0.0]]),
}
#: By the name shown: the policy and its parameters.
POLICIES: dict[str, tuple[str, dict[str, float]]] = {
    "stride": ("stride", {}),
    "stride-patient": ("stride", {"patience": 0.5}),
    "bucketing-clearing": ("bucketing-clearing", {}),
    "mbd": ("mbd", {}),
    "round-robin": ("round-robin", {}),
    "fcfs": ("fcfs", {}),
}
LOADS = (0.7, 0.95, 1.3)
BOUNDS_S = {"on": 0.1, "off": 0.0}
#: Rows for finding the capacity, and how fast they come.
BACKLOG, FLOOD_PER_S = 60_000, 200_000.0


@dataclass(frozen=True)
class Outcome:
    """One run."""

    policy: str
    compositing: str
    load: float
    rate_per_s: float
    utility: float
    staleness: float
    critical_p95_s: float
    archive_p95_s: float
    answered: float
    scheduling: float


FILTER = """SELECT reading, station, temperature FROM readings
WHERE temperature > {warm} AND humidity < {dry} AND wind > {windy}"""
AVERAGE = """SELECT window.end AS until, district, avg(temperature) AS mean, count(*) AS n
FROM readings WHERE humidity > {dry} GROUP BY window(at, '{seconds} seconds'), district"""
NEIGHBOURS = """SELECT a.reading, b.reading AS other FROM readings a JOIN readings b
ON a.station = b.station AND window(a.at, '2 seconds') = window(b.at, '2 seconds')
WHERE a.temperature > {warm} AND b.wind > {windy}"""
NAMED = """SELECT reading, name, temperature FROM readings JOIN districts USING (district)
WHERE temperature > {warm}"""
EXPENSIVE = "aggregate(transform(sequence(1, 300), x -> sqrt(x * wind + 1)), 0D, (a, b) -> a + b)"


def queries() -> Iterator[tuple[str, str, str]]:
    """Name, class and SQL."""
    for i in range(36):
        sql = FILTER.format(warm=35 - i % 12, dry=20 + i, windy=i % 7)
        yield f"filter-{i:02d}", list(CLASSES)[i % 3], sql
    for i in range(10):
        sql = AVERAGE.format(dry=i * 5, seconds=2 + i % 3)
        yield f"average-{i:02d}", "normal" if i % 2 else "archive", sql
    for i in range(6):
        sql = NEIGHBOURS.format(warm=38 + i, windy=45 + i)
        yield f"neighbours-{i:02d}", "normal" if i % 2 else "archive", sql
    for i in range(6):
        yield f"named-{i:02d}", "critical" if i % 2 else "normal", NAMED.format(warm=30 + i)


def application(spark: SparkSession, rate_per_s: float, limit: int | None) -> App:
    app = App(spark, name="mixed")
    for name, (priority, qos) in CLASSES.items():
        app.query_class(name, priority, qos=qos)
    app.stream(
        "readings",
        format="generator",
        options={"seed": 1} if limit is None else {"seed": 1, "limit": limit},
        arrivals=Arrivals(rate_per_s=rate_per_s),
        time="at",
        watermark="0.2 seconds",
    )
    for name, cls, sql in queries():
        app.query(name, sql=sql, cls=cls, sink=lambda _rows, _key: None)

    @app.query(cls="archive", sink=lambda _rows, _key: None)
    def expensive(readings: DataFrame) -> DataFrame:
        return readings.selectExpr("reading", f"{EXPENSIVE} AS total")

    def refuse(_rows: pa.Table, _key: str) -> None:
        raise OSError("the other side does not answer")

    app.query(
        "broken", sql="SELECT reading FROM readings WHERE wind > 10", cls="normal", sink=refuse
    )
    return app


def capacity_per_s(spark: SparkSession, folder: Path) -> float:
    """The second of two backlogs: the first one loads and compiles code."""
    rate = 0.0
    for attempt in ("cold", "warm"):
        app = application(spark, FLOOD_PER_S, BACKLOG)
        with app.run("stride", run_dir=folder / f"capacity-{attempt}") as run:
            began = time.monotonic()
            run.drain(flush=True)
            rate = BACKLOG / (time.monotonic() - began)
    return rate


def measure(
    spark: SparkSession, folder: Path, policy: str, compositing: str, load: float,
    capacity: float, warm_up_s: float, seconds: float,
) -> Outcome:  # fmt: skip
    rate_per_s = load * capacity
    run_dir = folder / f"{policy}-{compositing}-{load:g}"
    app = application(spark, rate_per_s, None)
    name, parameters = POLICIES[policy]
    chosen = make_policy_with(name, **parameters)
    with app.run(chosen, run_dir=run_dir, rider_bound_s=BOUNDS_S[compositing]) as run:
        run.wait(warm_up_s + seconds)
    record = Record.load(run_dir)
    report = record.stretch(round(warm_up_s * 1e9), record.end_ns)
    by_class = report.by_class()
    weights = {name: priority for name, (priority, _) in CLASSES.items()}
    members = Counter([cls for _, cls, _ in queries()] + ["archive"])  # and the expensive one
    arrived = {n: rate_per_s * report.duration_s * members[n] for n in weights}
    # What is not answered is worth nothing.
    worth = {
        n: min(1.0, by_class[n].utility * by_class[n].count / arrived[n])
        if by_class[n].count
        else 0.0
        for n in weights
    }
    answered = sum(s.count for n, s in report.by_query().items() if n != "broken")
    return Outcome(
        policy=policy,
        compositing=compositing,
        load=load,
        rate_per_s=rate_per_s,
        utility=sum(weights[n] * worth[n] for n in weights) / sum(weights.values()),
        staleness=report.overall_staleness,
        critical_p95_s=by_class["critical"].percentiles_s[95],
        archive_p95_s=by_class["archive"].percentiles_s[95],
        answered=answered / sum(arrived.values()),
        scheduling=report.spent.scheduling_ns / max(1, report.spent.wall_ns),
    )


def rows(outcomes: list[Outcome]) -> list[list[str]]:
    head = ["compositing", "load", "policy", "utility", "staleness", "critical p95", "archive p95",
            "answered", "scheduling"]  # fmt: skip
    return [
        head,
        *(
            [
                o.compositing,
                f"{o.load:g}",
                o.policy,
                f"{o.utility:.3f}",
                f"{o.staleness:.3f}",
                duration(o.critical_p95_s),
                duration(o.archive_p95_s),
                f"{o.answered:.0%}",
                f"{o.scheduling:.1%}",
            ]
            for o in outcomes
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two policies, two loads")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured of each run")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds before that")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--docs", type=Path, help="write FOLDER/mixed.md")
    chosen = parser.parse_args()
    some = slice(2) if chosen.quick else slice(None)
    policies, loads = list(POLICIES)[some], LOADS[1:] if chosen.quick else LOADS
    spark = local_session("mixed", extra_conf={"spark.driver.memory": "3g"})
    names = [(i, f"district {i}") for i in range(100)]
    spark.createDataFrame(names, "district INT, name STRING").createOrReplaceTempView("districts")
    found: list[Outcome] = []
    with TemporaryDirectory() as scratch:
        capacity = capacity_per_s(spark, Path(scratch))
        sys.stderr.write(f"capacity {capacity:,.0f} rows/s\n")
        for compositing, load, policy in product(BOUNDS_S, loads, policies):
            found.append(
                measure(
                    spark,
                    Path(scratch),
                    policy,
                    compositing,
                    load,
                    capacity,
                    chosen.warm_up,
                    chosen.seconds,
                )
            )
            sys.stderr.write(f"{' '.join(rows(found)[-1])}\n")
    if chosen.json:
        document = {"capacity_per_s": capacity, "runs": [asdict(o) for o in found]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        from daybreak.cli.console import console

        title = f"60 mixed queries, capacity {capacity:,.0f} rows/s"
        console().print(table(rows(found), title=title))
    if chosen.docs:
        page = chosen.docs / "mixed.md"
        page.write_text(_page(capacity, found, chosen.warm_up, chosen.seconds), encoding="utf-8")
        sys.stderr.write(f"written: {page}\n")
    return 0


def _page(capacity: float, found: list[Outcome], warm_up_s: float, seconds: float) -> str:
    return f"""# What compositing and scheduling buy

60 queries of three classes over one stream: 36 filters, 10 window aggregates, 6 window joins, 6
joins with a static table, one expensive function, one whose sink always fails (it is parked while
the rest goes on). Loads are shares of {capacity:,.0f} rows/s, the rate at which this machine worked
off a backlog with compositing on. {seconds:g} s each after {warm_up_s:g} s of warm-up, one run
each, all figures from the run's own record of that time: utility is the mean over the tuples that
arrived, weighted by class priority, and a tuple that is not answered is worth nothing; staleness
is the share of time in which a query had a tuple pending that gave a row; *answered* is (query,
tuple) pairs answered over those that arrived (more than 100 % where a backlog shrank);
*scheduling* the share of the run's time that the scheduler's thread spent on deciding and
bookkeeping; *stride-patient* is stride with `patience = 0.5`. A percentile covers what was
answered in that time, old or new.

Made by `{shlex.join(["python", "benchmarks/mixed.py", *sys.argv[1:]])}`.

{markdown(rows(found))}
{_said(found)}"""


def _said(found: list[Outcome]) -> str:
    """What the table says, counted."""
    cases: dict[tuple[str, float], list[Outcome]] = {}
    for o in found:
        cases.setdefault((o.compositing, o.load), []).append(o)

    def best(value: Callable[[Outcome], float]) -> str:
        counts = Counter(min(runs, key=value).policy for runs in cases.values())
        return ", ".join(f"{policy} in {n}" for policy, n in counts.most_common())

    shares = {p: [o.scheduling for o in found if o.policy == p] for p in POLICIES}
    took = ", ".join(f"{p} {min(s):.1%} to {max(s):.1%}" for p, s in shares.items() if s)
    return f"""
Of {len(cases)} cases the best utility has {best(lambda o: -o.utility)};
the shortest critical p95 {best(lambda o: o.critical_p95_s)};
the least staleness {best(lambda o: o.staleness)}.
Scheduling took {took}.
"""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
