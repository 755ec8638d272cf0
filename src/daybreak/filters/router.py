"""The asyncio router: tuples in, those that every service lets pass out.

    async with Router([users, stock, fraud]) as router:
        async for passed in router.run(tuples):
            ...

The decisions are the routers' of `daybreak.filters.routers`, the same objects the simulator
drives; this file only starts calls and takes their results.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Literal

from daybreak.filters.capacity import CallTicket, OnlineEstimator
from daybreak.filters.declared_filters import check_names
from daybreak.filters.dependencies import Dependencies
from daybreak.filters.dispatch import Call, Counts, Dispatcher, going_on
from daybreak.filters.estimates import Estimates
from daybreak.filters.probing import measure_replica
from daybreak.filters.replica_health import ReplicaState, ServiceState
from daybreak.filters.routers import make_router
from daybreak.filters.services.base import Service, ServiceUnavailable
from daybreak.model.errors import ConfigError, DaybreakError

#: Estimators by service and replica.
Learned = list[list[OnlineEstimator]]

log = logging.getLogger("daybreak.filters")


@dataclass(frozen=True, slots=True)
class Passed:
    """A tuple that all filters let pass, or one of them where one is enough."""

    tuple: Any
    #: What each service that let it pass returned, by name: the joined row, say.
    found: dict[str, Any]
    #: From reading the tuple to the last filter's answer.
    latency_s: float


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that came to nothing; its tuples wait for another try."""

    service: str
    replica: str
    error: str
    #: Whether the service still has a replica that is up.
    others_up: bool


class FilterFailed(DaybreakError):
    """A service answered with an error that a retry cannot fix, or stayed dead."""


