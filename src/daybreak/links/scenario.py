"""A link and its traffic as one value: what the simulator runs and the search varies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from daybreak.links.chain import DeadlineRule, Hop, run_chain
from daybreak.links.link_classes import SECTION_4, SECTION_4_DURATION_S, LinkClass, ranked
from daybreak.links.link_simulator import LinkLog, run_link
from daybreak.links.link_tuples import LinkTuple, Marks
from daybreak.links.registry import make_scheduler
from daybreak.links.traffic import draw_traffic
from daybreak.model.errors import ConfigError

#: A step function of time as it can be hashed: (from this second on, times this factor).
Steps = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScenario:
    """The defaults are those of section 4."""

    classes: tuple[LinkClass, ...] = SECTION_4
    scheduler: str = "due"
    #: Keywords of the scheduler, such as ``margin`` or ``best_effort``.
    params: Mapping[str, Any] = field(default_factory=dict)
    bandwidth_bytes_per_s: float = 2500.0
    duration_s: float = SECTION_4_DURATION_S
    #: More than one hop makes a chain; factors of the bandwidth, first to last.
    hops: tuple[float, ...] = (1.0,)
    rule: DeadlineRule = "none"
    #: Classes that cross the last hop only.
    cross: tuple[LinkClass, ...] = ()
    marks: Marks = "last"
    #: How arrival rates and the bandwidth change over time.
    rates: Steps = ()
    bandwidths: Steps = ()

    def __post_init__(self) -> None:
        if not 0 < self.duration_s <= 1e6:
            raise ConfigError("link", f"duration of {self.duration_s} s", "give (0, 1e6] s")
        if not self.hops or not all(math.isfinite(f) and f > 0 for f in self.hops):
            raise ConfigError("link", f"hops {list(self.hops)}", "give factors above 0")
        object.__setattr__(self, "classes", ranked(self.classes))

    def at(self, bandwidth_bytes_per_s: float) -> LinkScenario:
        """The same on a faster or slower link."""
        return replace(self, bandwidth_bytes_per_s=bandwidth_bytes_per_s)

    def faster(self, factor: float) -> LinkScenario:
        """The same in less time: rates and bandwidth up, deadlines and duration down."""
        return replace(
            self,
            classes=tuple(
                replace(
                    c,
                    deadline_s=c.deadline_s / factor,
                    rate_per_s=c.rate_per_s * factor if c.rate_per_s else None,
                )
                for c in self.classes
            ),
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s * factor,
            duration_s=self.duration_s / factor,
            rates=tuple((at / factor, by) for at, by in self.rates),
            bandwidths=tuple((at / factor, by) for at, by in self.bandwidths),
        )


def simulate(scenario: LinkScenario, seed: int) -> LinkLog:
    """Runs the scenario in virtual time. The same seed gives the same run, to the tuple."""
    arrivals = _traffic(scenario.classes, scenario.duration_s, seed, scenario.marks, scenario.rates)
    if len(scenario.hops) == 1 and not scenario.cross:
        scheduler = make_scheduler(
            scenario.scheduler, scenario.classes, scenario.bandwidth_bytes_per_s, scenario.params
        )
        return run_link(arrivals, scheduler, scenario.duration_s, scenario.bandwidths)
    last = len(scenario.hops) - 1
    hops = [
        Hop(
            bandwidth_bytes_per_s=factor * scenario.bandwidth_bytes_per_s,
            cross=scenario.cross if place == last else (),
        )
        for place, factor in enumerate(scenario.hops)
    ]
    return run_chain(
        arrivals,
        scenario.classes,
        hops,
        scenario.scheduler,
        scenario.duration_s,
        rule=scenario.rule,
        params=scenario.params,
        bandwidths=scenario.bandwidths,
        seed=seed,
    )


@lru_cache(maxsize=64)
def _traffic(
    classes: tuple[LinkClass, ...], duration_s: float, seed: int, marks: Marks, rates: Steps
) -> list[LinkTuple]:
    """Drawn once per seed: a search runs the same arrivals at many bandwidths."""
    return draw_traffic(classes, duration_s, seed, marks=marks, rates=rates)
