"""A run: everything that lives between the start and the end of an application on Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import Network
from daybreak.model.pipeline import QuerySpec, SinkSpec, StreamSpec
from daybreak.policies.base import BasePolicy, Change
from daybreak.runtime.live import Live, Snapshot
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.report import RunReport
from daybreak.runtime.state import SystemState
from daybreak.spark.check import CheckedQuery
from daybreak.spark.commitlog import CommitLog
from daybreak.spark.executor import SparkExecutor
from daybreak.spark.generator import FORMAT as GENERATOR
from daybreak.spark.generator import GeneratorSource
from daybreak.spark.inbox import Waiting
from daybreak.spark.ingest import StreamSource
from daybreak.spark.jobs import Function, JobRunner, Runnable
from daybreak.spark.rundir import RunDirectory
from daybreak.spark.segments import Segment, SegmentStore
from daybreak.spark.settle import Settler
from daybreak.spark.sinks import Callback, MemorySink, Sink, make_sink, recover
from daybreak.version import __version__

MEMORY = SinkSpec(format="memory")


class Source(Protocol):
    """What fills a stream."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def error(self) -> str | None: ...
    def drain(self) -> None: ...


@dataclass(frozen=True)
class Prepared:
    """A checked application: nothing about it can be wrong any more but the world."""

    name: str
    spark: SparkSession
    folder: Path
    network: Network
    policy: BasePolicy
    streams: Mapping[str, StreamSpec]
    schemas: Mapping[str, StructType]
    checked: Mapping[str, CheckedQuery]
    specs: Mapping[str, QuerySpec]
    functions: Mapping[str, Function]
    callbacks: Mapping[str, Callback]
    fingerprints: Mapping[str, str]

    def sinks(self, staging: Path) -> dict[str, Sink]:
        return {
            name: make_sink(
                name, spec.sink or MEMORY, self.folder, staging,
                place=spec.place, callback=self.callbacks.get(name),
            )
            for name, spec in self.specs.items()
        }  # fmt: skip


