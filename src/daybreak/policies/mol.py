"""MOL: the lottery among single boxes on many cores (class-based-thesis 6.2.1)."""

from __future__ import annotations

from typing import ClassVar

from daybreak.policies.base import Granularity
from daybreak.policies.ml import MulticoreLottery
from daybreak.policies.parts.classes.candidates import Candidates
from daybreak.policies.parts.classes.priority_shares import box_shares


class MulticoreOperatorLottery(MulticoreLottery):
    """MOL."""

    name = "mol"
    summary = "boxes drawn by lot, with tickets by class priority and cost"
    granularity: ClassVar[Granularity] = "box"

    def make_candidates(self) -> Candidates:
        return Candidates.boxes(self.view)

    def shares(self) -> list[float]:
        found = box_shares(self.view)
        return [found[plan.steps[0].box] for plan in self.candidates.plans]
