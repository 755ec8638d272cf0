"""Priority classes on a link: what each stream of tuples needs (section 1 of the text).

Class 0 is always the most valuable one; everything below speaks in these ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S

#: Classes travel as one byte in a frame.
MOST_CLASSES = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClass:
    """The needs of one priority class: a deadline, and ``m`` of every ``n`` tuples."""

    name: str
    #: The class with the higher value wins; it may be any number.
    value: float
    #: The latest useful latency, from creation to the end of the last transfer.
    deadline_s: float
    #: At least ``m`` of each tumbling window of ``n`` tuples must be delivered.
    m: int = 1
    n: int = 1
    #: Usual size on the link, framing included.
    size_bytes: int = 500
    #: Mean arrival rate, where it is known; `hybrid` and the simulator need it.
    rate_per_s: float | None = None

    def __post_init__(self) -> None:
        def refuse(finding: str, remedy: str) -> ConfigError:
            return ConfigError(f"link class {self.name!r}", finding, remedy)

        if not self.name:
            raise refuse("has an empty name", "name it")
        if not math.isfinite(self.value):
            raise refuse(f"value {self.value}", "give a finite number")
        if not 0 < self.deadline_s <= 1e6:
            raise refuse(f"deadline of {self.deadline_s} s", "give a deadline in (0, 1e6] s")
        if not 0 <= self.m <= self.n <= 1_000_000 or self.n < 1:
            raise refuse(f"minimum {self.m}/{self.n}", "give m of n with 0 <= m <= n, n >= 1")
        if not 1 <= self.size_bytes <= 1 << 30:
            raise refuse(f"size of {self.size_bytes} bytes", "give 1 byte to 1 GiB")
        if self.rate_per_s is not None and not 0 < self.rate_per_s <= 1e7:
            raise refuse(f"rate_per_s {self.rate_per_s}", "give a rate in (0, 1e7]")

    @property
    def minimum(self) -> float:
        """The share of tuples that must be delivered, m/n."""
        return self.m / self.n

    @property
    def deadline_ns(self) -> int:
        return round(self.deadline_s * NS_PER_S)

    @property
    def offered_bytes_per_s(self) -> float:
        """What the class would take if everything were sent."""
        if self.rate_per_s is None:
            raise ConfigError(
                f"link class {self.name!r}",
                "has no rate_per_s",
                "give the tuples that arrive per second",
            )
        return self.rate_per_s * self.size_bytes


def ranked(classes: Iterable[LinkClass]) -> tuple[LinkClass, ...]:
    """The classes by falling value, checked: their positions are their ranks."""
    order = tuple(sorted(classes, key=lambda c: -c.value))
    if not 1 <= len(order) <= MOST_CLASSES:
        raise ConfigError("link", f"{len(order)} classes", f"declare 1 to {MOST_CLASSES}")
    names = {c.name for c in order}
    if len(names) < len(order):
        raise ConfigError("link", "two classes have the same name", "rename one of them")
    if len({c.value for c in order}) < len(order):
        raise ConfigError("link", "two classes have the same value", "give them different values")
    return order


def threshold_bytes_per_s(classes: Sequence[LinkClass]) -> float:
    """The bandwidth from which minimum slack meets every class (section 4.3).

    Minimum slack drops evenly from all classes, so the largest minimum decides for all.
    """
    return sum(c.offered_bytes_per_s for c in classes) * max(c.minimum for c in classes)


def least_bytes_per_s(classes: Sequence[LinkClass]) -> float:
    """No schedule meets every class below this: the minima alone take as much."""
    return sum(c.offered_bytes_per_s * c.minimum for c in classes)


#: The two classes of section 4: 200 and 300 ms between tuples, 6/10 of both.
SECTION_4 = (
    LinkClass(name="class1", value=2, deadline_s=1.4, m=6, n=10, size_bytes=500, rate_per_s=5),
    LinkClass(
        name="class2", value=1, deadline_s=1.95, m=6, n=10, size_bytes=500, rate_per_s=10 / 3
    ),
)
#: How long the text runs each simulation.
SECTION_4_DURATION_S = 800.0