class Router:
    """Routes tuples through services; what it learns of them it keeps from run to run."""

    def __init__(
        self,
        services: Sequence[Service],
        *,
        router: str = "free-first",
        window: int = 256,
        batch: int = 1,
        any_of: bool = False,
        capacity: Literal["online", "probe"] = "online",
        give_up_s: float | None = None,
        on_failure: Callable[[CallFailure], None] | None = None,
        on_decision: Callable[[Any, bool, float], None] | None = None,
        learned: Learned | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """At most ``window`` tuples are read and not yet decided and taken.

        With ``any_of`` one service that lets a tuple pass is enough, and the others are not asked.
        ``on_decision(tuple, passed, latency_s)`` hears of dropped tuples, too. With ``give_up_s``
        a service that is dead for longer ends the run with `FilterFailed`; by default its tuples
        wait for it. ``capacity="probe"`` measures services without declared threads as the
        report does (it empties them first) instead of learning from traffic. ``learned`` is
        what another router of the same services left behind.
        """
        check_names([s.name for s in services])
        if window < 1 or batch < 1:
            raise ConfigError(
                "router", f"window {window}, batch {batch}", "give at least 1 for both"
            )
        self.services = tuple(services)
        self.router = router
        self.window = window
        self.batch = batch
        self.any_of = any_of
        self.give_up_s = give_up_s
        self.on_failure = on_failure
        self.on_decision = on_decision
        self.clock = clock
        self.rng = Random(f"{seed}/routes")
        self.dependencies = Dependencies(
            [s.name for s in services], {s.name: s.after for s in services}
        )
        self.states = [ServiceState.of(s, capacity == "probe", any_of) for s in services]
        if learned is not None:
            for state, estimators in zip(self.states, learned, strict=True):
                for replica, estimator in zip(state.replicas, estimators, strict=True):
                    replica.estimator = estimator
        self.estimates = Estimates([s.estimate for s in self.states])
        #: Of the run that was started last; one runs at a time.
        self.counts = Counts()
        self.running = False
        # Refused here rather than when the first tuple is on its way.
        Dispatcher(make_router(router), self.estimates, self.dependencies, self.rng, any_of=any_of)

    def run(self, tuples: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Passed]:
        """The tuples that pass, each once, in the order of their decisions.

        Leaving the loop early cancels what is on its way, at once if the iterator is closed
        (``contextlib.aclosing``).
        """
        return _Run(self, tuples).results()

    @property
    def learned(self) -> Learned:
        """What it knows of each replica, to start another router with."""
        return [[r.estimator for r in s.replicas] for s in self.states]

    async def close(self) -> None:
        for state in self.states:
            for r in state.replicas:
                await r.replica.close()

    async def __aenter__(self) -> Router:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class _Run:
    """One stream of tuples on its way through a router's services."""

    def __init__(self, router: Router, tuples: Iterable[Any] | AsyncIterable[Any]) -> None:
        self.router = router
        self.tuples = tuples
        self.dispatcher = Dispatcher(
            make_router(router.router),
            router.estimates,
            router.dependencies,
            router.rng,
            router.batch,
            router.any_of,
        )
        self.counts = self.dispatcher.counts
        self.out: deque[Passed] = deque()
        self.exhausted = False
        self.error: BaseException | None = None
        #: Calls under way for each undecided tuple.
        self.calls: dict[int, dict[Call, asyncio.Task[None]]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.asked: dict[asyncio.Task[None], tuple[Call, ReplicaState, CallTicket]] = {}
        self.stopping = False
        self.retry: asyncio.TimerHandle | None = None
        self.sample: Any = None

    async def results(self) -> AsyncIterator[Passed]:
        if self.router.running:
            # A thread freed by one run would not wake the other.
            raise ConfigError("router", "has a run under way", "end it, or make another router")
        self.router.running = True
        self.router.counts = self.counts
        self.changed, self.room = asyncio.Event(), asyncio.Event()
        self._spawn(self._feed())
        try:
            while True:
                while self.out and self.error is None:
                    passed = self.out.popleft()
                    self.room.set()
                    yield passed
                if self.error is not None:
                    raise self.error
                if self.exhausted and self.counts.undecided == 0:
                    return
                self.changed.clear()
                await self.changed.wait()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self.stopping = True
        if self.retry is not None:
            self.retry.cancel()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.router.running = False

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        asked = self.asked.pop(task, None)
        if task.cancelled():
            # Booked here, not in the coroutine: a task may be cancelled before its first step.
            if asked is not None:
                call, replica, ticket = asked
                replica.cancelled(ticket)
                self.dispatcher.fail(call)
                self._pump_later()
        elif (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self.error = self.error or error
        self.changed.set()

    # What comes in.

    async def _feed(self) -> None:
        if isinstance(self.tuples, AsyncIterable):
            async for value in self.tuples:
                await self._accept(value)
        else:
            for value in self.tuples:
                await self._accept(value)
        self.exhausted = True
        self.changed.set()

    async def _accept(self, value: Any) -> None:
        t = self.dispatcher.arrive(value, self.router.clock())
        self.calls[t.sequence] = {}
        self.sample = value
        self._pump()
        # Before the next tuple is read, so that none is taken from a source and then held.
        while self.counts.undecided + len(self.out) >= self.router.window:
            self.room.clear()
            await self.room.wait()

    # What goes to the services.

    def _pump(self) -> None:
        """Starts every call that can start; runs after anything that may have freed one."""
        now_s = self.router.clock()
        states = self.router.states
        for call in self.dispatcher.assign([s.free(now_s) for s in states]):
            replica = states[call.filter].choose(now_s)
            ticket = replica.started(now_s)
            task = self._spawn(self._ask(call, replica, ticket))
            self.asked[task] = call, replica, ticket
            for t in call.tuples:
                self.calls[t.sequence][call] = task
        self._measure(now_s)
        self._plan_retry(now_s)

    def _pump_later(self) -> None:
        """From a callback, where an error would otherwise reach nobody."""
        if self.stopping:
            return
        try:
            self._pump()
        except Exception as error:
            self._break(error)

    def _plan_retry(self, now_s: float) -> None:
        states = self.router.states
        times = [at for s in states if (at := s.next_retry_s(now_s)) is not None]
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None
        if times and self.counts.undecided:
            self.retry = asyncio.get_running_loop().call_later(min(times) - now_s, self._pump_later)

    async def _ask(self, call: Call, replica: ReplicaState, ticket: CallTicket) -> None:
        service = self.router.services[call.filter]
        try:
            async with asyncio.timeout(service.timeout_s):
                results = list(await replica.replica.ask([t.value for t in call.tuples]))
            if len(results) != len(call.tuples):
                raise ValueError(f"{len(results)} results for {len(call.tuples)} tuples")
        except (ServiceUnavailable, TimeoutError) as error:
            self._failed(call, replica, ticket, error)
        except Exception as error:
            replica.cancelled(ticket)
            text = str(error) if isinstance(error, DaybreakError) else repr(error)
            asked = replica.replica
            raise FilterFailed(
                f"service {service.name!r}: {asked.redacted(text)}"
            ) from asked.shown_cause(error)
        else:
            now_s = self.router.clock()
            replica.finished(ticket, now_s, going_on(results, self.router.any_of))
            self._learned(call.filter, now_s)
            self._decide(call, results, now_s)
        self._pump()

    def _learned(self, filter_: int, now_s: float) -> None:
        state = self.router.states[filter_]
        state.observe(now_s)
        self.router.estimates.update(filter_, state.estimate)

    def _decide(self, call: Call, results: list[Any], now_s: float) -> None:
        for t in call.tuples:
            if not t.decided:
                del self.calls[t.sequence][call]
        for t in self.dispatcher.finish(call, results):
            for other, task in self.calls.pop(t.sequence).items():
                if self.router.services[other.filter].cancellable and other.pointless:
                    task.cancel()
            passed = self.dispatcher.accepted(t)
            latency_s = now_s - t.arrived_s
            if passed:
                names = [s.name for s in self.router.services]
                found = {names[i]: t.found[i] for i in sorted(t.found)}
                self.out.append(Passed(t.value, found, latency_s))
            if self.router.on_decision is not None:
                self.router.on_decision(t.value, passed, latency_s)
        self.changed.set()
        self.room.set()

    # What goes wrong.

    def _failed(
        self, call: Call, replica: ReplicaState, ticket: CallTicket, error: BaseException
    ) -> None:
        now_s = self.router.clock()
        state = self.router.states[call.filter]
        message = (
            replica.replica.redacted(str(error))
            or f"no answer within {state.service.timeout_s:g} s"
        )
        replica.failed(ticket, now_s, message)
        self._learned(call.filter, now_s)
        for t in call.tuples:
            if not t.decided:
                del self.calls[t.sequence][call]
        self.dispatcher.fail(call)
        failure = CallFailure(
            state.service.name,
            replica.replica.address,
            message,
            any(r.up for r in state.replicas),
        )
        log.warning(
            "filter service %s: %s (%s)",
            failure.service,
            failure.error,
            "another replica takes over" if failure.others_up else "its tuples wait",
        )
        if self.router.on_failure is not None:
            self.router.on_failure(failure)
        patience_s, dead_s = self.router.give_up_s, state.dead_since_s
        if patience_s is not None and dead_s is not None and now_s - dead_s >= patience_s:
            self._break(FilterFailed(f"service {failure.service!r} is dead: {message}"))

    # The report's way of measuring capacity.

    def _measure(self, now_s: float) -> None:
        if self.sample is None:
            return
        for state in self.router.states:
            for r in state.replicas:
                if r.trigger is None or not r.up:
                    continue
                if not r.draining and r.trigger.due(now_s):
                    r.draining = True
                    self._spawn(self._measured(r, self.sample))

    async def _measured(self, replica: ReplicaState, sample: Any) -> None:
        assert replica.trigger is not None
        try:
            while replica.in_flight > 0:  # empty the network (section 4.2, step 1)
                await self._anything_finished()
            previous = replica.measured.threads if replica.measured else 1
            replica.measured = await measure_replica(
                replica.replica, sample, previous, self.router.clock
            )
        except ServiceUnavailable as error:
            seen = replica.replica.redacted(str(error))
            log.warning("capacity of %s not measured: %s", replica.replica.address, seen)
        finally:
            replica.trigger.measured(self.router.clock())
            replica.draining = False
        self._pump()

    async def _anything_finished(self) -> None:
        waiting = [t for t in self.tasks if t is not asyncio.current_task()]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
