"""The state of a running system: what policies are shown, and executors keep up to date."""

from __future__ import annotations

from daybreak.model.network import Network


class SystemState:
    """Queues, estimates and current declarations, by index. Implements the policies' ``View``.

    Executors write it, policies only read it. Plain lists: this is the simulator's hot path.
    """

    def __init__(self, network: Network, workers: int = 1, *, rides: bool = False) -> None:
        boxes = len(network.boxes)
        self.network = network
        self.workers = workers
        self.rides = rides
        self.pending = [0] * boxes
        self.head_ns = [0] * boxes
        self.arrival_sum_ns = [0] * boxes
        self.running = [False] * boxes
        self.cost_ns = [float(b.cost_ns) for b in network.boxes]
        self.selectivity = [b.selectivity for b in network.boxes]
        self.class_priority = [c.priority for c in network.classes]
        self.query_class = [network.class_of(q) for q in range(len(network.queries))]
        self.query_weight = [q.weight for q in network.queries]
        # What happened so far, per box.
        self.calls = [0] * boxes
        self.tuples_in = [0] * boxes
        self.tuples_out = [0] * boxes
        self.work_ns = [0] * boxes

    def refine(self, box: int, taken: int, emitted: int, work_ns: int) -> None:
        """A box call ended: lets the box's estimates follow what was measured."""
        # An exponential mean weighted by tuples: follows drift, and a constant stays exact.
        share = taken / (taken + MEMORY_TUPLES)
        self.cost_ns[box] += (work_ns / taken - self.cost_ns[box]) * share
        self.selectivity[box] += (emitted / taken - self.selectivity[box]) * share


#: Estimates remember about so many tuples.
MEMORY_TUPLES = 1000
