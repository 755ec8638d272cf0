"""The state of a running system: what policies are shown, and executors keep up to date."""

from __future__ import annotations

from collections.abc import Callable

from daybreak.model.network import Network
from daybreak.model.weights import weights_by_subscribers
from daybreak.policies.base import Cell, JobCost, ProcessorUse


class SystemState:
    """Queues, estimates and current declarations, by index. Implements the policies' ``View``.

    Executors write it, policies only read it. Plain lists: this is the simulator's hot path.
    """

    def __init__(
        self,
        network: Network,
        workers: int = 1,
        *,
        express: int = 0,
        rides: bool = False,
        polls: bool = False,
    ) -> None:
        """``express`` workers come on top; policies are not asked about them."""
        boxes = len(network.boxes)
        self.network = network
        self.workers = workers
        self.express = express
        self.processor: ProcessorUse | None = None
        self.rides = rides
        self.polls = polls
        self.pending = [0] * boxes
        self.head_ns = [0] * boxes
        self.arrival_sum_ns = [0] * boxes
        self.running = [False] * boxes
        self.cost_ns = [float(b.cost_ns) for b in network.boxes]
        self.selectivity = [b.selectivity for b in network.boxes]
        self.class_priority = [c.priority for c in network.classes]
        self.query_class = [network.class_of(q) for q in range(len(network.queries))]
        self.query_weight = [q.weight for q in network.queries]
        #: Of the queries whose weight follows it.
        self.subscribers = {
            i: q.subscribers for i, q in enumerate(network.queries) if q.subscribers is not None
        }
        # What happened so far, per box.
        self.calls = [0] * boxes
        self.tuples_in = [0] * boxes
        self.tuples_out = [0] * boxes
        self.work_ns = [0] * boxes

    @property
    def arrived(self) -> list[int]:
        """Tuples that came to each box so far; those that are being worked on are left out."""
        return [n + done for n, done in zip(self.pending, self.tuples_in, strict=True)]

    @property
    def cells(self) -> list[Cell]:
        """Every query by itself: a call of its boxes costs no more than its tuples do."""
        boxes, costs = self.network.boxes, self.cost_ns
        return [
            Cell((q,), JobCost(sum(boxes[b].call_ns for b in of), sum(costs[b] for b in of)))
            for q, of in enumerate(self.network.query_boxes)
        ]

    @property
    def threads(self) -> int:
        """Workers, express ones included."""
        return self.workers + self.express

    def adopt(self, network: Network) -> None:
        """Takes a network that has further queries, each one box, at its end.

        What is known keeps its index and its figures.
        """
        for b in range(len(self.pending), len(network.boxes)):
            for figures in (self.pending, self.head_ns, self.arrival_sum_ns, self.calls):
                figures.append(0)
            for figures in (self.tuples_in, self.tuples_out, self.work_ns):
                figures.append(0)
            self.running.append(False)
            self.cost_ns.append(float(network.boxes[b].cost_ns))
            self.selectivity.append(network.boxes[b].selectivity)
        for q in range(len(self.query_class), len(network.queries)):
            self.query_class.append(network.class_of(q))
            self.query_weight.append(network.queries[q].weight)
        self.network = network

    def subscribed(self, query: int, count: int) -> list[int]:
        """A query has so many subscribers now; returns the queries whose weights changed.

        Weights are shares of the largest number, so they may all change with one.
        """
        self.subscribers[query] = count
        weights = weights_by_subscribers(self.subscribers)
        changed = [q for q, weight in weights.items() if weight != self.query_weight[q]]
        for q in changed:
            self.query_weight[q] = weights[q]
        return changed

    def refine(self, box: int, taken: int, emitted: int, work_ns: int) -> None:
        """A box call ended: lets the box's estimates follow what was measured."""
        # An exponential mean weighted by tuples: follows drift, and a constant stays exact.
        share = taken / (taken + MEMORY_TUPLES)
        self.cost_ns[box] += (work_ns / taken - self.cost_ns[box]) * share
        self.selectivity[box] += (emitted / taken - self.selectivity[box]) * share


class JobState(SystemState):
    """The state where queries are one box each and run as jobs, which others may join."""

    def __init__(self, network: Network, workers: int = 1, *, express: int = 0) -> None:
        super().__init__(network, workers, express=express, rides=True)
        self._arrived = [0] * len(network.boxes)
        #: Which queries run together; set by the compositor that forms the groups.
        self.cells_now: Callable[[], list[Cell]] = list

    @property
    def arrived(self) -> list[int]:
        return self._arrived

    @property
    def cells(self) -> list[Cell]:
        return self.cells_now()

    def adopt(self, network: Network) -> None:
        super().adopt(network)
        self._arrived += [0] * (len(network.boxes) - len(self._arrived))

    def renew(self, query: int) -> None:
        """Another query than before may have this index: it is as it was declared."""
        box, declared = self.network.boxes[query], self.network.queries[query]
        self.query_class[query] = self.network.class_of(query)
        self.query_weight[query] = declared.weight
        self.subscribers.pop(query, None)
        self.cost_ns[query] = float(box.cost_ns)
        self.selectivity[query] = box.selectivity


#: Estimates remember about so many tuples.
MEMORY_TUPLES = 1000
