"""Classes on Spark under overload: does the critical class keep its response time?

Three classes with one, two and three streams, each with three filter queries; queries over one
stream run as one job, so more of them want to run than there are workers. First only the critical
stream flows (idle). Then all of them, faster than can be served: what is answered then is the
capacity. Then at 1.3 times what the workers can do, under MBD and, to compare, first come first
served.
Asked for: under MBD the critical class stays within twice its idle response time, and the lowest
class still gets results all the time.

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
POLICIES = ("mbd", "stride", "fcfs")
CRITICAL_PER_S = 200.0
#: More than two cores can do.
SATURATED_PER_S = 100_000.0
#: Results before this are left out: code is loaded and compiled.
WARM_UP_S = 8.0
#: Hashes per row and query, so that queries cost more than reading rows.
HASHES = 6


@dataclass(frozen=True)
class Measured:
    """One run: response times of the classes after the warm-up, and what became of the input."""

    policy: str
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
                    f"WHERE temperature > {35 + q} AND {hashed} > '8'",
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
    seconds: float,
) -> RunReport:
    with tempfile.TemporaryDirectory(prefix="daybreak-classes-") as folder:
        app = application(spark, rates_per_s)
        with app.run(policy, run_dir=Path(folder) / "run", workers=workers) as r:
            time.sleep(seconds)
        if r.failures:
            raise SystemExit(f"queries failed: {r.failures}")
        return r.report()


def capacity_per_s(report: RunReport) -> float:
    """The rate at which each lower stream could just be served, beside the critical one.

    The tuples that saturated workers answered per second, over the queries that want each.
    """
    if report.backlog.pending[-1].sum() < SATURATED_PER_S:
        raise SystemExit(f"{SATURATED_PER_S:,.0f} tuples/s do not saturate this machine")
    late = report.outputs.departure_ns / 1e9 >= WARM_UP_S
    lower = report.class_of_output > 0
    answered = float(report.outputs.tuples[late & lower].sum())
    streams = sum(n for name, (_, n) in CLASSES.items() if name != "critical")
    queries = streams * QUERIES_A_STREAM
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
        load=load,
        mean_s=dict(zip(names, map(float, figures.at("mean")), strict=True)),
        p95_s=dict(zip(names, map(float, figures.at("p95")), strict=True)),
        results=dict(zip(names, figures.counts, strict=True)),
        waiting=dict(zip(names, map(int, report.backlog.pending[-1]), strict=True)),
        lowest_over_time=[int(n) for n in counts],
        schedule_updates=len(report.manifest.get("schedule_updates_s", ())),
    )


def show(idle: Measured, runs: list[Measured]) -> None:
    print(f"{'policy':10} {'load':>5}  " + "  ".join(f"{c + ' mean/p95':>22}" for c in CLASSES))
    for m in [idle, *runs]:
        cells = [f"{m.mean_s[c] * 1e3:9.0f} /{m.p95_s[c] * 1e3:9.0f} ms" for c in CLASSES]
        print(f"{m.policy:10} {m.load:5.2f}  " + "  ".join(f"{c:>22}" for c in cells))
    for m in runs:
        ratio = m.mean_s["critical"] / idle.mean_s["critical"]
        print(
            f"{m.policy}: critical {ratio:.2f}x idle at the mean, "
            f"{m.p95_s['critical'] / idle.p95_s['critical']:.2f}x at p95; "
            f"waiting at the end: {m.waiting}; lowest class, results over time: "
            f"{m.lowest_over_time}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--load", type=float, default=1.3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    parser.add_argument("--train", type=int, default=1000, help="tuples a job takes at most")
    parser.add_argument("--workers", type=int, default=2, help="threads that submit jobs")
    given = parser.parse_args()
    spark = local_session("classes-on-spark")
    silent = {"critical": CRITICAL_PER_S, "watch": 1.0, "archive": 1.0}
    full = {"critical": CRITICAL_PER_S, "watch": SATURATED_PER_S, "archive": SATURATED_PER_S}

    def made(name: str) -> BasePolicy:
        return make_policy_with(name, train=given.train)

    def say(text: str) -> None:
        if not given.json:
            print(text, flush=True)

    say("idle: only the critical stream flows")
    idle = measured(run(spark, silent, made("mbd"), given.workers, given.seconds), "mbd, idle", 0.0)
    say("saturated: what the workers can do")
    capacity = capacity_per_s(run(spark, full, made("mbd"), given.workers, given.seconds))
    rate = given.load * capacity
    rates = {"critical": CRITICAL_PER_S, "watch": rate, "archive": rate}
    say(f"load {given.load:g}: {rate:.0f} tuples/s on each lower stream")
    runs = []
    for name in POLICIES:
        report = run(spark, rates, made(name), given.workers, given.seconds)
        runs.append(measured(report, name, given.load))
    ours = runs[0]
    held = ours.mean_s["critical"] <= 2 * idle.mean_s["critical"] and min(ours.lowest_over_time) > 0
    if given.json:
        said = {
            "idle": asdict(idle),
            "runs": [asdict(m) for m in runs],
            "capacity_per_s": capacity,
            "rates_per_s": rates,
            "critical_within_2x_and_lowest_progresses": held,
        }
        print(json.dumps(said, indent=2))
    else:
        show(idle, runs)
    spark.stop()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
