"""What policies that run whole queries share: how long a train is, and who has waited longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.model.errors import ConfigError
from daybreak.policies.base import View


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainParams:
    """The one parameter of many a policy."""

    #: Tuples a box takes at most per call; 0 means its whole queue.
    train: int = 0

    def __post_init__(self) -> None:
        if self.train < 0:
            raise ConfigError("policy", f"train {self.train}", "give 0 or more")


def oldest_ns(view: View, boxes: Sequence[int]) -> int:
    """When the tuple arrived that has waited longest at these boxes; one must hold some."""
    return min([view.head_ns[b] for b in boxes if view.pending[b]])
