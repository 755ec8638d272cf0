"""Load shedding as declared: when to drop tuples, and how many at most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from daybreak.model.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SheddingParams:
    """Parameters of load shedding; a pipeline without them drops nothing."""

    #: How often rates and backlog are looked at.
    window_s: float = 0.5
    #: Share of the workers' time that work may ask for; the rest goes into overheads.
    headroom: float = 0.95
    #: Backlog (in time of work per worker) that is waited out before anything is dropped; left
    #: out: half the tightest deadline, or 1 s if none is declared.
    patience_s: float | None = None
    #: A backlog beyond that is to be gone within this time.
    recover_s: float = 1.0
    #: Share of each input that is kept whatever happens.
    keep: float = 0.0
    #: Drop where least utility is lost per CPU time saved, or the same share everywhere.
    by: Literal["utility", "uniform"] = "utility"

    def __post_init__(self) -> None:
        def refuse(name: str, remedy: str) -> ConfigError:
            return ConfigError("shedding", f"{name} {getattr(self, name)}", remedy)

        for name in ("window_s", "recover_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise refuse(name, "give seconds above 0")
        if self.patience_s is not None and not 0 <= self.patience_s < math.inf:
            raise refuse("patience_s", "give 0 s or more")
        if not 0 < self.headroom <= 1:
            raise refuse("headroom", "give a share in (0, 1]")
        if not 0 <= self.keep <= 1:
            raise refuse("keep", "give a share in [0, 1]")
        if self.by not in ("utility", "uniform"):
            raise refuse("by", 'give "utility" or "uniform"')
