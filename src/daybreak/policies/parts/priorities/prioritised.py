"""Base of policies that run the query of the highest priority, kept in a calendar queue.

A scheduling point is a query that ends. Only queries that received updates since the last point,
or ran, are given a new priority (fas-mcq-paper 4.5); without news, taking the next query off the
calendar is no run of the scheduler proper.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.parts.queues.calendar_queue import CalendarQueue
from daybreak.policies.parts.queues.growing_tables import put
from daybreak.policies.parts.queues.trains import TrainParams

Drain = Literal["one", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainParams(TrainParams):
    """Parameters of policies that choose queries by priority."""

    #: Whether a chosen query takes one pending update through its boxes, or all of them.
    drain: Drain = "all"

    def __post_init__(self) -> None:
        TrainParams.__post_init__(self)
        if self.drain not in ("one", "all"):
            raise ConfigError("policy", f"drain {self.drain!r}", 'give "one" or "all"')


class PrioritisedQueries(BasePolicy):
    """Subclasses implement ``priority``."""

    granularity = "query"
    Params: ClassVar[type[Any]] = DrainParams
    params: DrainParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._read_network()
        network = view.network
        queries = range(len(network.queries))
        self._calendar = CalendarQueue(len(queries))
        #: Queries with updates since the last scheduling point, and queries that ran since.
        self._news: set[int] = {
            q for q in queries if any(view.pending[b] for b in network.query_boxes[q])
        }
        self._ran: set[int] = set()
        #: The query under way on each worker.
        self._out: dict[int, int] = {}
        self._alone = view.workers == 1 and not view.rides
        #: Per query: its boxes, with the outputs and the work (ns) to expect from a tuple there.
        self.expected: list[list[tuple[int, float, float]]] = [[] for _ in queries]
        for q in queries:
            self._estimate(q)

    def _read_network(self) -> None:
        network = self.view.network
        limit = 1 if self.params.drain == "one" else self.params.train or None
        self._plans = [
            Plan(tuple(Step(b, limit) for b in boxes), superbox=True)
            for boxes in network.query_boxes
        ]
        #: Queries that cannot run while this one does: those it shares boxes with, and itself.
        self._rivals = [
            tuple(sorted({r for b in network.query_boxes[q] for r in network.box_queries[b]}))
            for q in range(len(network.queries))
        ]
        #: The boxes of each query from its output backwards, with what each feeds within it.
        self._flow = [
            [(b, [d for d in network.downstream[b] if d in mine]) for b in reversed(boxes)]
            for boxes in network.query_boxes
            for mine in [set(boxes)]
        ]
        self._serves = network.box_queries
        fed = set(network.input_boxes)
        self._fed = [b in fed for b in range(len(network.boxes))]

    def on_query_added(self, query: int, now_ns: int) -> None:
        self._read_network()
        self._calendar.added(query)
        put(self.expected, query, [])
        self._estimate(query)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self._calendar.remove(query)
        self._news.discard(query)
        self._ran.discard(query)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        (self._news if self._fed[box] else self._ran).update(self._serves[box])

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        rivals = self._rivals[self._out.pop(worker)]
        for query in rivals:
            # The estimates of its boxes follow what was measured.
            self._estimate(query)
        self._ran.update(rivals)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        for query in self._serves[box]:
            self._calendar.remove(query)

    def on_change(self, change: Change, now_ns: int) -> None:
        if change.what == "weight":
            self._news.add(change.subject)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        calendar = self._calendar
        if self._news:
            self.work.invocations += 1
            self.work.buckets += len(self._news)
            self._ran |= self._news
            self._news.clear()
        for query in self._ran:
            self._rekey(query)
        self._ran.clear()
        best = calendar.best()
        if best is None:
            return None
        for query in self._rivals[best]:
            calendar.remove(query)
        self._out[worker] = best
        return self._plans[best]

    @abstractmethod
    def priority(self, query: int) -> float:
        """Of a query that has pending updates: the highest goes first."""

    def _rekey(self, query: int) -> None:
        pending, running = self.view.pending, self.view.running
        boxes = self.view.network.query_boxes[query]
        if not self._alone and any(running[b] for b in boxes):
            return  # it comes back with its completion
        if any(pending[b] for b in boxes):
            self._calendar.put(query, self.priority(query))
        else:
            self._calendar.remove(query)

    def _estimate(self, query: int) -> None:
        """S and C^avg of what is ahead of a tuple at each box of the query (paper, section 2).

        C^avg = c1 + c2 s1 + c3 s1 s2 + ...: from the output backwards, a Horner scheme.
        """
        costs, passes = self.view.cost_ns, self.view.selectivity
        ahead: dict[int, tuple[float, float]] = {}
        for box, further in self._flow[query]:
            outputs, cost_ns = 0.0 if ahead else 1.0, 0.0
            for d in further:
                outputs += ahead[d][0]
                cost_ns += ahead[d][1]
            share = passes[box]
            ahead[box] = share * outputs, costs[box] + share * cost_ns
        # What costs nothing counts as a nanosecond, so that rates stay finite.
        self.expected[query] = [(b, s, max(c, 1.0)) for b, (s, c) in ahead.items()]
