"""Capacity: the rate that this machine can work off if only throughput matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.loads.workload import application
from pyspark.sql import SparkSession

from daybreak.policies.base import BasePolicy, Decision, Plan, Step, Wait

#: A cell is started when its oldest tuple has waited for so long.
GATHER_NS = 5_000_000_000
#: Tuples of a job at most: far longer than its start, and short enough for a prepared plan.
TRAIN = 200_000
#: Some job of the last quarter of a run begins at most this much later than it could have ...
STEADY = 0.01
#: ... and none begins when its oldest tuple has waited for so many times as long.
STUCK = 3.0


#: Where the search begins.
GUESS_PER_S = 80_000.0


class Gathering(BasePolicy):
    """Cells in turn, each in long jobs over what has gathered for five seconds."""

    name = "gathering"
    sizes_trains = True

    def __init__(self) -> None:
        super().__init__()
        #: Of every job: when it began, and how long its oldest tuple had waited by then.
        self.started: list[tuple[int, int]] = []

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
        self.started.append((now_ns, now_ns - head_ns))
        return Plan((Step(query, TRAIN),))


def steady(started: Sequence[tuple[int, int]], began_ns: int, end_ns: int) -> bool:
    """Whether the workers keep up with what arrives.

    A worker that keeps up has time to wait, so some jobs begin as soon as their tuples have
    gathered. If all begin late, there is a backlog: it grows unless they begin less late than a
    quarter of the run before (the first jobs are compiled, and what gathers meanwhile has to be
    worked off). The slope of the backlog itself says the same only over many cycles: what gathers
    and is then worked off makes it a sawtooth.
    """
    quarter_ns = (end_ns - began_ns) // 4
    last = [age for at, age in started if at >= end_ns - quarter_ns]
    before = [age for at, age in started if 0 < end_ns - quarter_ns - at <= quarter_ns]
    if not last:
        return False
    soon = min(last) <= (1 + STEADY) * GATHER_NS and max(last) <= STUCK * GATHER_NS
    return soon or (bool(before) and min(last) < min(before) and max(last) < max(before))


def keeps_up(
    spark: SparkSession, workload: str, rate_per_s: float, run_dir: Path, seconds: float
) -> bool:
    app, policy = application(spark, workload, rate_per_s), Gathering()
    with app.run(policy, run_dir=run_dir, on_failure="report") as run:
        began_ns = time.time_ns()
        run.wait(seconds)
        end_ns = time.time_ns()
    return steady(policy.started, began_ns, end_ns)


def capacity_per_s(
    keeps: Callable[[float], bool], *, guess: float = GUESS_PER_S, within: float = 0.1
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
