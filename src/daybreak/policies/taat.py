"""Tuple-at-a-time: a scheduling step covers one tuple at one box (aurora-thesis 3.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.policies.baat import BoxAtATime, BoxParams


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleParams(BoxParams):
    """One tuple per call, unless a longer train is asked for."""

    train: int = 1


class TupleAtATime(BoxAtATime):
    """TAAT: the next runnable box in turn takes one tuple."""

    name = "taat"
    summary = "tuple-at-a-time: one scheduling step per box and tuple"
    granularity = "tuple"
    Params: ClassVar[type[Any]] = TupleParams
