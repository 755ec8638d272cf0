"""Views show others how an engine stands: they are frozen, so that any thread may read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from daybreak.engine.core import Core
from daybreak.engine.events import (
    Event,
    Ingested,
    JobBegan,
    JobEnded,
    RangeArrived,
    SegmentArrived,
    SourceShows,
    WatermarkRaised,
    Woke,
)
from daybreak.engine.queries import QueryFacts, State
from daybreak.model.network import Network
from daybreak.policies.base import BasePolicy

#: Events after which only numbers have changed, if they report no failure. A retry that is due
#: may be shown as late as a number.
_NUMBERS_ONLY = (
    Woke, SegmentArrived, WatermarkRaised, RangeArrived, SourceShows, Ingested, JobBegan,
)  # fmt: skip


class SystemFigures(Protocol):
    """Figures that reports are made of come from a view, or from the state of a simulation."""

    @property
    def network(self) -> Network: ...
    @property
    def workers(self) -> int: ...
    @property
    def express(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def pending(self) -> Sequence[int]: ...
    @property
    def calls(self) -> Sequence[int]: ...
    @property
    def tuples_in(self) -> Sequence[int]: ...
    @property
    def tuples_out(self) -> Sequence[int]: ...
    @property
    def work_ns(self) -> Sequence[int]: ...
    @property
    def cost_ns(self) -> Sequence[float]: ...
    @property
    def selectivity(self) -> Sequence[float]: ...
    @property
    def class_priority(self) -> Sequence[float]: ...
    @property
    def query_class(self) -> Sequence[int]: ...
    @property
    def query_weight(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A policy as others see it: the one that decides now."""

    name: str
    parameters: Mapping[str, Any]
    #: What the report of a run that began at this instant says of it. Any thread may call it.
    report: Callable[[int], Mapping[str, Any]]

    @classmethod
    def of(cls, policy: BasePolicy) -> PolicyView:
        return cls(policy.name, policy.settings(), policy.told)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """A view shows everything at one instant, between two events; sequences are by query or class.

    ``Engine.view`` is never behind in what operators and failures change; its numbers are at most
    ``Settings.view_every_ns`` old while events come, and a tick of the loop while none do.
    """

    at_ns: int
    network: Network
    workers: int
    express: int
    policy: PolicyView
    facts: Sequence[QueryFacts]
    states: Sequence[State]
    #: What each query said when it last failed, while that still matters.
    errors: Sequence[str | None]
    #: Failures of each query since its last success.
    failures: Sequence[int]
    #: Whether a worker has the query, or is about to.
    in_job: Sequence[bool]
    #: Tuples that wait for each query, held or not, and when the oldest arrived (0: none waits).
    waiting: Sequence[int]
    oldest_ns: Sequence[int]
    #: Of queries over several streams: the tuples that wait, by stream.
    waiting_by_stream: Mapping[int, Mapping[str, int]]
    #: Tuples that wait for each query and may be answered now.
    pending: Sequence[int]
    #: What happened so far.
    arrived: Sequence[int]
    calls: Sequence[int]
    tuples_in: Sequence[int]
    tuples_out: Sequence[int]
    work_ns: Sequence[int]
    #: Estimates as measured.
    cost_ns: Sequence[float]
    selectivity: Sequence[float]
    #: What operators may change.
    class_priority: Sequence[float]
    query_class: Sequence[int]
    query_weight: Sequence[float]
    subscribers: Mapping[int, int]
    #: The first segment that has not been handed to the queries, and rows so far, by stream.
    next_seq: Mapping[str, int]
    arrived_rows: Mapping[str, int]

    @property
    def threads(self) -> int:
        """Workers, express ones included."""
        return self.workers + self.express

    def by_stream(self, query: int) -> Mapping[str, int]:
        """Tuples that wait for a query, by the stream they came from."""
        found = dict.fromkeys(self.facts[query].reads, 0)
        if len(found) == 1:
            return dict.fromkeys(found, self.waiting[query])
        return {**found, **self.waiting_by_stream[query]}

    @property
    def parked(self) -> dict[str, str]:
        """Queries that have failed too often, by name, and what they said."""
        each = zip(self.facts, self.states, self.errors, strict=True)
        return {facts.name: error or "" for facts, state, error in each if state == "parked"}


def view_of(core: Core, next_seq: Mapping[str, int], arrived_rows: Mapping[str, int]) -> EngineView:
    """The view of this moment, by the thread that owns the engine."""
    state, queries, policy = core.state, core.queries, core.policy
    status, inboxes, facts = queries.status, queries.inboxes, tuple(queries.facts)
    return EngineView(
        at_ns=core.now_ns,
        network=state.network,
        workers=state.workers,
        express=state.express,
        policy=PolicyView.of(policy),
        facts=facts,
        states=tuple([s.state for s in status]),
        errors=tuple([s.error for s in status]),
        failures=tuple([s.failures for s in status]),
        in_job=tuple([queries.in_job(box) for box in range(len(facts))]),
        waiting=tuple([inbox.tuples for inbox in inboxes]),
        oldest_ns=tuple([inbox.head_ns for inbox in inboxes]),
        waiting_by_stream={
            box: inboxes[box].by_stream.copy() for box, f in enumerate(facts) if len(f.reads) > 1
        },
        pending=tuple(state.pending),
        arrived=tuple(state.arrived),
        calls=tuple(state.calls),
        tuples_in=tuple(state.tuples_in),
        tuples_out=tuple(state.tuples_out),
        work_ns=tuple(state.work_ns),
        cost_ns=tuple(state.cost_ns),
        selectivity=tuple(state.selectivity),
        class_priority=tuple(state.class_priority),
        query_class=tuple(state.query_class),
        query_weight=tuple(state.query_weight),
        subscribers=state.subscribers.copy(),
        next_seq=dict(next_seq),
        arrived_rows=dict(arrived_rows),
    )


def changes_numbers_only(event: Event) -> bool:
    """Whether readers may hear of it a moment later."""
    if isinstance(event, JobEnded):
        return event.failure is None and not any(done.behind for done in event.done)
    return isinstance(event, _NUMBERS_ONLY)
