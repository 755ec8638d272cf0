"""The exact refresh planner beside general solvers and the thesis's heuristic.

One command, one run, processor time of one thread:

    python benchmarks/freshening.py --json            # about two minutes
    python benchmarks/freshening.py --spark 100000000 # also the Spark planner on so many objects

References: cvxpy with Clarabel (the problem as exponential cones; modelling included, as a user
would wait for it, and the solver's own time), scipy's trust-constr with exact derivatives, and
PF-partitioning into 100 partitions with 10 k-means iterations.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from daybreak.freshness import Mirror, bandwidth_of, perceived_freshness, plan
from daybreak.freshness.heuristics import heuristic, ratio_bins
from daybreak_experiments.freshening.mirrors import thesis_mirror

#: The largest sizes that were asked for, with their limits (seconds, and bytes at 10 million).
LIMIT_S = {500: 1e-3, 500_000: 0.3, 10_000_000: 10.0}
LIMIT_BYTES = 2 * 1024**3
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def processor_s(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least processor time of several runs, and what the last one returned."""
    best, result = float("inf"), None
    for _ in range(repeats):
        begin = time.process_time()
        result = work()
        best = min(best, time.process_time() - begin)
    return best, result


def by_cvxpy(mirror: Mirror, bandwidth: float) -> tuple[Any, float]:
    """max sum p/lambda (f - z), z >= f exp(-lambda/f): one exponential cone per object."""
    import cvxpy

    cp: Any = cvxpy  # typed in part only

    n, rate = len(mirror), mirror.change_rate
    f, z = cp.Variable(n), cp.Variable(n)
    problem = cp.Problem(
        # Weights of the order 1 instead of 1/N: without it Clarabel gives up more often.
        cp.Maximize((n * mirror.access / rate) @ (f - z)),
        [mirror.size @ f <= bandwidth, cp.constraints.ExpCone(-cp.Constant(rate), f, z)],
    )
    problem.solve(solver=cp.CLARABEL)
    solved = np.maximum(np.asarray(f.value), 0)
    return solved * (bandwidth / bandwidth_of(mirror, solved)), problem.solver_stats.solve_time


def by_scipy(mirror: Mirror, bandwidth: float) -> Any:
    """scipy's trust-constr with exact gradient and (diagonal) Hessian."""
    from scipy.optimize import Bounds, LinearConstraint, minimize
    from scipy.sparse import diags_array

    # Its stubs know no sparse Hessian.
    solver: Any = minimize

    p, rate = mirror.access, mirror.change_rate

    def x(f: Any) -> Any:
        return rate / np.maximum(f, 1e-9)

    found = solver(
        lambda f: -float(p @ (-np.expm1(-x(f)) / x(f))),
        np.full(len(mirror), bandwidth / mirror.size.sum()),
        jac=lambda f: -p / rate * -np.expm1(np.log1p(x(f)) - x(f)),
        hess=lambda f: diags_array(p / rate * x(f) ** 2 * np.exp(-x(f)) / np.maximum(f, 1e-9)),
        method="trust-constr",
        bounds=Bounds(0, np.inf),
        constraints=LinearConstraint(mirror.size[None, :], -np.inf, bandwidth),
        options={"maxiter": 300},
    )
    solved = np.maximum(found.x, 0)
    return solved * (bandwidth / bandwidth_of(mirror, solved))


def small() -> dict[str, Any]:
    """500 objects: Table 2.2's setup, ten instances."""
    from cvxpy.error import SolverError

    times: dict[str, list[float]] = {"exact": [], "cvxpy": [], "clarabel": [], "scipy": []}
    lost, failed = {"cvxpy": 0.0, "scipy": 0.0}, 0
    for seed in range(1, 11):
        mirror = thesis_mirror(seed)
        plan(mirror, 250)
        seconds, made = processor_s(partial(plan, mirror, 250), repeats=5)
        times["exact"].append(seconds)
        best = made.perceived_freshness
        try:
            seconds, (found, own) = processor_s(partial(by_cvxpy, mirror, 250), repeats=5)
        except SolverError:
            failed += 1
        else:
            times["cvxpy"].append(seconds)
            times["clarabel"].append(own)
            lost["cvxpy"] = max(lost["cvxpy"], best - perceived_freshness(mirror, found))
        if seed <= 3:
            seconds, found = processor_s(partial(by_scipy, mirror, 250))
            times["scipy"].append(seconds)
            lost["scipy"] = max(lost["scipy"], best - perceived_freshness(mirror, found))
    middle = {name: median(values) for name, values in times.items()}
    return {
        "objects": 500,
        "exact_s": middle["exact"],
        "cvxpy_s": middle["cvxpy"],
        "clarabel_solve_wall_s": middle["clarabel"],
        "scipy_trust_constr_s": middle["scipy"],
        "times_faster_than_cvxpy": middle["cvxpy"] / middle["exact"],
        "times_faster_than_scipy": middle["scipy"] / middle["exact"],
        "pf_lost_by_cvxpy": lost["cvxpy"],
        "instances_clarabel_gave_up_on": failed,
        "pf_lost_by_scipy": lost["scipy"],
        "meets": {
            "1 ms": middle["exact"] <= LIMIT_S[500],
            "50x cvxpy": middle["cvxpy"] >= 50 * middle["exact"],
            "500x scipy": middle["scipy"] >= 500 * middle["exact"],
        },
    }


