"""``daybreak.govern``: a policy decides when the micro-batches of existing queries run."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from py4j.protocol import Py4JError

from daybreak.engine.events import Event, Pause, Resume, SetPriority, SwitchPolicy
from daybreak.engine.view import PolicyView
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.limits import Limits
from daybreak.model.network import QueryClass
from daybreak.policies.base import BasePolicy
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.display import duration, plural, snapshot_html
from daybreak.runtime.report import RunReport
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.gates.bridge import (
    CLASS_PROPERTY,
    RESTART_PROPERTY,
    Bridge,
    NoBridge,
)
from daybreak.spark.governed.class_book import Assignment, ClassBook, Qos, graph_of
from daybreak.spark.governed.gate_driver import GovernedDriver
from daybreak.spark.governed.governed_queries import Governed
from daybreak.spark.governed.governor_files import GovernorFiles, begin_record
from daybreak.spark.governed.governor_log import ChangeNote, GovernorLog
from daybreak.spark.governed.governor_manifest import manifest_of
from daybreak.spark.governed.governor_options import chosen_policy, refuse_options, refuse_second
from daybreak.spark.governed.governor_snapshot import Shown, take_snapshot
from daybreak.spark.governed.granting import one_line_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Micro-batches may take as long as they do, unless a limit is given.
NO_LIMIT_S = 1e9
#: A change waits at most so long for the loop.
PATIENCE_S = 60.0
BEFORE = "was started before the governor"
_TOKENS = count(1)
#: The governors of this process, by Spark's id of their session.
_GOVERNORS: WeakValueDictionary[str, Governor] = WeakValueDictionary()


class Governor:
    """Governs the streaming queries that one session starts from now on, until ``stop``.

    A governed query waits before each micro-batch until the policy grants it; results are those of
    the query without a governor. Queries that cannot be governed run free and are listed with the
    reason (``free``). Any thread may call any method. A change returns when the scheduler has taken
    it; ``ConfigError`` if a name is unknown, and then nothing has changed.
    """

    def __init__(
        self,
        spark: SparkSession,
        policy: str | BasePolicy = "planned",
        classes: Mapping[str, float] | ClassBook | None = None,
        *,
        workers: int | None = None,
        name: str = "governed",
        seed: int = 1,
        retries: int = 3,
        retry_s: float = 0.5,
        job_timeout_s: float | None = None,
        probe_s: float = 0.2,
        idle_grant_s: float = 1.0,
        run_dir: Path | str | None = None,
    ) -> None:
        """``workers``: micro-batches that run at a time; left out: as many as cores, at most 2.

        ``retries``, ``retry_s``: of queries started by ``start``. ``job_timeout_s``: a
        micro-batch is cancelled after so long. ``probe_s``: how often sources are looked at.
        ``idle_grant_s``: how often a query whose backlog cannot be seen may look for itself.
        ``run_dir``: keeps a record for ``daybreak report`` and ``daybreak whatif``, and events;
        left out: nothing is written.
        """
        chosen = chosen_policy(policy)
        refuse_options(spark, workers, probe_s, idle_grant_s)
        session = refuse_second(spark, _GOVERNORS)
        book = classes if isinstance(classes, ClassBook) else ClassBook(classes or {})
        limits = Limits(retries=retries, retry_s=retry_s, job_timeout_s=job_timeout_s or NO_LIMIT_S)
        self.spark = spark
        self.spark_version = spark.version
        self.name: str = name
        self.workers = workers or max(1, min(2, os.cpu_count() or 1))
        before = list(spark.streams.active)
        self._files = None if run_dir is None else GovernorFiles(Path(run_dir), name)
        events = None if self._files is None else self._files.events
        self._clock = ExitStack()
        self._clock.enter_context(CLOCK.held())
        self._log = GovernorLog(name, CLOCK.now_ns(), events)
        #: Why nothing can be governed here; None where Spark is as expected.
        self.unable: str | None = None
        self._report: RunReport | None = None
        self._probe_s = probe_s
        self._bridge = self._open()
        self._driver = GovernedDriver(
            self._bridge, chosen, book, self._log.emit,
            workers=self.workers, seed=seed, limits=limits, idle_grant_s=idle_grant_s,
        )  # fmt: skip
        self._roster = self._driver.roster
        about, emit = partial(manifest_of, self, self._driver), self._log.emit
        self._record = begin_record(self._files, self._roster, self.workers, about, emit)
        self._driver.record = self._record
        for query in before:
            self._driver.let_free(str(query.runId), query.name or str(query.id), BEFORE)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"daybreak-{what}", daemon=True)
            for what, target in (("governor", self._driver.run), ("probe", self._probe))
        ]
        for thread in self._threads:
            thread.start()
        if self._files is not None:
            self._files.listen(self)
        _GOVERNORS[session] = self

    def _open(self) -> Bridge:
        """The capability check: where Spark is not as expected, its queries run free."""
        version = self.spark_version
        try:
            bridge = Bridge(self.spark)
        except (Py4JError, TypeError, AttributeError) as error:
            self.unable = one_line_of(error)
            self._log.emit(
                "cannot-govern", f"Spark {version}: {self.unable}", level=logging.WARNING
            )
            return NoBridge()
        self._log.emit("governing", f"Spark {version}")
        return bridge

    def _probe(self) -> None:
        """On a thread of its own: a broker that does not answer holds up no grant."""
        with suppress(Py4JError, OSError):  # the JVM has ended
            while not self._ended.wait(self._probe_s) and not self._driver.stopped:
                self._bridge.probe()

    # Classes

    @contextmanager
    def query_class(self, cls: str) -> Iterator[None]:
        """Queries that this thread starts inside belong to this class."""
        with self._property(CLASS_PROPERTY, self._roster.book.known(cls)):
            yield

    @contextmanager
    def _property(self, key: str, value: str) -> Iterator[None]:
        # Spark hands a thread's properties to the threads of the queries it starts.
        context = self.spark.sparkContext
        before = context.getLocalProperty(key)
        context.setLocalProperty(key, value)
        try:
            yield
        finally:
            context.setLocalProperty(key, before)  # type: ignore[arg-type]  # None removes it

    def assign(self, query: str, cls: str, qos: Qos | None = None) -> None:
        """Queries of this name, or of names like it (``fire-*``), belong to this class.

        Holds for those that run and those that come. ``qos``: their graph, else the class's.
        """
        roster, given = self._roster, Assignment(query, cls, graph_of(qos))
        roster.book.known(cls)
        moved: list[ChangeNote] = []
        self._do(lambda: moved.extend(roster.assign(given)))
        if not moved:  # it is for queries that come
            moved.append(ChangeNote("query-class", query, None, cls))
        for entry in moved:
            self._log.changed(*entry)

    def change_class_priority(self, cls: str, priority: float) -> None:
        """Gives a class another priority, above 0; takes effect at the next decision."""
        driver, roster = self._driver, self._roster
        was = roster.book.declared[roster.book.known(cls)].priority
        QueryClass(name=cls, priority=priority)  # refuses what no class may have

        def change() -> None:
            roster.reclassify(cls, float(priority))
            if roster.engine is not None:
                driver.feed(SetPriority(roster.class_index(cls), float(priority)))

        self._do(change)
        self._log.changed("class-priority", cls, was, priority)

    def set_policy(self, policy: str | BasePolicy) -> None:
        """Continues under another policy; micro-batches under way end as they are."""
        chosen, was = chosen_policy(policy), self.policy.name
        self._do(lambda: self._roster.switch(SwitchPolicy(chosen)))
        self._log.changed("policy", chosen.name, was, dict(chosen.settings()))

    # Queries

    def start(
        self,
        writer: DataStreamWriter | Callable[[], StreamingQuery],
        cls: str | None = None,
    ) -> StreamingQuery:
        """Starts a query that is started again with backoff when it fails, then parked.

        ``writer``: what ``.start()`` is called on, or a function that starts it. It must name a
        checkpoint location, or a restart begins from nothing.
        """
        begin: Callable[[], StreamingQuery] = writer if callable(writer) else writer.start
        token = f"restart-{next(_TOKENS)}"
        own = None if cls is None else self._roster.book.known(cls)

        def restart() -> StreamingQuery:
            with self._property(RESTART_PROPERTY, token):
                if own is None:
                    return begin()
                with self.query_class(own):
                    return begin()

        self._driver.restarts[token] = restart
        return restart()

    def pause(self, query: str) -> None:
        """Grants a query no further micro-batch; what arrives waits in its source."""
        governed = self._query(query)
        self._command(governed, Pause(governed.box))
        self._log.changed("paused", query, "running", "paused")

    def resume(self, query: str) -> None:
        """Ends a pause, or gives a parked query another chance."""
        governed = self._query(query)
        if governed.failed is not None:
            raise ConfigError(
                f"query {query!r}",
                f"has failed ({governed.failed}), and only your program can start it again",
                "start it again there; queries started by Governor.start are restarted",
            )
        self._command(governed, Resume(governed.box))
        self._log.changed("resumed", query, "paused", "running")

    def _command(self, governed: Governed, event: Event) -> None:
        if governed.box < 0:
            raise ConfigError(f"query {governed.name!r}", "is only just starting", "try again")
        self._do(lambda: self._driver.feed(event))

    # What it knows

    @property
    def policy(self) -> PolicyView:
        """The policy that decides now."""
        return self._roster.policy

    @property
    def governed(self) -> tuple[str, ...]:
        """Queries that wait for their grants; none once the governor has failed or was stopped."""
        if self._driver.stopped:
            return ()
        return tuple(name for name, q in list(self._roster.queries.items()) if q.run is not None)

    @property
    def free(self) -> dict[str, str]:
        """Queries that run as Spark runs them, and why."""
        if self._driver.failure is not None:
            why = f"the governor has failed: {one_line_of(self._driver.failure)}"
            free = {q.name: q.why for q in list(self._driver.free.values())}
            return {n: why for n, q in list(self._roster.queries.items()) if q.run} | free
        if self.unable is None:
            return {q.name: q.why for q in list(self._driver.free.values())}
        with suppress(Py4JError):  # the application has ended
            return {q.name or str(q.id): self.unable for q in self.spark.streams.active}
        return {}

    @property
    def changes(self) -> list[dict[str, object]]:
        """What was changed since the start, in order."""
        return self._log.changes.entries

    @property
    def failures(self) -> dict[str, str]:
        """Queries that get no grants because they failed or hang, with why."""
        return self._roster.failures()

    @property
    def ended(self) -> bool:
        """Whether it was stopped, or its Spark application has ended."""
        # PySpark knows of the end before the gates report it.
        context = getattr(self.spark.sparkContext, "_jsc", None)
        return self._driver.stopped or context is None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the governor was made."""
        return (CLOCK.now_ns() - self._roster.start_ns) / 1e9

    def snapshot(
        self, jobs_after: int = -1, points_after: int = -1, changes_after: int = -1
    ) -> Snapshot:
        """The status now, with its last minutes; of lists that grow, only the newer entries."""
        shown = Shown(self.name, self.elapsed_s, self.workers, self.free, self._log.changes)
        return take_snapshot(shown, self._roster, jobs_after, points_after, changes_after)

    def report(self) -> RunReport:
        """The record so far; after ``stop``, the whole record."""
        if self._report is not None:
            return self._report
        # Also of a governor whose loop has failed: what it knew until then.
        self._driver.ask(self._record.take).result(timeout=PATIENCE_S)
        return self._record.read()

    @property
    def folder(self) -> Path | None:
        """The run directory; None: there is none."""
        return None if self._files is None else self._files.root

    # Its end

    def stop(self) -> RunReport:
        """Opens all gates: queries run free again, and later ones are free. Idempotent."""
        if self._report is not None:
            return self._report
        try:
            self._report = self.report()
        finally:  # also where there is no room for a report
            self._let_go()
        return self._report

    def _let_go(self) -> None:
        self._ended.set()
        with suppress(Py4JError, OSError):  # the JVM has ended before
            self._driver.stop()
            self._bridge.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if self._files is not None:
            self._files.close()
        self._clock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        counts = f"{plural(len(self.governed), 'query', 'queries')} governed, {len(self.free)} free"
        state = "stopped" if self._report is not None else f"for {duration(self.elapsed_s)}"
        return f"<Governor under {self.policy.name} {state}: {counts}>"

    def _repr_html_(self) -> str:
        """For notebooks: the queries now, or the figures by class once it is stopped."""
        if self._report is not None:
            return self._report._repr_html_()
        return snapshot_html(repr(self).strip("<>"), self.snapshot())

    def _do(self, change: Callable[[], None]) -> None:
        """On the loop's thread, between two decisions."""
        if self._driver.failure is not None:
            raise self._driver.failure
        self._driver.ask(change).result(timeout=PATIENCE_S)

    def _query(self, name: str) -> Governed:
        known = self._roster.queries
        if name in known:
            return known[name]
        if name in self.free:
            raise ConfigError(
                f"query {name!r}", f"is not governed ({self.free[name]})", "stop it in your program"
            )
        raise ConfigError(f"query {name!r}", "is not running", suggestion(name, known))


def govern(
    spark: SparkSession,
    policy: str | BasePolicy = "planned",
    classes: Mapping[str, float] | ClassBook | None = None,
    **options: Any,
) -> Governor:
    """Governs the streaming queries that this session starts from now on.

    ``policy``: a name that ``daybreak policies`` lists, or a policy. ``classes``: priorities by
    class, the larger the more important. ``options``: those of ``Governor``, such as ``workers``.
    Queries that run already are left as they are. Stop the governor, or use it in a ``with`` block,
    to let all queries run free again. ``ConfigError`` if a value makes no sense.
    """
    return Governor(spark, policy, classes, **options)
