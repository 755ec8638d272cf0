"""The MBD schedule: a ruler over queries (class-based-thesis 6.1.1 and 6.1.2).

A query's priority is its class's frequency times its share of the class's cost, times a
multiplier that makes the smallest priority 1. The ceiling gives its slots in a round; the
fraction is the chance that it takes the first of them. A whole number takes all of them for
certain: by the literal rule the cheapest query, with priority 1 and fraction 0, would never run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.policies.parts.mbd.ruler import LARGEST, ruler, slots_of

#: Closer to a whole number than this is whole: it is rounding.
WHOLE = 1e-9


@dataclass(frozen=True, slots=True)
class MbdSchedule:
    """One round."""

    #: The unit of each slot, and the chance that the slot is taken.
    units: tuple[int, ...]
    chances: tuple[float, ...]
    #: What the slots were made from, by unit.
    priorities: tuple[float, ...]


def query_priorities(
    costs_ns: Sequence[float],
    classes: Sequence[int],
    frequencies: Sequence[float],
    largest: int = LARGEST,
) -> list[float]:
    """Pr_i = Pr_class x cost_i / cost_class x multiplier, by query.

    A query whose cost is not known yet counts as the mean of those that are; none counts as
    cheaper than gives the dearest a priority of ``largest``.
    """
    if not costs_ns:
        return []
    known = [c for c in costs_ns if c > 0]
    usual = sum(known) / len(known) if known else 1.0
    costs = [c if c > 0 else usual for c in costs_ns]
    of_class = [0.0] * len(frequencies)
    for cost, cls in zip(costs, classes, strict=True):
        of_class[cls] += cost
    raw = [
        frequencies[cls] * cost / of_class[cls] for cost, cls in zip(costs, classes, strict=True)
    ]
    least = max(min(raw), max(raw) / largest)
    return [max(1.0, r / least) for r in raw]


def mbd_schedule(priorities: Sequence[float]) -> MbdSchedule:
    """From the priorities of the units, each at least 1; a unit of priority 0 gets no slot."""
    near = [round(p) if abs(p - round(p)) < WHOLE * p else p for p in priorities]
    numbers = [math.ceil(p) for p in near]
    served = [u for u, number in enumerate(numbers) if number]
    units = tuple(served[i] for i in slots_of(ruler([numbers[u] for u in served])))
    chances, seen = [], set()
    for u in units:
        fraction = near[u] - math.floor(near[u])
        chances.append(fraction if fraction and u not in seen else 1.0)
        seen.add(u)
    return MbdSchedule(units, tuple(chances), tuple(priorities))
