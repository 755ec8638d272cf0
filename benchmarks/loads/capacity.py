"""Capacity: the rate that this machine can work off if only throughput matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.loads.workload import application
from pyspark.sql import SparkSession

from daybreak.policies.base import BasePolicy, Decision, Plan, Step, Wait
from daybreak.runtime.report import RunReport
from daybreak.simulation.recorded import Record

#: A cell is started when its oldest tuple has waited for so long.
GATHER_NS = 5_000_000_000
#: The backlog may grow by this share of the rate.
STEADY = 0.01


class Gathering(BasePolicy):
    """Cells in turn, each in one job over all that has gathered for five seconds."""

    name = "gathering"
    sizes_trains = True

    def decide(self, now_ns: int, worker: int) -> Decision:
        view = self.view
        heads = [
            (min(view.head_ns[q] for q in waiting), waiting[0])
            for cell in view.cells
            if not any(view.running[q] for q in cell.queries)
            and (waiting := [q for q in cell.queries if view.pending[q]])
        ]
        if not heads:
            return None
        head_ns, query = min(heads)
        if now_ns < head_ns + GATHER_NS:
            return Wait(head_ns + GATHER_NS)
        return Plan((Step(query),))


def growth(report: RunReport) -> float:
    """By which share of what arrives the backlog grew in the second half of a run.

    The slope of a line through the samples: what gathers makes them a sawtooth.
    """
    at_s = report.backlog.at_ns / 1e9
    late = at_s >= at_s[-1] / 2
    waiting = report.backlog.pending[late].sum(axis=1)
    slope = float(np.polyfit(at_s[late], waiting, 1)[0])
    arrived = float(report.outputs.tuples.sum() + waiting[-1]) / at_s[-1]
    return slope / arrived if arrived else 0.0


def keeps_up(
    spark: SparkSession, workload: str, rate_per_s: float, run_dir: Path, seconds: float
) -> bool:
    app = application(spark, workload, rate_per_s)
    with app.run(Gathering(), run_dir=run_dir, on_failure="report") as run:
        run.wait(seconds)
    return growth(Record.load(run_dir).report) <= STEADY


def capacity_per_s(
    keeps: Callable[[float], bool], *, guess: float = 80_000.0, within: float = 0.1
) -> float:
    """The highest rate that is kept up with, to ``within`` of it."""
    low, high = 0.0, guess
    while keeps(high):
        low, high = high, 2 * high
    while high - low > within * high:
        middle = (low + high) / 2 if low else high / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
        if high < 100:
            raise RuntimeError("the machine does not keep up with 100 rows per second")
    return low
