"""Classes on Spark under overload: does the critical class keep its response time?

Three classes with one, two and three streams, each with three filter queries; queries over one
stream run as one job, so more of them want to run than there are workers. First only the critical
stream flows (idle). Then all of them, twice as fast each time until the workers fall behind: what
they answer then is the capacity. Then at 1.3 times that: under MBD and stride with one of the
workers kept for the critical class (express), under MBD with a further one for it and without any,
and, to compare, first come first served without.
Asked for: under MBD with as many threads the critical class stays within twice its idle response
time, and the lowest class still gets results all the time.

    python benchmarks/classes_on_spark.py [--json] [--load 1.3] [--seconds 30] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from daybreak.model import Arrivals
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.classes import ClassFigures
from daybreak.runtime.report import RunReport
from daybreak.spark.app import App
from daybreak.spark.session import local_session

#: Class: priority and number of streams.
CLASSES = {"critical": (60.0, 1), "watch": (30.0, 2), "archive": (10.0, 3)}
QUERIES_A_STREAM = 3
#: Policy, express workers, and how many threads more or less than usual share the rest.
SIDES = (("mbd", 1, -1), ("mbd", 1, 0), ("mbd", 0, 0), ("stride", 1, -1), ("fcfs", 0, 0))
CRITICAL_PER_S = 200.0
#: On each lower stream, where the search for the capacity begins.
FIRST_PER_S = 4_000.0
#: The workers have fallen behind if what came within so long still waits.
BEHIND_S = 2.0
#: Results before this are left out: code is loaded and compiled.
WARM_UP_S = 8.0
#: Hashes per row and query, so that it is the queries that are too much, not the rows' coming in.
HASHES = 20


@dataclass(frozen=True)
class Measured:
    """One run: response times of the classes after the warm-up, and what became of the input."""

    policy: str
    workers: int
    express: int
    load: float
    mean_s: dict[str, float]
    p95_s: dict[str, float]
    results: dict[str, int]
    #: Tuples of each class that still waited at the end.
    waiting: dict[str, int]
    #: Results of the lowest class in each sixth of the run after the warm-up.
    lowest_over_time: list[int]
    schedule_updates: int


def application(spark: SparkSession, rates_per_s: Mapping[str, float]) -> App:
    app = App(spark, name="classes")
    for name, (priority, streams) in CLASSES.items():
        app.query_class(name, priority)
        for s in range(streams):
            app.stream(
                f"{name}_{s}",
                format="generator",
                options={"seed": len(name) + s},
                arrivals=Arrivals(rate_per_s=rates_per_s[name]),
            )
            for q in range(QUERIES_A_STREAM):
                hashed = f"concat('{name}{q}', reading)"
                for _ in range(HASHES):
                    hashed = f"sha2({hashed}, 512)"
                app.query(
                    f"{name}-{s}-{q}",
                    sql=f"SELECT reading, station, wind FROM {name}_{s} "
                    f"WHERE {hashed} > '8' AND temperature > {35 + q}",
                    cls=name,
                    sink=_forget,
                )
    return app


def _forget(table: object, key: object) -> None:
    """A sink that takes rows and does nothing."""


def run(
    spark: SparkSession,
    rates_per_s: Mapping[str, float],
    policy: BasePolicy,
    workers: int,
    express: int,
    seconds: float,
) -> RunReport:
    with tempfile.TemporaryDirectory(prefix="daybreak-classes-") as folder:
        app = application(spark, rates_per_s)
        place = Path(folder) / "run"
        with app.run(policy, run_dir=place, workers=workers, express=express) as r:
            time.sleep(seconds)
        if r.failures:
            raise SystemExit(f"queries failed: {r.failures}")
        return r.report()


def capacity_per_s(report: RunReport, rate_per_s: float) -> float | None:
    """The rate at which each lower stream could just be served, beside the critical one.

    The tuples that workers who fell behind answered per second, over the queries that want each;
    None if they kept up with this rate.
    """
    streams = sum(n for name, (_, n) in CLASSES.items() if name != "critical")
    queries = streams * QUERIES_A_STREAM
    if report.backlog.pending[-1].sum() < rate_per_s * queries * BEHIND_S:
        return None
    late = report.outputs.departure_ns / 1e9 >= WARM_UP_S
    lower = report.class_of_output > 0
    answered = float(report.outputs.tuples[late & lower].sum())
    return answered / queries / (report.duration_s - WARM_UP_S)


def measured(report: RunReport, policy: str, load: float) -> Measured:
    figures = ClassFigures.of(report, since_s=WARM_UP_S)
    lowest = report.class_of_output == len(CLASSES) - 1
    edges = np.linspace(WARM_UP_S, report.duration_s, 7)
    counts, _ = np.histogram(
        report.outputs.departure_ns[lowest] / 1e9, edges, weights=report.outputs.tuples[lowest]
    )
    names = figures.classes
    return Measured(
        policy=policy,
        workers=report.manifest["workers"],
        express=report.manifest["express"],
        load=load,
        mean_s=dict(zip(names, map(float, figures.at("mean")), strict=True)),
        p95_s=dict(zip(names, map(float, figures.at("p95")), strict=True)),
        results=dict(zip(names, figures.counts, strict=True)),
        waiting=dict(zip(names, map(int, report.backlog.pending[-1]), strict=True)),
        lowest_over_time=[int(n) for n in counts],
        schedule_updates=len(report.manifest.get("schedule_updates_s", ())),
    )


def show(idle: Measured, runs: list[Measured]) -> None:
    heads = "  ".join(f"{c + ' mean/p95':>22}" for c in CLASSES)
    print(f"{'policy':10} {'workers':>7} {'express':>7} {'load':>5}  {heads}")
    for m in [idle, *runs]:
        cells = [f"{m.mean_s[c] * 1e3:9.1f} /{m.p95_s[c] * 1e3:9.1f} ms" for c in CLASSES]
        beside = "  ".join(f"{c:>22}" for c in cells)
        print(f"{m.policy:10} {m.workers:7} {m.express:7} {m.load:5.2f}  {beside}")
    for m in runs:
        ratio = m.mean_s["critical"] / idle.mean_s["critical"]
        print(
            f"{m.policy}, {m.workers} + {m.express}: critical {ratio:.2f}x idle at the mean, "
            f"{m.p95_s['critical'] / idle.p95_s['critical']:.2f}x at p95; "
            f"waiting at the end: {m.waiting}; lowest class, results over time: "
            f"{m.lowest_over_time}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--load", type=float, default=1.3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    parser.add_argument(
        "--train", type=int, default=0, help="tuples a job takes at most; 0: as it sees fit"
    )
    parser.add_argument("--workers", type=int, default=2, help="threads that submit jobs, from 2")
    given = parser.parse_args()
    if given.workers < 2:
        parser.error("one of the workers is for the critical class: give at least 2")
    spark = local_session("classes-on-spark")

    def ran(policy: str, lower_per_s: float, workers: int, express: int) -> RunReport:
        made = make_policy_with(policy, train=given.train)
        rates = dict.fromkeys(CLASSES, lower_per_s) | {"critical": CRITICAL_PER_S}
        return run(spark, rates, made, workers, express, given.seconds)

    def say(text: str) -> None:
        if not given.json:
            print(text, flush=True)

    say("idle: next to nothing comes on the lower streams")
    idle = measured(ran("mbd", 1.0, given.workers - 1, 1), "mbd, idle", 0.0)
    rate, capacity = FIRST_PER_S, None
    while capacity is None:
        say(f"capacity: {rate:,.0f} tuples/s on each lower stream")
        capacity = capacity_per_s(ran("mbd", rate, given.workers, 0), rate)
        rate *= 2
    rate = given.load * capacity
    say(f"capacity {capacity:,.0f}; load {given.load:g}: {rate:,.0f} tuples/s on each lower stream")
    runs = []
    for name, express, more in SIDES:
        report = ran(name, rate, given.workers + more, express)
        runs.append(measured(report, name, given.load))
    ours = runs[0]
    held = ours.mean_s["critical"] <= 2 * idle.mean_s["critical"] and min(ours.lowest_over_time) > 0
    if given.json:
        said = {
            "idle": asdict(idle),
            "runs": [asdict(m) for m in runs],
            "capacity_per_s": capacity,
            "lower_per_s": rate,
            "critical_within_2x_and_lowest_progresses": held,
        }
        print(json.dumps(said, indent=2))
    else:
        show(idle, runs)
    spark.stop()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
