"""Admission control on Spark: a query that nothing like has run is tried on the newest rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex

import pyarrow as pa
from pyspark.sql import SparkSession

from daybreak.engine.admission import Demand, Verdict
from daybreak.engine.queries import QueryFacts
from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.specs import QuerySpec
from daybreak.spark.failures import one_line
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.loop.driver import Driver
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.task import Runnable

#: Rows of a trial, at most.
TRIAL_ROWS = 10_000
TRIAL_S = 30.0


@dataclass(frozen=True)
class Admission:
    """Whether there is capacity for one more query."""

    spark: SparkSession
    driver: Driver
    store: SegmentStore
    rates: StreamRates
    limits: Limits
    plans: Plans
    #: Makes a runner whose jobs have a tag, for queries that are not registered; to be closed.
    new_runner: Callable[[str], JobRunner]

    def judge(self, runnable: Runnable, spec: QuerySpec) -> Verdict:
        """Not on the loop's thread, which a trial would hold up."""
        facts = facts_of(runnable, spec, prepared=self.plans.usable)
        return self._demand(facts, spec.cls).judge(
            self.limits.admit_load,
            lambda tuples, fixed_ns: self._trial_ns(runnable, tuples, fixed_ns),
        )

    def _demand(self, facts: QueryFacts, cls: str) -> Demand:
        engine = self.driver.engine
        index = engine.view.network.class_index[cls]
        return self.driver.look_up(lambda: engine.demand(facts, index, self.rates.per_s))

    def _trial_ns(self, runnable: Runnable, tuples: int, fixed_ns: float) -> float:
        """The time of a job over so many tuples: the query is run twice on what arrived last."""
        tables: dict[str, pa.Table] = {}
        for stream in runnable.checked.reads:
            kept = self.store.segments(stream)
            if not kept or kept[-1].seq < self.store.begin(stream).seq:
                return 0.0
            tables[stream] = self.store.sample(kept[-1], TRIAL_ROWS).drop_columns([ARRIVAL])
        took_ns = self._timed_ns(runnable, tables)
        fixed_ns = min(fixed_ns, took_ns)
        rows: int = max(1, sum(t.num_rows for t in tables.values()))
        return fixed_ns + (took_ns - fixed_ns) / rows * tuples

    def _timed_ns(self, runnable: Runnable, tables: Mapping[str, pa.Table]) -> int:
        context = self.spark.sparkContext
        tag = f"daybreak-trial-{token_hex(4)}"
        patience_s = min(self.limits.job_timeout_s, TRIAL_S)
        timer = threading.Timer(patience_s, self.plans.cancel, [tag])
        context.addJobTag(tag)
        timer.start()
        runner = self.new_runner(tag)
        try:
            runner.trial(runnable, tables)  # the first time Spark compiles
            began = time.perf_counter_ns()
            runner.trial(runnable, tables)
            return time.perf_counter_ns() - began
        except Exception as error:
            raise ConfigError(
                f"query {runnable.name!r}",
                f"fails on the newest rows, or takes longer than {patience_s:g} s "
                f"({one_line(error)})",
                "correct it",
            ) from error
        finally:
            runner.close()
            timer.cancel()
            context.removeJobTag(tag)
