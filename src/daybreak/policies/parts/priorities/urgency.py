"""How urgent a box is: the latency its tuples will have, and what that means to the output.

eol(b), the expected output latency, is the mean latency of the tuples queued at b plus the time
to take them to the output (aurora-thesis 4.2.2). That time, ect, is read in two ways:

* ``path``: b's own train through every box of D(b), plus what is queued downstream;
* ``literal``, as printed: only the tuples queued now at each box of D(b).

Either way a tuple at box k counts with cost(k) / o_sel(k). With the literal ect a box looks as
if its tuples would leave after its own call; section 4.5's schedules need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from daybreak.model.qos import QoSGraph
from daybreak.policies.base import Plan, View, Work
from daybreak.policies.parts.queues.execution_list import ListParams, ListPolicy
from daybreak.policies.parts.queues.growing_tables import put

Ect = Literal["path", "literal"]


class Ahead(NamedTuple):
    """What lies between a box and one of the outputs it serves."""

    qos: QoSGraph
    #: Expected time (ns) per tuple queued at the box, and per tuple queued at boxes downstream.
    own_ns: float
    queued: tuple[tuple[int, float], ...]


class Outlook:
    """Expected output latencies, from the estimates and queues of a view."""

    def __init__(self, view: View, ect: Ect) -> None:
        self._view = view
        self._literal = ect == "literal"
        boxes = range(len(view.network.boxes))
        #: By box; None where estimates have moved since.
        self._ahead: list[tuple[Ahead, ...] | None] = [None for _ in boxes]
        #: The estimates in use.
        self._costs_ns = list(view.cost_ns)
        self._passes = list(view.selectivity)
        self._upstream: dict[int, tuple[int, ...]] = {}

    def added(self, query: int) -> None:
        """The view shows a query more, or another one in its place."""
        view = self._view
        for box in view.network.query_boxes[query]:
            put(self._ahead, box, None)
            put(self._costs_ns, box, view.cost_ns[box])
            put(self._passes, box, view.selectivity[box])

    def latencies(self, box: int, now_ns: int) -> list[tuple[QoSGraph, float]]:
        """The graph of each output that the box serves, and eol(b) there."""
        view = self._view
        pending = view.pending
        train = pending[box]
        waited = now_ns - view.arrival_sum_ns[box] / train
        return [
            (qos, waited + train * own_ns + sum([pending[k] * each for k, each in queued]))
            for qos, own_ns, queued in self._ahead_of(box)
        ]

    def alone(self, box: int) -> list[tuple[QoSGraph, float]]:
        """The same for a tuple that arrives just now and finds nothing queued."""
        return [(qos, own_ns) for qos, own_ns, _ in self._ahead_of(box)]

    def priority(self, boxes: Sequence[int], now_ns: int) -> tuple[float, float]:
        """The p-tuple, smallest first: (-utility, slack) of the best box and output among these.

        A box without graph, or late for good, has (0, infinity).
        """
        best = (0.0, math.inf)
        for box in boxes:
            if self._view.pending[box]:
                for qos, latency_ns in self.latencies(box, now_ns):
                    slope, slack_ns = qos.slope_slack(latency_ns)
                    best = min(best, (-slope, slack_ns))
        return best

    def learn(self, plan: Plan) -> None:
        """A plan ended: lets go of what depends on estimates that have moved."""
        costs_ns, passes = self._view.cost_ns, self._view.selectivity
        for box, _, _ in plan.steps:
            if costs_ns[box] != self._costs_ns[box] or passes[box] != self._passes[box]:
                self._costs_ns[box], self._passes[box] = costs_ns[box], passes[box]
                for b in self.upstream(box):
                    self._ahead[b] = None

    def upstream(self, box: int) -> tuple[int, ...]:
        """The box and those upstream of it: what its queue and its cost matter to."""
        found = self._upstream.get(box)
        if found is None:
            reached, further = [box], [box]
            seen = {box}
            while further:
                fresh = [u for u in self._view.network.upstream[further.pop()] if u not in seen]
                seen.update(fresh)
                reached.extend(fresh)
                further.extend(fresh)
            found = self._upstream[box] = tuple(reached)
        return found

    def _ahead_of(self, box: int) -> tuple[Ahead, ...]:
        found = self._ahead[box]
        if found is None:
            found = self._ahead[box] = self._look(box)
        return found

    def _look(self, box: int) -> tuple[Ahead, ...]:
        network, found = self._view.network, []
        for query in network.box_queries[box]:
            qos = network.queries[query].qos
            if qos is not None:
                each = self._each_ns(network.down_path(box, query))
                own_ns = each[box] if self._literal else sum(each.values())
                queued = tuple((k, ns) for k, ns in each.items() if k != box)
                found.append(Ahead(qos, own_ns, queued))
        return tuple(found)

    def _each_ns(self, path: Sequence[int]) -> dict[int, float]:
        """cost(k) / o_sel(k) of the boxes of a path, from the output backwards."""
        each, share = {}, 1.0
        for k in reversed(path):
            share *= self._view.selectivity[k]
            # Where nothing comes out, no output is ever late: the cost alone counts.
            each[k] = self._view.cost_ns[k] / share if share else self._view.cost_ns[k]
        return each


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgencyParams(ListParams):
    """Parameters of the policies that look ahead to the output."""

    #: How the time to the output is expected; ``literal`` is as printed.
    ect: Ect = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgencyPathParams(UrgencyParams):
    """Input boxes are what is chosen among."""

    level: Literal["path"] = "path"


class UrgencyPolicy(ListPolicy):
    """Keeps an outlook; subclasses order by it."""

    Params: ClassVar[type[Any]] = UrgencyParams
    list_size = 10  # the text's best (section 4.4.1)
    params: UrgencyParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.outlook = Outlook(view, self.params.ect)
        #: The boxes whose tuples a unit starts with.
        whole = self.params.level == "query"
        self.heads = [boxes if whole else boxes[:1] for boxes in self.units.units]

    def on_query_added(self, query: int, now_ns: int) -> None:
        super().on_query_added(query, now_ns)
        self.outlook.added(query)
        self.heads.extend(self.units.units[len(self.heads) :])  # of one box each

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        super().on_completion(plan, worker, cost_ns, now_ns)
        self.outlook.learn(plan)
