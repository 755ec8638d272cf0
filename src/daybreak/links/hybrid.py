"""Hybrid (section 4.3): conveyor belt below the threshold, minimum slack from it on.

The text computes the threshold, sum of rates x sizes x the largest m/n, and leaves no room
for chance: at the bare threshold hardly a single run meets both classes. Hence the margin.
"""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.links.conveyor_belt import ConveyorBelt
from daybreak.links.link_classes import LinkClass, threshold_bytes_per_s
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.min_slack import MinSlack
from daybreak.links.scheduler import Scheduler
from daybreak.links.static_priority import StaticPriority
from daybreak.model.errors import ConfigError

MARGIN = 0.04


class Hybrid(Scheduler):
    """One of the other schedulers, chosen by the bandwidth; every class needs its rate.

    ``static_below_bytes_per_s`` adds the third step the text hints at: static priority where
    the belt cannot even meet the highest class.
    """

    def __init__(
        self,
        classes: Sequence[LinkClass],
        bandwidth_bytes_per_s: float,
        *,
        margin: float = MARGIN,
        static_below_bytes_per_s: float = 0.0,
    ) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        if not 0 <= margin <= 1:
            raise ConfigError("hybrid", f"margin {margin}", "give 0 to 1, such as 0.04")
        self.threshold_bytes_per_s = threshold_bytes_per_s(self.classes) * (1 + margin)
        self._static_below = static_below_bytes_per_s
        self._inner = self._chosen()

    @property
    def inner(self) -> Scheduler:
        """The scheduler at work."""
        return self._inner

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        self._inner.arrive(item, free_ns)

    def pick(self, now_ns: int) -> LinkTuple | None:
        return self._inner.pick(now_ns)

    def clear(self) -> list[LinkTuple]:
        return self._inner.clear()

    def give_back(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        self._inner.give_back(items, now_ns)

    def retune(self, bandwidth_bytes_per_s: float, now_ns: int) -> None:
        self._set_bandwidth(bandwidth_bytes_per_s)
        waiting = self._inner.clear()
        self._inner = self._chosen()
        self._refill(waiting, now_ns)

    def _chosen(self) -> Scheduler:
        bandwidth = self.bandwidth_bytes_per_s
        chosen: Scheduler
        if bandwidth >= self.threshold_bytes_per_s:
            chosen = MinSlack(self.classes, bandwidth)
        elif bandwidth < self._static_below:
            chosen = StaticPriority(self.classes, bandwidth)
        else:
            chosen = ConveyorBelt(self.classes, bandwidth)
        chosen.dropped = self.dropped  # one list for whoever reads it
        return chosen
