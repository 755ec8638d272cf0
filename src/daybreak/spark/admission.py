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
from daybreak.spark.failures import one_line

if TYPE_CHECKING:
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
    network, compositor = run.prepared.network, run.driver.engine.compositor
    demand = {c.name: 0.0 for c in network.classes}
    groups: dict[tuple[str, str, str], int] = {}
    for q, query in enumerate(run.driver.queries):
        if run.driver.engine.queries.status[q].held:
            continue
        cls = network.classes[run.state.query_class[q]].name
        if (parts := query.checked.parts) is not None:
            key = (cls, parts.kin, parts.stream)
            groups[key] = groups.get(key, 0) + 1
        else:
            tuples = sum(_rows_per_pace(run, s) for s in query.checked.reads)
            measured_ns = run.state.cost_ns[q] * tuples if run.state.calls[q] else 0.0
            least_ns = compositor.costs_of(q).solo_ns(0)
            demand[cls] += _threads(max(measured_ns, least_ns) if tuples else 0.0)
    for (cls, kin, stream), members in groups.items():
        tuples, costs = _rows_per_pace(run, stream), compositor.costs(kin)
        if tuples:
            job_ns = costs.solo_ns(tuples) + (members - 1) * costs.margin_ns(tuples)
            demand[cls] += _threads(job_ns)
    return demand


def added_demand(run: Run, runnable: Runnable, cls: str) -> float:
    """What one more query asks for: a margin if it can ride along, else jobs of its own."""
    parts = runnable.checked.parts
    costs = run.driver.engine.compositor.costs(runnable.checked.kin)
    tuples = sum(_rows_per_pace(run, s) for s in runnable.checked.reads)
    if not tuples:
        return 0.0
    index = run.prepared.network.class_index[cls]
    company = parts is not None and any(
        q.checked.parts is not None
        and q.checked.parts.kin == parts.kin
        and run.state.query_class[b] == index
        and not run.driver.engine.queries.status[b].held
        for b, q in enumerate(run.driver.queries)
    )
    if company:
        return _threads(costs.margin_ns(tuples))
    if parts is not None and parts.source.parsed is None:  # a filter: its cost is known well enough
        return _threads(costs.solo_ns(tuples))
    return _threads(max(_trial_ns(run, runnable, tuples), costs.solo_ns(0)))


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
    fixed_ns = min(run.driver.engine.compositor.costs(runnable.checked.kin).solo_ns(0), took_ns)
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
            f"fails on the newest rows, or takes longer than {patience_s:g} s ({one_line(error)})",
            "correct it",
        ) from error
    finally:
        runner.close()
        timer.cancel()
        context.removeJobTag(tag)


class Rates:
    """How many rows of each stream arrive per second, over the last while."""

    def __init__(self, over_s: float = 10.0) -> None:
        self._over_s = over_s
        self._seen: list[tuple[float, dict[str, int]]] = [(time.monotonic(), {})]

    def note(self, arrived_rows: dict[str, int]) -> None:
        """Called now and then with how many rows have arrived so far."""
        now = time.monotonic()
        self._seen.append((now, dict(arrived_rows)))
        while len(self._seen) > 2 and self._seen[1][0] < now - self._over_s:
            self._seen.pop(0)

    def per_s(self, stream: str) -> float:
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        span_s = ended - began
        return (last.get(stream, 0) - first.get(stream, 0)) / span_s if span_s > 0 else 0.0
