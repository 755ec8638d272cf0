"""SlopeSlack: the most utility lost per unit of delay first, then the least slack.

Aurora's dynamic scheduler (aurora-thesis 4.2.2, p-tuple scheduling). Utility is the gradient of
the QoS graph at the expected output latency, slack the distance to the next critical point. A
box that is late, with no critical point ahead, goes last; ties go by index.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.listed import ListParams, ListPolicy
from daybreak.policies.urgency import Ect, Outlook


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


class SlopeSlack(UrgencyPolicy):
    """An exact sort of p-tuples at every scheduling point."""

    name = "slope-slack"
    summary = "most utility lost per delay first, then least slack to the deadline"
    on_spark = False  # a query is one box there: the same as slope-slack-push

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        pending, heads, priority = self.view.pending, self.heads, self.outlook.priority
        self.work.evaluated += len(ready)
        # The text's scheduler scans the queues of each box for the latencies of its tuples.
        self.work.queued += sum([pending[b] for unit in ready for b in heads[unit]])
        self.work.sorted(len(ready))
        ranked = [(priority(heads[unit], now_ns), unit) for unit in ready]
        return [unit for _, unit in heapq.nsmallest(size, ranked)]


class SlopeSlackPush(SlopeSlack):
    """SlopeSlackPushThrough: input boxes by p-tuple, each run through to the output."""

    name = "slope-slack-push"
    summary = "slope-slack among input boxes, tuples pushed through to the output"
    on_spark = True
    Params: ClassVar[type[Any]] = UrgencyPathParams
