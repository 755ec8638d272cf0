"""A run: an application on Spark, from its start to its end, as a user sees it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import pyarrow as pa

from daybreak.engine.admission import Verdict
from daybreak.engine.view import PolicyView
from daybreak.model.declarations import MEMORY, query_from
from daybreak.model.errors import ConfigError, QueryFailed, suggestion
from daybreak.model.limits import Limits
from daybreak.model.network import DEFAULT_CLASS
from daybreak.model.qos import QoSGraph
from daybreak.model.shedding import SheddingParams
from daybreak.model.specs import Mode, SinkSpec
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.display import duration, plural, snapshot_html
from daybreak.runtime.report import RunReport
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.control.requests import (
    DropQuery,
    PauseQuery,
    RegisterQuery,
    ResumeQuery,
    SetClassPriority,
    SetQueryClass,
    SetQuerySubscribers,
    SetQueryWeight,
    Start,
    UsePolicy,
)
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.loop.draining import await_quiet
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.start.assembly import assemble
from daybreak.spark.start.startup import LIMITS, Options

#: Whether a parked query is a warning, and an error at the end of the ``with`` block.
OnFailure = Literal["raise", "report"]
#: Threads that submit jobs, if nothing is said.
WORKERS = 2


class Run:
    """A running application: the handle that ``App.run`` returns.

    It runs on threads of its own until ``stop``, which the end of a ``with`` block calls. Methods
    may be called from any thread. A change returns when the scheduler has taken it. A name that is
    not declared, or a value that makes no sense, raises ``ConfigError`` and changes nothing.
    """

    def __init__(
        self,
        application: CheckedApplication,
        run_dir: Path,
        *,
        workers: int | None = None,
        express: int = 0,
        seed: int = 1,
        reset: tuple[str, ...] = (),
        forget: tuple[str, ...] = (),
        rider_bound_s: float = 0.1,
        limits: Limits = LIMITS,
        shedding: SheddingParams | None = None,
        on_failure: OnFailure = "raise",
    ) -> None:
        """Starts it; see ``App.run``."""
        if on_failure not in get_args(OnFailure):
            raise ConfigError("run", f"on_failure {on_failure!r}", 'give "raise" or "report"')
        if workers is None:
            workers = WORKERS + application.policy.spare_workers
        if workers < 1 or express < 0:
            found = f"{workers} workers and {express} express ones"
            raise ConfigError("run", found, "give at least one worker, and 0 or more express ones")
        self._raises = on_failure == "raise"
        self._report: RunReport | None = None
        options = Options(
            workers=workers, express=express, seed=seed, reset=reset, forget=forget,
            rider_bound_s=rider_bound_s, limits=limits, shedding=shedding, warns=self._raises,
        )  # fmt: skip
        #: What it is made of, for tests and tools; not part of the interface.
        self.parts = assemble(application, run_dir, options)

    # Changes

    def change_class_priority(self, cls: str, priority: float) -> None:
        """Gives a class another priority, above 0.

        Takes effect at the next schedule and lasts until the run ends.
        """
        self.parts.control.controller.execute(SetClassPriority(cls, priority))

    def assign_class(self, query: str, cls: str) -> None:
        """Moves a query to another declared class until the run ends.

        Answers given before count for the class that the query had then.
        """
        self.parts.control.controller.execute(SetQueryClass(query, cls))

    def set_weight(self, query: str, weight: float) -> None:
        """Changes a query's freshness weight, in (0, 1], until the run ends."""
        self.parts.control.controller.execute(SetQueryWeight(query, weight))

    def set_subscribers(self, query: str, count: int) -> None:
        """Changes how many registered a query; its weight follows, and the others' shares."""
        self.parts.control.controller.execute(SetQuerySubscribers(query, count))

    def set_policy(self, policy: str | BasePolicy) -> None:
        """Continues under another policy; jobs under way end as they are.

        A policy that only works in simulation is refused.
        """
        chosen = policy if isinstance(policy, BasePolicy) else make_policy_with(policy)
        self.parts.control.controller.execute(UsePolicy(chosen))

    def pause(self, query: str) -> None:
        """Starts no further job of a query; its rows wait in the log. Lasts beyond a restart.

        Returns at once: a job under way ends as usual.
        """
        self.parts.control.controller.execute(PauseQuery(query))

    def resume(self, query: str, *, skip: bool = False) -> int:
        """Ends a pause, or gives a parked query or a stopped stream another chance.

        Waits for its present job. ``skip`` first gives up, permanently, what it failed on: rows of
        its streams, or one result that its sink has refused and refuses again, except in an outage.
        Returns how many rows were given up.
        """
        return self.parts.control.controller.execute(ResumeQuery(query, skip)).skipped

    def drop(self, query: str) -> None:
        """Forgets a query and its place in the streams; what it delivered stays.

        Waits for its present job. Rows that only this query had yet to read may be removed.
        """
        self.parts.control.controller.execute(DropQuery(query))

    def register(
        self,
        name: str,
        sql: str,
        *,
        cls: str = DEFAULT_CLASS,
        qos: QoSGraph | None = None,
        weight: float = 1.0,
        sink: SinkSpec | None = None,
        on_full: Literal["skip", "block"] | None = None,
        mode: Mode | None = None,
        start: Start = "next",
        force: bool = False,
    ) -> Verdict:
        """Adds a query while the application runs; it is there again after a restart.

        It begins with the next segment, or with ``start="earliest"`` at the oldest one kept, as
        one in complete mode always does.
        Returns what its load means for the others. ``ConfigError`` if its SQL or its sink cannot be
        used, or if there is no capacity for it, unless ``force``.
        """
        values = {
            "sql": sql, "class": cls, "qos": qos, "weight": weight, "sink": sink or MEMORY,
            "on_full": on_full, "mode": mode,
        }  # fmt: skip
        spec = query_from(name, values)
        verdict = self.parts.control.controller.execute(RegisterQuery(spec, start, force)).verdict
        assert verdict is not None
        return verdict

    # Status

    @property
    def name(self) -> str:
        """The application's name."""
        return self.parts.accepted.catalog.application.name

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.parts.storage.rundir.root

    @property
    def policy(self) -> PolicyView:
        """The policy that decides now."""
        return self.parts.scheduling.driver.engine.view.policy

    @property
    def changes(self) -> list[dict[str, object]]:
        """What was changed since the start, in order."""
        return self.parts.keeping.changes.entries

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of this run."""
        return self.parts.keeping.figures.elapsed_s

    @property
    def failures(self) -> dict[str, str]:
        """Parked queries, each with its error; empty if there are none. The others continue."""
        return self.parts.scheduling.driver.failures

    @property
    def stopped_streams(self) -> dict[str, str]:
        """Streams whose source failed too often, each with its error. The others continue.

        ``resume`` starts one again.
        """
        return self.parts.inflow.sources.stopped()

    @property
    def troubles(self) -> dict[str, str]:
        """What maintenance could not do lately, and will try again."""
        return self.parts.control.status.troubles()

    def snapshot(self) -> Snapshot:
        """The status now, with the last minutes of its figures."""
        return self.parts.control.status.snapshot()

    def rows(self, query: str) -> pa.Table:
        """All rows of a query with a memory sink so far, in the order of delivery.

        An empty table with the query's columns before the first row. ``ConfigError`` if the query
        has another sink.
        """
        queries = {runnable.name: runnable for runnable in self.parts.accepted.catalog.runnables}
        if query not in queries:
            raise ConfigError(f"query {query!r}", "is not declared", suggestion(query, queries))
        sink = queries[query].sink
        if not isinstance(sink, MemorySink):
            raise ConfigError(f"query {query!r}", "has no memory sink", "read its sink instead")
        found = sink.table()
        return queries[query].schema.empty_table() if found is None else found

    def healthy(self) -> None:
        """Raises the error if the scheduler or every source has failed for good; else returns."""
        self.parts.control.health.check()

    def announce(self, event: str, message: str, **fields: object) -> None:
        """Adds an event to the event log."""
        self.parts.accepted.emit(event, message, level=logging.INFO, query=None, **fields)

    def handle(self, command: str, values: Mapping[str, Any]) -> Any:
        """Answers a command as the control socket does."""
        return self.parts.control.protocol.handle(command, values)

    # Waiting and the end

    def wait(self, seconds: float, every_s: float = 0.1) -> None:
        """Returns after so long; raises as ``healthy`` does if the run cannot continue."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.healthy()
            time.sleep(min(every_s, left))

    def drain(self, timeout_s: float = 600.0, *, flush: bool = False) -> None:
        """Waits until bounded input has been read and every query has answered all of it.

        Paused and parked queries are not waited for, nor are streams that have stopped.
        ``ConfigError`` after ``timeout_s``, which names what is left, or if every stream has
        stopped.
        ``flush``: the input ends here, so windows that are still open are closed and answered,
        too. A row that comes for one of them in a later run is late. Windows over a stopped
        stream stay open.
        """
        driver, inflow = self.parts.scheduling.driver, self.parts.inflow
        until = time.monotonic() + timeout_s

        def wait() -> None:
            await_quiet(driver, self.name, self.healthy, until - time.monotonic(), timeout_s)

        inflow.sources.drain()
        wait()
        if flush:
            inflow.flush(driver.on_tick, wait)

    def stop(self) -> RunReport:
        """Ends sources, jobs and threads, in this order, and writes the report.

        Jobs under way end first; what was committed is delivered. A policy that never comes to a
        decision is left behind after a minute. Further calls return the same report.
        """
        if self._report is None:
            self._report = self.parts.stop()
        return self._report

    def report(self) -> RunReport:
        """The run's record; stops the run if it is still under way."""
        return self.stop()

    def __repr__(self) -> str:
        what = f"{self.name} under {self.policy.name}"
        if self._report is not None:
            return f"<Run {what}: stopped after {duration(self._report.duration_s)}>"
        queries = plural(len(self.parts.accepted.catalog.application.checked), "query", "queries")
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Run {what}: running for {duration(self.elapsed_s)}, {queries}{failed}>"

    def _repr_html_(self) -> str:
        if self._report is not None:
            return self._report._repr_html_()
        return snapshot_html(repr(self).strip("<>"), self.snapshot())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        failure = self.parts.scheduling.driver.failure
        if error is None and failure is not None:
            raise failure
        stopped = self.stopped_streams
        if error is None and (self.failures or stopped) and self._raises:
            raise QueryFailed(self.failures, stopped)
