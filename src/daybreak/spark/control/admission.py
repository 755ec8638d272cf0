"""Admission control on Spark: a query that nothing like has run is tried on the newest rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow as pa

from daybreak.engine.admission import Demand, Verdict
from daybreak.model.errors import ConfigError
from daybreak.model.specs import QuerySpec
from daybreak.policies.parts.arrival_rates import ArrivalRates
from daybreak.spark.failures import one_line
from daybreak.spark.jobs.facts import facts_of

if TYPE_CHECKING:
    from daybreak.spark.jobs.runner import Runnable
    from daybreak.spark.run import Run

#: Rows of a trial, at most.
TRIAL_ROWS = 10_000
TRIAL_S = 30.0


def admit(run: Run, runnable: Runnable, spec: QuerySpec) -> Verdict:
    """Judges a query that is not registered yet."""
    engine = run.driver.engine
    demand = Demand(engine.state, engine.queries, engine.compositor, run.rates.per_s)
    cls = run.prepared.network.class_index[spec.cls]
    return demand.admit(
        facts_of(runnable, spec),
        cls,
        run.limits.admit_load,
        lambda tuples: _trial_ns(run, runnable, tuples),
    )


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
    checked = runnable.checked
    costs = run.driver.engine.compositor.costs(checked.kin, checked.job_kind)
    fixed_ns = min(costs.solo_ns(0), took_ns)
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
