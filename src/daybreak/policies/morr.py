"""MORR: single boxes in turn on many cores (class-based-thesis 6.2.1)."""

from __future__ import annotations

from typing import ClassVar

from daybreak.policies.base import Granularity
from daybreak.policies.mrr import MulticoreRoundRobin
from daybreak.policies.parts.classes.candidates import Candidates


class MulticoreOperatorRoundRobin(MulticoreRoundRobin):
    """MORR."""

    name = "morr"
    summary = "boxes in turn, whatever query they belong to (multicore operator round robin)"
    granularity: ClassVar[Granularity] = "box"

    def make_candidates(self) -> Candidates:
        return Candidates.boxes(self.view)