class Run:
    """A running application. ``with`` stops it at the end; ``report()`` is its record."""

    def __init__(
        self,
        prepared: Prepared,
        run_dir: Path,
        *,
        workers: int = 2,
        seed: int = 1,
        reset: tuple[str, ...] = (),
        rider_bound_s: float = 0.1,
    ) -> None:
        """``rider_bound_s``: how much queries that run along may delay the one asked for."""
        self.prepared = prepared
        self.sinks = prepared.sinks(run_dir.resolve() / "staging")  # refused before locking
        self.rundir = RunDirectory.open(run_dir, prepared.name)
        self._sources: list[Source] = []
        self._stop_threads: list[Callable[[], None]] = []
        self._report: RunReport | None = None
        self._failure: BaseException | None = None
        self.changes: list[dict[str, object]] = []
        try:
            self._open(workers, seed, reset, rider_bound_s)
        except BaseException:
            self._end_threads()
            self.rundir.close()
            raise

    def _open(self, workers: int, seed: int, reset: tuple[str, ...], rider_bound_s: float) -> None:
        prepared = self.prepared
        self.rundir.name_jvm(_jvm_pid(prepared.spark))
        self.log = CommitLog(self.rundir.state_db)
        self.store = SegmentStore(self.rundir, self.log)
        self.recovered = recover(self.log, self.sinks)
        self._register(reset)
        network = prepared.network
        self.state = SystemState(network, workers, rides=True)
        self._start_ns = time.time_ns()
        self._monitor = Monitor(network)
        self._recorder = Recorder()
        self._live = Live(self.state, self._start_ns)
        cursors = self.log.cursors()
        self._settler = Settler(self.log, self.sinks)
        self._stop_threads.append(self._settler.close)
        runners = [
            JobRunner(
                prepared.spark, prepared.schemas, self.store, self.log, cursors, self._settler,
                self.rundir.scratch / str(worker),
            )
            for worker in range(workers)
        ]  # fmt: skip
        self._stop_threads.extend(runner.close for runner in runners)
        self.executor = SparkExecutor(
            self.state,
            self._monitor,
            self._recorder,
            self._live,
            [self._runnable(b.name) for b in network.boxes],
            runners,
            self._backlog(),
            {s: self.store.end(s).seq for s in prepared.streams},
            self._start_ns,
            self._tidy,
            rider_bound_s,
        )
        self._loop = Loop(self.state, prepared.policy, self.executor, seed)
        for b, pending in enumerate(self.state.pending):
            if pending:
                self._loop.arrived(b, pending, self._start_ns)
        self._stop_threads.append(self.executor.join)
        self._thread = threading.Thread(target=self._run_loop, name="daybreak-loop", daemon=True)
        self._thread.start()
        self._stop_threads.append(self._end_loop)
        self._start_sources()

    def _register(self, reset: tuple[str, ...]) -> None:
        for name in reset:
            if name not in self.prepared.checked:
                remedy = suggestion(name, self.prepared.checked)
                raise ConfigError("--reset-query", f"unknown query {name!r}", remedy)
        for name, checked in self.prepared.checked.items():
            self.log.register_query(
                name,
                self.prepared.fingerprints[name],
                {stream: self.store.end(stream) for stream in checked.reads},
                reset=name in reset,
                place=self.prepared.specs[name].place,
            )

    def _runnable(self, name: str) -> Runnable:
        prepared = self.prepared
        return Runnable(prepared.checked[name], self.sinks[name], prepared.functions.get(name))

    def _backlog(self) -> dict[str, list[Waiting]]:
        """What was ingested before this start and not yet answered."""
        cursors = self.log.cursors()
        found: dict[str, list[Waiting]] = {}
        for name, checked in self.prepared.checked.items():
            waiting = [
                Waiting(arrival, stream, rows)
                for stream in checked.reads
                for arrival, rows in self.store.pending(stream, cursors[name, stream])
            ]
            found[name] = sorted(waiting, key=lambda w: w.arrival_ns)
        return found

    def _start_sources(self) -> None:
        prepared = self.prepared
        read = {s for c in prepared.checked.values() for s in c.reads}
        for name, spec in prepared.streams.items():
            if name not in read:
                continue
            source: Source
            if spec.format == GENERATOR:
                source = GeneratorSource(spec, self.store, self._on_segment)
            else:
                source = StreamSource(
                    prepared.spark, spec, prepared.folder, self.rundir, self.store,
                    self._on_segment,
                )  # fmt: skip
            source.start()
            self._sources.append(source)
            self._stop_threads.append(source.stop)

    def _end_loop(self) -> None:
        self.executor.stop()
        self._thread.join()

    def _end_threads(self) -> None:
        """Sources first, then the loop, then the workers: the reverse of how they started."""
        while self._stop_threads:
            self._stop_threads.pop()()

    def _on_segment(self, segment: Segment) -> None:
        self.executor.on_segment(segment)

    def _run_loop(self) -> None:
        try:
            self._loop.run()
        except BaseException as error:  # told to whoever waits or stops
            self._failure = error

    def _tidy(self) -> None:
        """Removes segments that every query has passed."""
        for stream in self.prepared.streams:
            low = self.log.low_water(stream)
            if low is not None:
                self.store.remove_below(stream, low)

    # What a user does

    def change_class_priority(self, cls: str, priority: float) -> None:
        """Takes effect at the next schedule."""
        index = self._index(self.prepared.network.class_index, "class", cls)
        if not priority > 0:
            raise ConfigError(f"class {cls!r}", f"priority {priority}", "give one above 0")

        def make(state: SystemState) -> Change:
            state.class_priority[index] = float(priority)
            return Change("class-priority", index)

        self._ask(make, what="class-priority", subject=cls, value=priority)

    def assign_class(self, query: str, cls: str) -> None:
        """Moves a query to another class."""
        subject = self._index(self.prepared.network.query_index, "query", query)
        index = self._index(self.prepared.network.class_index, "class", cls)

        def make(state: SystemState) -> Change:
            state.query_class[subject] = index
            return Change("query-class", subject)

        self._ask(make, what="query-class", subject=query, value=cls)

    def set_weight(self, query: str, weight: float) -> None:
        """Changes a query's freshness weight."""
        subject = self._index(self.prepared.network.query_index, "query", query)
        if not 0 < weight <= 1:
            raise ConfigError(f"query {query!r}", f"weight {weight}", "give one in (0, 1]")

        def make(state: SystemState) -> Change:
            state.query_weight[subject] = weight
            return Change("weight", subject)

        self._ask(make, what="weight", subject=query, value=weight)

    def rows(self, query: str) -> pa.Table | None:
        """What a query with a memory sink has given so far."""
        self._index(self.prepared.network.query_index, "query", query)
        sink = self.sinks[query]
        if not isinstance(sink, MemorySink):
            raise ConfigError(f"query {query!r}", "has no memory sink", "read its sink instead")
        return sink.table()

    def snapshot(self) -> Snapshot:
        """The last few seconds."""
        return self._live.snapshot(time.time_ns())

    @property
    def failures(self) -> dict[str, str]:
        """Queries that failed, with why; the others go on."""
        return dict(self.executor.failures)

    def healthy(self) -> None:
        """Raises if a source or the scheduler itself has died."""
        if self._failure is not None:
            raise self._failure
        if self._settler.failure is not None:
            raise ConfigError(
                self.prepared.name,
                f"results cannot be made durable: {self._settler.failure}",
                "see to the disk and start again; nothing is lost",
            )
        for source in self._sources:
            why = source.error()
            if why is not None:
                raise ConfigError(f"stream {source.name!r}", f"its source failed: {why}", "mend it")

    def wait(self, seconds: float, every_s: float = 0.1) -> None:
        """Lets it run for so long; raises if it cannot go on."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.healthy()
            time.sleep(min(every_s, left))

    def drain(self, timeout_s: float = 600.0) -> None:
        """Waits until bounded input has been read and every query has answered all of it."""
        until = time.monotonic() + timeout_s
        for source in self._sources:
            source.drain()
        while not self.executor.ask().result(timeout=timeout_s):
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
        end_ns = time.time_ns() - self._start_ns
        self._report = self._monitor.report(
            self.state, end_ns, self.executor.workers + 1, self._manifest()
        )
        self._report.save(self.rundir.record)
        self._recorder.save(self.rundir.record)
        self.log.close()
        self.rundir.close()
        return self._report

    def report(self) -> RunReport:
        """The run's record; stops the run if it still goes on."""
        return self.stop()

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

    def _ask(self, make: Callable[[SystemState], Change], **about: object) -> None:
        self.healthy()
        self.executor.ask(make).result(timeout=30)
        at_s = (time.time_ns() - self._start_ns) / 1e9
        self.changes.append({"at_s": round(at_s, 3), **about})

    def _manifest(self) -> dict[str, object]:
        policy = self.prepared.policy
        return {
            "daybreak": __version__,
            "world": "spark",
            "pipeline": self.prepared.name,
            "policy": policy.name,
            "parameters": dict(policy.settings()),
            "spark": self.prepared.spark.version,
            "master": self.prepared.spark.sparkContext.master,
            "reads": {n: list(c.reads) for n, c in self.prepared.checked.items()},
            "changes": self.changes,
            "failures": self.failures,
        }

    @staticmethod
    def _index(known: Mapping[str, int], what: str, name: str) -> int:
        if name not in known:
            raise ConfigError(f"{what} {name!r}", "is not declared", suggestion(name, known))
        return known[name]


def _jvm_pid(spark: SparkSession) -> int:
    handle = getattr(spark.sparkContext._jvm, "java.lang.ProcessHandle")
    return int(handle.current().pid())
