"""Carries out what operators ask for, each request between two scheduling decisions.

One path for all of them: a request (``requests``) becomes an event of the engine, preceded by the
I/O that must come first; the loop's thread does both, and the asker waits for the answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from daybreak.engine.events import (
    AddQuery,
    AssignClass,
    Drop,
    Event,
    Pause,
    Resume,
    SetPriority,
    SetSubscribers,
    SetWeight,
    SwitchPolicy,
)
from daybreak.engine.view import EngineView
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import QueryClass
from daybreak.runtime.eventlog import Emit
from daybreak.runtime.standing import ChangeLog
from daybreak.spark.control.admission import Admission
from daybreak.spark.control.registration import Registration
from daybreak.spark.control.requests import (
    Answer,
    DropQuery,
    PauseQuery,
    RegisterQuery,
    Request,
    ResumeQuery,
    SetClassPriority,
    SetQueryClass,
    SetQuerySubscribers,
    SetQueryWeight,
    UsePolicy,
)
from daybreak.spark.declared.application import usable_on_spark
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.declared.registered import check_query
from daybreak.spark.declared.views import moved_views
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.undeclared import Undeclared
from daybreak.spark.loop.driver import Driver, new_command
from daybreak.spark.sinks.delivery import close as close_sinks
from daybreak.spark.sinks.folder_locks import FolderLocks, announce_unlocked
from daybreak.spark.upkeep.health import Health

#: A request waits for a job to end, at most for so long.
PATIENCE_S = 120.0


class Controller:
    """The operators' side of a run. Any thread may call ``execute``, and waits."""

    def __init__(
        self,
        catalog: Catalog,
        driver: Driver,
        log: CommitLog,
        rundir: RunDirectory,
        undeclared: Undeclared,
        registration: Registration,
        admission: Admission,
        changes: ChangeLog,
        health: Health,
        folders: FolderLocks,
        emit: Emit,
    ) -> None:
        self._catalog = catalog
        self._driver = driver
        self._log = log
        self._rundir = rundir
        self._undeclared = undeclared
        self._registration = registration
        self._admission = admission
        self._changes = changes
        self._health = health
        self._folders = folders
        self._emit = emit
        #: One registration at a time: each measures its query on this machine.
        self._registering = threading.Lock()

    def execute(self, request: Request, by: str = "program") -> Answer:
        """Returns when it holds; ``ConfigError`` if it cannot. ``by``: who asks."""
        self._health.check()
        match request:
            case PauseQuery(query):
                self._pause(query, by)
            case ResumeQuery(query, skip):
                return Answer(skipped=self._resume(query, skip, by))
            case DropQuery(query):
                self._drop(query, by)
            case RegisterQuery():
                with self._registering:
                    return self._register(request, by)
            case SetClassPriority(cls, priority):
                self._set_priority(cls, priority, by)
            case SetQueryClass(query, cls):
                self._assign(query, self._class(cls), by)
                for view, index in moved_views(self._catalog.application, self._view):
                    self._assign(view, index, by)
            case SetQueryWeight(query, weight):
                self._set_weight(query, weight, by)
            case SetQuerySubscribers(query, count):
                self._set_subscribers(query, count, by)
            case UsePolicy(policy, seed):
                usable_on_spark(policy)
                was = self._view.policy.name
                self._ask(lambda: SwitchPolicy(policy, seed))
                self._changes.note(by, "policy", policy.name, was, dict(policy.settings()))
        return Answer()

    def _set_priority(self, cls: str, priority: float, by: str) -> None:
        index = self._class(cls)
        QueryClass(name=cls, priority=priority)  # refuses what no class may have
        was = self._view.class_priority[index]
        self._ask(lambda: SetPriority(index, float(priority)))
        self._changes.note(by, "class-priority", cls, was, priority)

    def _assign(self, query: str, index: int, by: str) -> None:
        box, classes = self._query(query), self._catalog.network.classes
        was = classes[self._view.query_class[box]].name
        self._ask(lambda: AssignClass(box, index))
        self._changes.note(by, "query-class", query, was, classes[index].name)

    def _set_weight(self, query: str, weight: float, by: str) -> None:
        box = self._query(query)
        if not 0 < weight <= 1:
            raise ConfigError(f"query {query!r}", f"weight {weight}", "give one in (0, 1]")
        was = self._view.query_weight[box]
        self._ask(lambda: SetWeight(box, weight))
        self._changes.note(by, "weight", query, was, weight)

    def _set_subscribers(self, query: str, count: int, by: str) -> None:
        box = self._query(query)
        if count < 0:
            raise ConfigError(f"query {query!r}", f"{count} subscribers", "give 0 or more")
        was = self._view.subscribers.get(box)
        self._ask(lambda: SetSubscribers(box, count))
        self._changes.note(by, "subscribers", query, was, count)

    def _pause(self, query: str, by: str) -> None:
        box = self._query(query)

        def make() -> Pause:
            self._log.set_paused(query, paused=True)
            return Pause(box)

        was = self._status(box)
        self._ask(make)
        self._changes.note(by, "paused", query, was, "paused")

    def _resume(self, query: str, skip: bool, by: str) -> int:
        """Whatever held the query, a pause or its failures; returns how many rows it gave up.

        A stream that has stopped is resumed by its name, which no query has.
        """
        if self._health.sources.resume(query):
            self._changes.note(by, "stream-resumed", query, "stopped", "running")
            return 0
        box, number = self._query(query), new_command()

        def after() -> None:
            # Unless it was paused again while this waited for a job to end.
            self._log.set_paused(query, paused=self._status(box) == "paused")

        was = self._status(box)
        answer = self._driver.command(number, lambda: Resume(box, skip, number), after)
        skipped = self._wait(answer)
        value = f"running, {skipped} rows given up" if skipped else "running"
        self._changes.note(by, "resumed", query, was, value)
        return skipped

    def _drop(self, query: str, by: str) -> None:
        if query in self._undeclared.until and not self._is_known(query):
            self._ask(lambda: self._undeclared.forget(query, "dropped"))
            self._changes.note(by, "dropped", query, "undeclared", "dropped")
            return
        box, number = self._query(query), new_command()

        def forget() -> None:
            self._log.drop_query(query)
            self._log.disown(query)
            self._registration.remove(query)

        was = self._status(box)
        self._wait(self._driver.command(number, lambda: Drop(box, number), forget))
        close_sinks({query: self._catalog.sinks[query]})
        self._folders.release(query)
        self._changes.note(by, "dropped", query, was, "dropped")

    def _register(self, request: RegisterQuery, by: str) -> Answer:
        spec = request.spec
        if self._is_known(spec.name):
            raise ConfigError(spec.place, "is registered already", "drop it first, or rename it")
        if spec.name in self._undeclared.until:
            raise ConfigError(
                spec.place,
                "has a place in the streams from an earlier start that declared it",
                "declare it in the pipeline to continue there, drop it first, or rename it",
            )
        runnable = check_query(self._catalog.application, spec, self._rundir)
        verdict = self._admission.judge(runnable, spec)
        if request.dry:
            return Answer(verdict=verdict)
        if not (verdict.admitted or request.force):
            self._emit(
                "admission-refused", f"would ask for {verdict.after:.0%} of what there is",
                level=logging.WARNING, query=spec.name, load=verdict.load, after=verdict.after,
            )  # fmt: skip
            raise ConfigError(
                spec.place,
                f"is not admitted: with it queries would ask for {verdict.after:.0%} of what "
                f"there is ({verdict.load:.0%} without it)",
                "drop or pause others, add workers, or insist with --force",
            )

        def make() -> AddQuery:
            if self._is_known(spec.name):  # by another asker, meanwhile
                raise ConfigError(spec.place, "is registered already", "drop it first")
            unlocked = self._folders.take_all({spec.name: runnable.sink}, {spec.name: spec.place})
            announce_unlocked(self._emit, unlocked)
            try:
                return self._registration.add(spec, runnable, request.start)
            except BaseException:
                self._folders.release(spec.name)
                raise

        self._ask(make)
        self._ask(lambda: self._registration.warm(spec))
        self._changes.note(by, "registered", spec.name, None, request.start)
        self._registration.inflow.start(self._catalog.sources())
        return Answer(verdict=verdict)

    def _ask(self, make: Callable[[], Event | None]) -> None:
        self._wait(self._driver.ask(make))

    def _wait(self, answer: Future[int]) -> int:
        try:
            return answer.result(timeout=PATIENCE_S)
        except TimeoutError:
            self._health.check()
            name = self._catalog.application.name
            raise ConfigError(name, f"did not respond within {PATIENCE_S:g} s", "retry") from None

    def _is_known(self, name: str) -> bool:
        index = self._catalog.network.query_index.get(name)
        # The catalog may be a moment ahead of the engine.
        if index is None or index >= len(self._view.states):
            return False
        return self._status(index) != "dropped"

    def _status(self, box: int) -> str:
        return self._view.states[box]

    @property
    def _view(self) -> EngineView:
        return self._driver.engine.view

    def _query(self, name: str) -> int:
        index = self._catalog.network.query_index
        return _index({n: i for n, i in index.items() if self._is_known(n)}, "query", name)

    def _class(self, name: str) -> int:
        return _index(self._catalog.network.class_index, "class", name)


def _index(known: Mapping[str, int], what: str, name: str) -> int:
    if name not in known:
        raise ConfigError(f"{what} {name!r}", "is not declared", suggestion(name, known))
    return known[name]
