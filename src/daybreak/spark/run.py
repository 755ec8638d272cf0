"""A run: everything that lives between the start and the end of an application on Spark."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.admission import Verdict
from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Delivered, Event, Pause
from daybreak.engine.inbox import Tick
from daybreak.engine.state import JobState
from daybreak.model.errors import ConfigError, QueryFailed, suggestion
from daybreak.model.limits import Limits
from daybreak.model.network import DEFAULT_CLASS, Network, Stream
from daybreak.model.qos import QoSGraph
from daybreak.model.shedding import SheddingParams
from daybreak.model.specs import QuerySpec, SinkSpec
from daybreak.policies.base import BasePolicy
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.control import ControlServer
from daybreak.runtime.display import duration, plural, snapshot_html
from daybreak.runtime.eventlog import EventLog
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.report import RunReport
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.acceptance import Acceptance
from daybreak.spark.application import Prepared
from daybreak.spark.control.admission import StreamRates
from daybreak.spark.control.commands import handle
from daybreak.spark.control.operations import Operations, Start, one_box, sql_fingerprint
from daybreak.spark.control.snapshot import take_snapshot
from daybreak.spark.declared import MEMORY, from_text
from daybreak.spark.driver import Driver, Hooks
from daybreak.spark.failures import failure_of
from daybreak.spark.ingest.backpressure import Room
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.ingest.event_clocks import TimeKeeper
from daybreak.spark.ingest.generator import FORMAT as GENERATOR
from daybreak.spark.ingest.generator import GeneratorSource
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.sources import Source, Sources
from daybreak.spark.ingest.stream_source import StreamSource
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.runner import JobRunner, Runnable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.undeclared import (
    announce_forgotten,
    refuse_unknown,
)
from daybreak.spark.maintenance import Housekeeping, Keeper
from daybreak.spark.session import jvm_pid
from daybreak.spark.sinks.delivery import recover
from daybreak.spark.sinks.file_sync import Settler
from daybreak.spark.sinks.sinks import MemorySink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import ViewSink
from daybreak.version import __version__

LIMITS = Limits()
#: Whether a parked query is a warning, and an error at the end of the ``with`` block.
OnFailure = Literal["raise", "report"]


class Run:
    """A running application. ``with`` stops it at the end; ``report()`` is its record."""

    def __init__(
        self,
        prepared: Prepared,
        run_dir: Path,
        *,
        workers: int = 2,
        express: int = 0,
        seed: int = 1,
        reset: tuple[str, ...] = (),
        forget: tuple[str, ...] = (),
        rider_bound_s: float = 0.1,
        limits: Limits = LIMITS,
        shedding: SheddingParams | None = None,
        on_failure: OnFailure = "raise",
    ) -> None:
        """``express`` workers come on top of the others, for the highest class alone.

        ``reset``: queries that restart at the next segment. ``forget``: queries that are no longer
        declared and whose places are given up.
        ``rider_bound_s``: how much queries that run along may delay the one asked for.
        """
        if on_failure not in get_args(OnFailure):
            raise ConfigError("run", f"on_failure {on_failure!r}", 'give "raise" or "report"')
        if workers < 1 or express < 0:
            found = f"{workers} workers and {express} express ones"
            raise ConfigError("run", found, "give at least one worker, and 0 or more express ones")
        self._on_failure = on_failure
        self.prepared = prepared
        # Refused before locking.
        self.sinks = prepared.sinks(run_dir, limits.job_timeout_s)
        self.rundir = RunDirectory.open(run_dir, prepared.name, prepared.timezone)
        self.events = EventLog(self.rundir.root)
        self.limits = limits
        self._shedding = shedding
        self.room = Room()
        self.rates = StreamRates()
        self.dead = DeadLetters(self.rundir.root / "dead")
        self.sources = Sources(self._source, limits, self.say)
        self.kafka = KafkaWatch(self.sources.positions, self.say)
        self._stop_threads: list[Callable[[], None]] = []
        self._report: RunReport | None = None
        self._failure: BaseException | None = None
        #: Whether the executor hears of segments; before, its inboxes are filled from the store.
        self._tells = False
        self.operations = Operations(self)
        try:
            self._open(workers, express, seed, reset, forget, rider_bound_s)
        except BaseException:
            self._end_threads()
            self.events.close()
            self.rundir.close()
            raise

    def _open(
        self,
        workers: int,
        express: int,
        seed: int,
        reset: tuple[str, ...],
        forget: tuple[str, ...],
        rider_bound_s: float,
    ) -> None:
        self.rundir.name_jvm(jvm_pid(self.prepared.spark))
        for stream in self.prepared.streams:
            self.dead.count(stream)  # refused now, if they cannot be read, rather than at the end
        self.log = CommitLog(self.rundir.state_db)
        self.store = SegmentStore(self.rundir, self.log)
        self.partials = Partials(self.log)
        refuse_unknown(self.log, self.prepared.checked, forget)
        self._recall(forget)
        prepared = self.prepared
        for name, schema in prepared.schemas.items():
            self.store.read_as(name, to_arrow_schema(schema, timezone="UTC"))
        self.time = TimeKeeper(self.store, prepared.streams, prepared.checked, time.monotonic_ns())
        views = [sink for sink in self.sinks.values() if isinstance(sink, ViewSink)]
        for view in views:
            view.bind(self.store, self._on_segment, self._on_tick)
        start = Acceptance(prepared, self.log, self.store, self.rundir.root / "late", reset)
        start.refuse()
        # Up to here nothing has changed: a start that is refused costs nothing.
        self.recovered = recover(self.log, self.sinks)
        self.undeclared, self.forgotten = start.accept(forget, self.limits, self.say)
        self._advance(views)
        self.late = self.time.open_late(self.rundir.root / "late", self.log.cursors())
        network = prepared.network
        self.state = JobState(network, workers, express=express)
        self.start_ns = time.time_ns()
        self.monitor = Monitor(network)
        self.recorder = Recorder()
        self.house = Housekeeping(self)
        self.history = History(self.state, self.start_ns)
        self.settler = Settler(self.log, self.sinks)
        self._stop_threads.append(self.settler.close)
        self.driver = self._make_driver(start, seed, rider_bound_s)
        self._tells = True
        self._say_start()
        self._stop_threads.append(self.driver.join)
        self._thread = threading.Thread(
            target=self._run_loop, args=self._held(), name="daybreak-loop", daemon=True
        )
        self._thread.start()
        self._stop_threads.append(self._end_loop)
        self._stop_threads += [self.kafka.close, self.sources.stop]
        self.start_sources()
        self._keepers = [Keeper(tasks, self.say) for tasks in self.house.tasks()]
        self._stop_threads += [keeper.stop for keeper in self._keepers]
        self.control = ControlServer(self.rundir.root, partial(handle, self))
        self._stop_threads.append(self.control.close)

    def _advance(self, views: Sequence[ViewSink]) -> None:
        """The streams of views are as far as their queries."""
        progress = self.log.progress()
        for view in views:
            if view.query in progress:
                view.closed(progress[view.query].closed_us, time.time_ns())

    def _recall(self, forget: tuple[str, ...]) -> None:
        """Queries that were registered while an earlier run went on are there again."""
        for name, text in self.log.declarations().items():
            if name in self.prepared.checked or name in forget:
                continue  # the pipeline declares it by now, or nobody wants it any more
            try:
                spec = from_text(name, text)
                runnable = self.operations.prepare(spec)
            except ConfigError as error:
                remedy = f"{error.remedy}; it was registered at run time: --forget {name} drops it"
                raise ConfigError(error.place, error.finding, remedy) from error
            reads = runnable.checked.reads
            network = self.prepared.network.with_query(
                *one_box(spec, reads), [Stream(name=s) for s in reads]
            )
            self.adopt(spec, runnable, network, sql_fingerprint(spec.sql or ""))

    def adopt(self, spec: QuerySpec, runnable: Runnable, network: Network, mark: str) -> None:
        """Makes one more query part of the application."""
        name, known = spec.name, self.prepared
        self.sinks[name] = runnable.sink
        self.prepared = replace(
            known,
            network=network,
            checked={**known.checked, name: runnable.checked},
            specs={**known.specs, name: spec},
            fingerprints={**known.fingerprints, name: mark},
        )

    def _new_runner(self, tag: str) -> JobRunner:
        prepared = self.prepared
        prepared.spark.sparkContext.addJobTag(tag)
        return self._runner(tag)

    def _runner(self, name: str) -> JobRunner:
        prepared = self.prepared
        return JobRunner(
            prepared.spark, prepared.schemas, self.store, self.log, self.partials, self.settler,
            self.rundir.scratch / name,
        )  # fmt: skip

    def _make_driver(self, start: Acceptance, seed: int, rider_bound_s: float) -> Driver:
        prepared, inboxes = self.prepared, start.inboxes()
        queries = [self._runnable(box.name) for box in prepared.network.boxes]
        engine = Engine(
            self.state,
            [facts_of(query, prepared.specs[query.name]) for query in queries],
            [inboxes[query.name] for query in queries],
            prepared.policy,
            Settings(
                seed=seed, rider_bound_ns=round(rider_bound_s * 1e9), limits=self.limits,
                shedding=self._shedding,
            ),
            {stream: self.store.end(stream).seq for stream in prepared.streams},
        )  # fmt: skip
        accounts = Accounts(
            self.state, engine.queries, self.monitor, self.recorder, self.history, self.start_ns
        )
        cancel = prepared.spark.sparkContext.cancelJobsWithTag
        house = self.house
        hooks = Hooks(
            self._new_runner, cancel, house.tidy, house.give_up, house.note_trouble, self.say
        )
        return Driver(engine, accounts, queries, hooks, self.limits.job_timeout_s)

    def _held(self) -> list[Event]:
        """Queries that were paused, and those whose sink will not take what they had committed."""
        index = self.prepared.network.query_index
        refused = self.recovered.refused.items()
        return [
            *(Delivered(index[name], failure_of(failure)) for name, failure in refused),
            *(Pause(index[name]) for name in sorted(self.log.paused() & index.keys())),
        ]

    def _runnable(self, name: str) -> Runnable:
        prepared = self.prepared
        return Runnable(prepared.checked[name], self.sinks[name], prepared.functions.get(name))

    def start_sources(self) -> None:
        """Starts what fills the streams that are read and not yet filled."""
        read = {s for c in self.prepared.checked.values() for s in c.reads}
        self.sources.start(
            name
            for name, spec in self.prepared.streams.items()
            if name in read and spec.format != VIEW
        )
        self.kafka.start()

    def _source(self, name: str) -> Source:
        prepared, spec = self.prepared, self.prepared.streams[name]
        if spec.format == GENERATOR:
            return GeneratorSource(spec, self.store, self._on_segment, self.room)
        return StreamSource(
            prepared.spark, spec, prepared.folder, self.rundir, self.store, self._on_segment,
            self.dead, self.room,
        )  # fmt: skip

    def _end_loop(self) -> None:
        self.driver.stop()
        self._thread.join()

    def _end_threads(self) -> None:
        """Sources first, then the loop, then the workers: the reverse of how they started."""
        while self._stop_threads:
            self._stop_threads.pop()()

    def _on_segment(self, segment: Segment) -> None:
        if self._tells:
            self.late.look(segment)
            self.driver.on_segment(segment)

    def _on_tick(self, tick: Tick) -> None:
        if self._tells:
            self.driver.on_tick(tick)

    def _run_loop(self, *held: Event) -> None:
        try:
            self.driver.run(*held)
        except BaseException as error:  # told to whoever waits or stops
            self._failure = error

    def trial_runner(self) -> JobRunner:
        """Runs queries that are not registered, for their cost; to be closed."""
        return self._runner("trial")

    def say(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        """Tells the event log; of a query, with its class."""
        network = self.prepared.network
        index = None if query is None else network.query_index.get(query)
        cls = None if index is None else network.classes[self.state.query_class[index]].name
        about = {"query": query, "class": cls, **fields}
        self.events.say(event, message, level=level, fields=about)
        if event == "parked" and self._on_failure == "raise":
            told = f"query {query!r} is parked: {fields.get('error')}; see run.failures"
            with suppress(RuntimeWarning):  # where warnings are errors, the end of the run raises
                warnings.warn(told, RuntimeWarning, stacklevel=2)

    def _say_start(self) -> None:
        self.say(
            "started",
            f"{self.prepared.name}: {len(self.prepared.checked)} queries under {self.policy.name}",
            pipeline=self.prepared.name,
            policy=self.policy.name,
            workers=self.state.workers,
            express=self.state.express,
            version=__version__,
        )
        if self.recovered.delivered:
            results = len(self.recovered.delivered)
            self.say("recovered", f"delivered {results} committed results", results=results)
        for file in self.recovered.missing:
            message = (
                f"lost a result of {file.rows} rows: {file.path} is gone and was not delivered"
            )
            self.say(
                "result-missing", message, level=logging.ERROR, query=file.query,
                rows=file.rows, job=file.job, path=str(file.path),
            )  # fmt: skip
        for name, why in self.forgotten.items():
            announce_forgotten(self.say, name, why)
        self.undeclared.announce()

    # What a user does

    def change_class_priority(self, cls: str, priority: float) -> None:
        """Takes effect at the next schedule."""
        self.operations.change_class_priority(cls, priority)

    def assign_class(self, query: str, cls: str) -> None:
        """Moves a query to another class."""
        self.operations.assign_class(query, cls)

    def set_weight(self, query: str, weight: float) -> None:
        """Changes a query's freshness weight."""
        self.operations.set_weight(query, weight)

    def set_subscribers(self, query: str, count: int) -> None:
        """Changes how many registered a query; its weight follows, and the others' shares."""
        self.operations.set_subscribers(query, count)

    def set_policy(self, policy: str | BasePolicy) -> None:
        """Goes on under another policy; jobs under way end as they are."""
        self.operations.set_policy(policy)

    def pause(self, query: str) -> None:
        """Starts no further job of a query; what arrives waits. Lasts beyond a restart."""
        self.operations.pause(query)

    def resume(self, query: str, *, skip: bool = False) -> int:
        """Ends a pause, or gives a parked query another chance.

        ``skip`` first gives up the rows it failed on, for ever; returns how many.
        """
        return self.operations.resume(query, skip=skip)

    def drop(self, query: str) -> None:
        """Forgets a query and its place in the streams; what it delivered stays."""
        self.operations.drop(query)

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
        start: Start = "next",
        force: bool = False,
    ) -> Verdict:
        """Adds a query while it runs; it is there again after a restart.

        It begins with the next segment, or with ``start="earliest"`` at the oldest one kept.
        ``ConfigError`` if there is no capacity for it, unless ``force``.
        """
        spec = QuerySpec(
            name=name, cls=cls, qos=qos, weight=weight, sql=sql, sink=sink or MEMORY,
            on_full=on_full, place=f"query {name!r}",
        )  # fmt: skip
        return self.operations.register(spec, start, force=force)

    @property
    def policy(self) -> BasePolicy:
        """The policy that decides now."""
        return self.driver.engine.policy

    @property
    def changes(self) -> list[dict[str, object]]:
        """What was changed since the start, in order."""
        return self.operations.changes

    @property
    def elapsed_s(self) -> float:
        return (time.time_ns() - self.start_ns) / 1e9

    def rows(self, query: str) -> pa.Table:
        """What a query with a memory sink has given so far; without rows before the first."""
        sink = self.sinks.get(query)
        if sink is None:
            raise ConfigError(f"query {query!r}", "is not declared", suggestion(query, self.sinks))
        if not isinstance(sink, MemorySink):
            raise ConfigError(f"query {query!r}", "has no memory sink", "read its sink instead")
        found = sink.table()
        return self._runnable(query).schema.empty_table() if found is None else found

    def snapshot(self) -> Snapshot:
        """How it stands, with its last minutes."""
        return take_snapshot(self)

    @property
    def failures(self) -> dict[str, str]:
        """Queries that failed, with why; the others go on."""
        return self.driver.failures

    @property
    def troubles(self) -> dict[str, str]:
        """What housekeeping could not do lately, and will try again."""
        troubles = [self.house.troubles, *(keeper.troubles for keeper in self._keepers)]
        return {what: why for told in troubles for what, why in told.copy().items()}

    def healthy(self) -> None:
        """Raises if a source or the scheduler itself has died."""
        if self._failure is not None:
            raise self._failure
        if self.settler.failure is not None:
            raise ConfigError(
                self.prepared.name,
                f"results cannot be made durable: {self.settler.failure}",
                "see to the disk and start again; nothing is lost",
            )
        self.sources.check()

    def wait(self, seconds: float, every_s: float = 0.1) -> None:
        """Lets it run for so long; raises if it cannot go on."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.healthy()
            time.sleep(min(every_s, left))

    def drain(self, timeout_s: float = 600.0, *, flush: bool = False) -> None:
        """Waits until bounded input has been read and every query has answered all of it.

        ``flush``: the input ends here, so windows that are still open are closed and answered,
        too. A row that comes for one of them in a later run is late.
        """
        until = time.monotonic() + timeout_s
        self.sources.drain()
        self._await_quiet(until, timeout_s)
        for streams in self.time.stages if flush else ():
            for tick in self.time.ends(streams, time.time_ns()):
                self.driver.on_tick(tick)
            self._await_quiet(until, timeout_s)

    def _await_quiet(self, until: float, timeout_s: float) -> None:
        while not self.driver.ask().result(timeout=timeout_s):
            self.healthy()
            if time.monotonic() > until:
                raise ConfigError(
                    self.prepared.name, f"still has work after {timeout_s:g} s", "wait longer"
                )
            time.sleep(0.02)

    def stop(self) -> RunReport:
        """Ends sources, jobs and threads, in this order, and writes the report. Idempotent."""
        if self._report is not None:
            return self._report
        self._end_threads()
        try:
            self.house.finish()
            self._report = RunReport.load(self.rundir.record)
            results = self._report.overall().count
            self.say("stopped", f"{results} tuples were answered", answered=results)
        finally:  # also where there is no room for a report
            self.log.close()
            self.events.close()
            self.rundir.close()
        return self._report

    def report(self) -> RunReport:
        """The run's record; stops the run if it still goes on."""
        return self.stop()

    def __repr__(self) -> str:
        what = f"{self.prepared.name} under {self.policy.name}"
        if self._report is not None:
            return f"<Run {what}: stopped after {duration(self._report.duration_s)}>"
        queries = plural(len(self.prepared.checked), "query", "queries")
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
        if error is None and self._failure is not None:
            raise self._failure
        if error is None and self.failures and self._on_failure == "raise":
            raise QueryFailed(self.failures)

    def head(self) -> RunReport:
        """The report so far, without its series."""
        return self.monitor.head(
            self.state, round(self.elapsed_s * 1e9), self.state.threads + 1, self._manifest()
        )

    def _manifest(self) -> dict[str, object]:
        policy = self.policy
        return {
            "daybreak": __version__,
            "world": "spark",
            "pipeline": self.prepared.name,
            "started_s": round(self.start_ns / 1e9, 3),
            **policy.told(self.start_ns),
            "spark": self.prepared.spark.version,
            "master": self.prepared.spark.sparkContext.master,
            "timezone": self.prepared.timezone,
            "reads": {n: list(c.reads) for n, c in self.prepared.checked.items()},
            "kin": {n: c.kin for n, c in self.prepared.checked.items() if c.kin is not None},
            "windows": [n for n, c in self.prepared.checked.items() if c.windowing],
            "job_kinds": {f.name: f.kind for f in self.driver.engine.queries.facts},
            "slides_ns": {f.name: f.slide_ns for f in self.driver.engine.queries.facts},
            "express": self.state.express,
            "rider_bound_s": self.driver.engine.compositor.bound_ns / 1e9,
            "changes": self.changes,
            **({"shedding": asdict(self._shedding)} if self._shedding else {}),
            "failures": self.failures,
            "lost": self.log.losses(),
            "late": {name: n for name, n in self.late.counts.items() if n},
            "record_parts_dropped": self.house.parts.dropped,
            "dead_letters": {s: n for s in self.prepared.streams if (n := self.dead.count(s))},
        }
