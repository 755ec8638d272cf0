"""Base of the policies that order by what a delay costs at the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.parts.execution_list import ListParams, ListPolicy
from daybreak.policies.parts.urgency import Ect, Outlook


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