def large() -> dict[str, Any]:
    """500 000 objects: Table 2.3's setup."""
    mirror = thesis_mirror(1, objects=500_000, rate_deviation=2.0)
    exact_s, made = processor_s(lambda: plan(mirror, 250_000), repeats=3)
    kmeans_s, found = processor_s(lambda: heuristic(mirror, 250_000, "pf", 100, 10), repeats=3)
    plain_s, plain = processor_s(lambda: heuristic(mirror, 250_000, "pf", 100))
    bins_s, binned = processor_s(lambda: ratio_bins(mirror, 250_000))
    pf = perceived_freshness(mirror, found)
    return {
        "objects": 500_000,
        "exact_s": exact_s,
        "exact_pf": made.perceived_freshness,
        "gap": made.gap,
        "pf_partitioning_kmeans_s": kmeans_s,
        "pf_partitioning_kmeans_pf": pf,
        "pf_partitioning_s": plain_s,
        "pf_partitioning_pf": perceived_freshness(mirror, plain),
        "log_r_bins_s": bins_s,
        "log_r_bins_pf": perceived_freshness(mirror, binned),
        "times_faster_than_kmeans": kmeans_s / exact_s,
        "meets": {
            "0.3 s": exact_s <= LIMIT_S[500_000],
            "5x k-means": kmeans_s >= 5 * exact_s,
            "better PF": made.perceived_freshness > pf,
        },
    }


def huge() -> dict[str, Any]:
    """Ten million objects, in this process: run as a child so that its memory is its own."""
    rng = np.random.default_rng(1)
    n = 10_000_000
    mirror = Mirror.of(rng.gamma(1, 2, n), 1 / np.arange(1, n + 1), rng.pareto(2, n) + 0.5)
    exact_s, made = processor_s(lambda: plan(mirror, n / 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "objects": n,
        "exact_s": exact_s,
        "exact_pf": made.perceived_freshness,
        "gap": made.gap,
        "peak_bytes": peak,
        "meets": {"10 s": exact_s <= LIMIT_S[n], "2 GB": peak < LIMIT_BYTES},
    }


def through_spark(objects: int) -> dict[str, Any]:
    """The planner on DataFrames, local[2]; peak memory of the JVM by the kernel's count."""
    from daybreak.spark.adapters.freshness import plan_frame, synthetic_objects
    from daybreak.spark.session import local_session

    spark = local_session("benchmark", cores=2, extra_conf={"spark.driver.memory": "4g"})
    begin = time.perf_counter()
    made = plan_frame(synthetic_objects(spark, objects), objects / 2)
    seconds = time.perf_counter() - begin
    gateway = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    status = Path(f"/proc/{gateway}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {
        "objects": objects,
        "wall_s": seconds,
        "passes": made.passes,
        "exact_pf": made.perceived_freshness,
        "gap": made.gap,
        "jvm_peak_bytes": peak * 1024,
        "driver_memory": "4g",
    }


def in_child(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--spark", type=int, default=0, metavar="N", help="also N through Spark")
    parser.add_argument("--part", choices=["huge", "spark"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        # Numerical libraries read this when they are loaded: start again with it.
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        os.execve(sys.executable, [sys.executable, __file__, *sys.argv[1:]], environment)
    if given.part:
        print(json.dumps(huge() if given.part == "huge" else through_spark(given.spark)))
        return
    results = {"small": small(), "large": large(), "huge": in_child("--part", "huge")}
    if given.spark:
        results["spark"] = in_child("--part", "spark", "--spark", str(given.spark))
    if given.json:
        print(json.dumps(results, indent=2))
        return
    for name, result in results.items():
        print(f"\n{name}")
        for key, value in result.items():
            print(f"  {key:34} {value:.6g}" if isinstance(value, float) else f"  {key:34} {value}")


if __name__ == "__main__":
    main()
