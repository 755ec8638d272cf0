"""Load shedding: which inputs to drop tuples of, and what share (aurora-thesis 5.2).

Under overload something is lost; this decides what. An input is a box fed by a stream: dropping
there saves all the work the tuple would have caused. Of all inputs, those go first that lose the
least utility per unit of CPU time saved; as losses and savings are proportional to what is
dropped, taking inputs in that order loses least of all (a fractional knapsack).

Pure decisions: no clock, no queues, no randomness. Executors count, ask, and drop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from daybreak.engine.express import highest_priority, usable_threads
from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S
from daybreak.model.shedding import SheddingParams

#: Weight of the newest window in the rates.
NEWEST = 0.5


class LoadEstimates(Protocol):
    """What the decision is made from; ``SystemState`` has it all."""

    @property
    def network(self) -> Network: ...
    @property
    def workers(self) -> int: ...
    @property
    def express(self) -> int: ...
    @property
    def cost_ns(self) -> Sequence[float]:
        """Work per tuple of each box; 0 where it is not known."""

    @property
    def selectivity(self) -> Sequence[float]: ...
    @property
    def class_priority(self) -> Sequence[float]: ...
    @property
    def query_class(self) -> Sequence[int]: ...


class Input(NamedTuple):
    """One input: what arrives, what a tuple costs, and what it is worth."""

    rate_per_s: float
    #: CPU time (s) that one tuple causes, over all queries it reaches.
    cost_s: float
    #: Utility that one tuple brings, over all queries it reaches.
    worth: float

    @property
    def loss_per_s(self) -> float:
        """Utility lost per second of CPU time saved."""
        return self.worth / self.cost_s if self.cost_s > 0 else math.inf


def demand(inputs: Sequence[Input]) -> float:
    """CPU seconds that the inputs ask for per second."""
    return sum(i.rate_per_s * i.cost_s for i in inputs)


def drop_fractions(inputs: Sequence[Input], capacity: float, keep: float = 0.0) -> list[float]:
    """The share of each input to drop, so that the rest asks for at most ``capacity``.

    No other shares that do so lose less utility. ``capacity`` is in CPU seconds per second; of
    every input at least the share ``keep`` stays, even if that is more than fits.
    """
    drop = [0.0] * len(inputs)
    excess = demand(inputs) - capacity
    for i in sorted(range(len(inputs)), key=lambda i: inputs[i].loss_per_s):
        asked = inputs[i].rate_per_s * inputs[i].cost_s
        if excess <= 0:
            break
        if asked > 0:
            drop[i] = min(excess / asked, 1.0 - keep)
            excess -= drop[i] * asked
    return drop


def same_fractions(inputs: Sequence[Input], capacity: float, keep: float = 0.0) -> list[float]:
    """The same share of every input, whatever it is worth: what shedding is compared with."""
    asked = demand(inputs)
    share = min(max(1.0 - max(capacity, 0.0) / asked, 0.0), 1.0 - keep) if asked > 0 else 0.0
    return [share] * len(inputs)


def work_ahead_ns(view: LoadEstimates) -> list[float]:
    """Expected work on a tuple at each box and on all that becomes of it, over all queries."""
    network, ahead = view.network, [0.0] * len(view.network.boxes)
    for b in reversed(network.topological):
        further = sum([ahead[d] for d in network.downstream[b]])
        ahead[b] = view.cost_ns[b] + view.selectivity[b] * further
    return ahead


def worth(view: LoadEstimates, box: int) -> float:
    """Utility to expect from a tuple at a box: results, times what each is worth.

    A result is worth its query's utility at the least latency possible (the cost of the boxes on
    the way), times the priority of the query's class; without a QoS graph the utility is 1. What
    comes too late even so is worth nothing, and is dropped first.
    """
    total = 0.0
    for q in view.network.box_queries[box]:
        path = view.network.down_path(box, q)
        share: dict[int, float] = {}
        for b in reversed(path):
            further = [share[d] for d in view.network.downstream[b] if d in share]
            share[b] = view.selectivity[b] * (sum(further) if share else 1.0)
        qos = view.network.queries[q].qos
        least_ns = round(sum([view.cost_ns[b] for b in path]))
        utility = 1.0 if qos is None else float(qos.utility([least_ns])[0])
        total += share[box] * utility * view.class_priority[view.query_class[q]]
    return total


class Shedder:
    """Watches rates and backlog, and says what share of each input to drop.

    Overload means: more is asked for than the workers can give, and the backlog has outgrown
    what is waited out. It ends when less is asked for. Executors call ``review`` once per window.
    """

    def __init__(
        self,
        view: LoadEstimates,
        params: SheddingParams,
        spared: Callable[[int], bool] = lambda _box: False,
    ) -> None:
        """``spared``: whether a box asks for time as others do, but must not lose a tuple."""
        self.params = params
        self._spared = spared
        self._view = view
        #: Arrivals per second at each input box, dropped ones included.
        self._rates: dict[int, float] = {}
        self._patience_s = _patience_s(view) if params.patience_s is None else params.patience_s
        self.overloaded = False

    def review(
        self, elapsed_s: float, arrived: Mapping[int, int], backlog: Sequence[float]
    ) -> dict[int, float]:
        """The share to drop at each input box from now on; those not named drop nothing.

        ``arrived`` counts the tuples per input box since the last review, dropped or not;
        ``backlog`` those per box that wait or are being worked on.
        """
        for b in {*self._rates, *arrived}:
            rate = arrived.get(b, 0) / elapsed_s
            known = self._rates.get(b, rate)
            self._rates[b] = known + (rate - known) * NEWEST
        view, params = self._view, self.params
        ahead = work_ahead_ns(view)
        asked = sum([rate * ahead[b] for b, rate in self._rates.items()]) / NS_PER_S
        behind_s = sum([n * work for n, work in zip(backlog, ahead, strict=True)]) / NS_PER_S
        threads = usable_threads(view.workers, view.express, self._urgent(ahead))
        late_s = behind_s - self._patience_s * threads
        room = params.headroom * threads
        self.overloaded = asked > room and (self.overloaded or late_s > 0)
        if not self.overloaded:
            return {}
        room -= max(late_s, 0.0) / params.recover_s
        room -= sum([self._rates[b] * ahead[b] for b in self._rates if self._spared(b)]) / NS_PER_S
        boxes = [b for b in sorted(self._rates) if not self._spared(b)]
        inputs = [Input(self._rates[b], ahead[b] / NS_PER_S, worth(view, b)) for b in boxes]
        shares = drop_fractions if params.by == "utility" else same_fractions
        dropped = shares(inputs, room, params.keep)
        return {b: share for b, share in zip(boxes, dropped, strict=True) if share > 0}

    def _urgent(self, ahead_ns: Sequence[float]) -> float:
        """CPU seconds per second that inputs of the highest class ask for."""
        view = self._view
        highest = highest_priority(view.class_priority, view.query_class)
        urgent = {q for q, c in enumerate(view.query_class) if view.class_priority[c] == highest}
        return sum(
            rate * ahead_ns[b] / NS_PER_S
            for b, rate in self._rates.items()
            if urgent.issuperset(view.network.box_queries[b])
        )


def _patience_s(view: LoadEstimates) -> float:
    graphs = [q.qos for q in view.network.queries if q.qos is not None]
    deadlines = [g.deadline_ns for g in graphs if g.deadline_ns is not None]
    return min(deadlines) / 2 / NS_PER_S if deadlines else 1.0
