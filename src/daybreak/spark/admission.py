"""What a query would cost here, and what all cost now, for admission control.

Jobs have a large fixed cost, so workers that are busy all the time are not overloaded: fewer and
larger jobs do the same work. Load is therefore counted at a stated pace: every group of queries
that runs together, and every query that runs alone, once per ``PACE_S``, each time over all that
arrived since. Costs are those the engine has measured; a query that cannot run with others is
tried on the newest segment first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow as pa

from daybreak.engine.admission import Verdict, judge
from daybreak.engine.express import highest_priority
from daybreak.model.errors import ConfigError
from daybreak.policies.parts.arrival_rates import ArrivalRates
from daybreak.spark.standing import said

if TYPE_CHECKING:
    from daybreak.engine.costs import CostModel
    from daybreak.spark.jobs import Runnable
    from daybreak.spark.run import Run

PACE_S = 1.0
#: Rows of a trial, at most.
TRIAL_ROWS = 10_000
TRIAL_S = 30.0


def admit(run: Run, runnable: Runnable, cls: str) -> Verdict:
    """Judges a query that is not registered yet."""
    network, state = run.prepared.network, run.state
    priorities = {c.name: state.class_priority[i] for i, c in enumerate(network.classes)}
    served = [*state.query_class, network.class_index[cls]]
    highest = highest_priority(state.class_priority, served)
    demand, added = class_demand(run), added_demand(run, runnable, cls)
    return judge(
        priorities, demand, cls, added, run.limits.admit_load,
        workers=state.workers, express=state.express,
        urgent={name for name, priority in priorities.items() if priority == highest},
    )  # fmt: skip


def class_demand(run: Run) -> dict[str, float]:
    """How many threads each class would keep busy at the stated pace."""
    network, compositor = run.prepared.network, run.executor.compositor
    demand = {c.name: 0.0 for c in network.classes}
    groups: dict[tuple[str, str, str], list[int]] = {}
    for q, query in enumerate(run.executor.queries):
        if run.executor.standings[q].held:
            continue
        cls = network.classes[run.state.query_class[q]].name
        if (parts := query.checked.parts) is not None:
            groups.setdefault((cls, parts.kin, parts.stream), []).append(q)
        elif tuples := sum(_rows_per_pace(run, s) for s in query.checked.reads):
            demand[cls] += _threads(compositor.costs_of(q).solo_ns(tuples))
    for (cls, _, stream), members in groups.items():
        if tuples := _rows_per_pace(run, stream):
            costs = compositor.costs_of(members[0])
            demand[cls] += _threads(costs.expected_ns(tuples, len(members) - 1))
    return demand


def added_demand(run: Run, runnable: Runnable, cls: str) -> float:
    """What one more query asks for: a margin if it can ride along, else jobs of its own."""
    parts = runnable.checked.parts
    costs = _costs(run, runnable)
    tuples = sum(_rows_per_pace(run, s) for s in runnable.checked.reads)
    if not tuples:
        return 0.0
    index = run.prepared.network.class_index[cls]
    company = parts is not None and any(
        q.checked.parts is not None
        and q.checked.parts.kin == parts.kin
        and run.state.query_class[b] == index
        and not run.executor.standings[b].held
        for b, q in enumerate(run.executor.queries)
    )
    if company:
        return _threads(costs.margin_ns(tuples))
    if parts is not None and parts.source.parsed is None:  # a filter: its cost is known well enough
        return _threads(costs.solo_ns(tuples))
    return _threads(max(_trial_ns(run, runnable, tuples), costs.solo_ns(0)))


def _costs(run: Run, runnable: Runnable) -> CostModel:
    """What jobs like those of a query that is not there yet have cost."""
    return run.executor.compositor.costs(runnable.checked.kin, runnable.checked.job_kind)


def _threads(job_ns: float) -> float:
    """How many threads a job of this length keeps busy if it runs once per pace."""
    return job_ns / (PACE_S * 1e9)


def _rows_per_pace(run: Run, stream: str) -> int:
    return round(run.rates.per_s(stream) * PACE_S)


def _trial_ns(run: Run, runnable: Runnable, tuples: int) -> float:
    """The time of a job over so many tuples: the query is run twice on what arrived last."""
    tables: dict[str, pa.Table] = {}
    for stream in runnable.checked.reads:
        kept = run.store.segments(stream)
        if not kept or kept[-1].seq < run.store.begin(stream).seq:
            return 0.0
        newest = run.store.table(kept[-1])
        tables[stream] = newest.slice(max(0, newest.num_rows - TRIAL_ROWS))
    took_ns = _timed_ns(run, runnable, tables)
    fixed_ns = min(_costs(run, runnable).solo_ns(0), took_ns)
    rows: int = max(1, sum(t.num_rows for t in tables.values()))
    return fixed_ns + (took_ns - fixed_ns) / rows * tuples


def _timed_ns(run: Run, runnable: Runnable, tables: Mapping[str, pa.Table]) -> int:
    context = run.prepared.spark.sparkContext
    tag = f"daybreak-trial-{token_hex(4)}"
    patience_s = min(run.limits.job_timeout_s, TRIAL_S)
    timer = threading.Timer(patience_s, context.cancelJobsWithTag, [tag])
    context.addJobTag(tag)
    timer.start()
    runner = run.trial_runner()
    try:
        runner.trial(runnable, tables)  # the first time Spark compiles
        began = time.perf_counter_ns()
        runner.trial(runnable, tables)
        return time.perf_counter_ns() - began
    except Exception as error:
        raise ConfigError(
            f"query {runnable.name!r}",
            f"fails on the newest rows, or takes longer than {patience_s:g} s ({said(error)})",
            "correct it",
        ) from error
    finally:
        runner.close()
        timer.cancel()
        context.removeJobTag(tag)


class StreamRates:
    """How many rows of each stream arrive per second, over the last while."""

    def __init__(self) -> None:
        self._rates = ArrivalRates(time.monotonic_ns())
        self._index: dict[str, int] = {}

    def note(self, arrived_rows: Mapping[str, int]) -> None:
        """Called now and then with how many rows have arrived so far."""
        for stream in list(arrived_rows):
            self._index.setdefault(stream, len(self._index))
        self._rates.note(time.monotonic_ns(), [arrived_rows[s] for s in self._index])

    def per_s(self, stream: str) -> float:
        index = self._index.get(stream)
        return 0.0 if index is None else self._rates.long_per_s(index)
