"""Staleness on Spark: fas-mcq beside round-robin, on the same arrivals in the same session.

    python benchmarks/freshness_on_spark.py [--seconds 25] [--repetitions 3] [--json]

Streams fill in bursts, half of them large ones; each has three queries: one that most bursts make
stale, one that few do, and one whose tuples take long. How often bursts come is set by what jobs
cost here, measured first, so that the one worker is busy for 0.8 of the time if every query runs
by itself; a run is long enough that compiling the queries at its start weighs little. The
policies take turns; each pair of runs sees the same arrivals, once with every query as a job of
its own and once with filters run together. Staleness is the run report's: the share of time in
which a tuple that gave a row was pending. Exits with 0 if the mean under fas-mcq is below that
under round-robin both ways.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from daybreak.model import Arrivals
from daybreak.model.arrivals import Phase
from daybreak.runtime.report import RunReport
from daybreak.spark.app import App
from daybreak.spark.session import local_session

POLICIES = ("fas-mcq", "round-robin")
STREAMS = 8
LARGE, SMALL = 30, 2
UTILISATION = 0.8
#: How much queries may delay each other to run together: not at all, and Daybreak's default.
BOUNDS_S = {"each by itself": 0.0, "run together": 0.1}
#: A burst takes this long to come: short beside the time between two.
BURST_S = 0.02
QUERIES = {
    "likely": "SELECT reading, temperature FROM {s} WHERE temperature >= 10",
    "rare": "SELECT reading, temperature FROM {s} WHERE temperature > 45 AND humidity < 15",
    "heavy": "SELECT reading, aggregate(transform(sequence(1, 8000), x -> sqrt(x * wind + 1)), "
    "0D, (a, b) -> a + b) AS total FROM {s} WHERE temperature >= 10",
}


def application(session: SparkSession, period_s: float, seed: int) -> App:
    """Bursts of stream i come every period, a little more often or less than the others'."""
    app = App(session, name="freshness")
    for i in range(STREAMS):
        rows = LARGE if i % 2 else SMALL
        mine_s = period_s * (0.8 + 0.4 * i / (STREAMS - 1))
        quiet = Phase(factor=1e-9, duration_s=mine_s - BURST_S)
        app.stream(
            f"s{i}",
            format="generator",
            options={"seed": 100 * seed + i},
            arrivals=Arrivals(
                rate_per_s=rows / BURST_S, phases=(Phase(factor=1, duration_s=BURST_S), quiet)
            ),
        )
        for name, sql in QUERIES.items():
            app.query(f"{name}{i}", sql=sql.format(s=f"s{i}"))
    return app


def run_once(app: App, policy: str, folder: Path, seconds: float, bound_s: float) -> RunReport:
    with app.run(policy, run_dir=folder, workers=1, rider_bound_s=bound_s) as run:
        run.wait(seconds)
    if run.failures:
        raise SystemExit(f"queries failed: {run.failures}")
    return run.report()


def job_costs_s(session: SparkSession, folder: Path) -> dict[str, float]:
    """What a job of each kind of query costs, once Spark has run it a few times."""
    with application(session, 1.0, seed=1).run(
        "round-robin", run_dir=folder, workers=1, rider_bound_s=0.0
    ) as run:
        while min(run.parts.keeping.figures.view.calls) < 4:
            run.wait(0.2)
    jobs = pq.read_table(folder / "record/jobs.parquet").to_pydict()
    found: dict[str, list[float]] = {kind: [] for kind in QUERIES}
    for query, cost_ns in zip(jobs["query"], jobs["cost_ns"], strict=True):
        found[query.rstrip("0123456789")].append(cost_ns / 1e9)
    return {kind: mean(costs[len(costs) // 2 :]) for kind, costs in found.items()}


def staleness(report: RunReport) -> dict[str, float]:
    """By kind of query, and of all."""
    shares = dict(zip(report.queries, report.staleness.tolist(), strict=True))
    kinds = {kind: mean(v for q, v in shares.items() if q.startswith(kind)) for kind in QUERIES}
    return {**kinds, "all": report.overall_staleness}


def measure(session: SparkSession, seconds: float, repetitions: int, folder: Path) -> Any:
    costs = job_costs_s(session, folder / "warm")
    period_s = STREAMS * sum(costs.values()) / UTILISATION
    total = 2 * len(BOUNDS_S) * repetitions
    print(f"{total} runs of {seconds:.0f} s", file=sys.stderr, flush=True)
    runs: list[dict[str, Any]] = []
    for way, bound_s in BOUNDS_S.items():
        for repetition in range(repetitions):
            # Who goes first changes from one repetition to the next.
            for policy in POLICIES if repetition % 2 == 0 else POLICIES[::-1]:
                app = application(session, period_s, seed=repetition + 1)
                where = folder / f"{way}-{policy}-{repetition}"
                report = run_once(app, policy, where, seconds, bound_s)
                runs.append(
                    {"way": way, "policy": policy, "repetition": repetition}
                    | {"staleness": staleness(report), "decisions": report.manifest["decisions"]}
                )
                done = f"{len(runs)} of {total}: {way}, {policy}"
                print(f"{done}: {report.overall_staleness:.1%}", file=sys.stderr, flush=True)
    return {
        "seconds": seconds,
        "period_s": period_s,
        "job_costs_s": costs,
        "ways": {way: summary([r for r in runs if r["way"] == way]) for way in BOUNDS_S},
        "runs": runs,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means by policy, and how often fas-mcq was below in a pair of runs."""
    ordered = sorted(runs, key=lambda r: (r["repetition"], r["policy"]))
    below = sum(
        a["staleness"]["all"] < b["staleness"]["all"] for a, b in list(pairwise(ordered))[::2]
    )
    means = {
        policy: {
            kind: mean(r["staleness"][kind] for r in runs if r["policy"] == policy)
            for kind in (*QUERIES, "all")
        }
        for policy in POLICIES
    }
    fas, rr = (means[policy]["all"] for policy in POLICIES)
    return {"staleness": means, "ratio": fas / rr, "below_in": below, "of": len(runs) // 2}


def show(result: Mapping[str, Any]) -> None:
    costs = ", ".join(f"{kind} {1e3 * c:.0f} ms" for kind, c in result["job_costs_s"].items())
    print(
        f"a job takes: {costs}; a burst per stream about every {result['period_s']:.2f} s; "
        f"runs of {result['seconds']:.0f} s"
    )
    for way, found in result["ways"].items():
        print(f"{way}:")
        for policy, stale in found["staleness"].items():
            shares = "  ".join(f"{kind} {share:6.1%}" for kind, share in stale.items())
            print(f"  {policy:12} stale: {shares}")
        print(
            f"  fas-mcq / round-robin {found['ratio']:.2f}, "
            f"below in {found['below_in']} of {found['of']} pairs"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=25.0, help="length of each run")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    began = time.monotonic()
    session = local_session("freshness benchmark", cores=2)
    try:
        with TemporaryDirectory() as folder:
            result = measure(session, arguments.seconds, arguments.repetitions, Path(folder))
    finally:
        session.stop()
    result["took_s"] = time.monotonic() - began
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0 if all(found["ratio"] < 1 for found in result["ways"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
