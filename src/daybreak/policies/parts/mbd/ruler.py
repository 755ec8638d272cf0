"""The ruler: a cyclic schedule in which each class has as many slots as its priority says.

Schedule generator of ABD and MBD (class-based-thesis 5.2, Algorithm 2 and Figure 8), named
after the marks on a ruler. With b the bit length of the largest priority, minor cycle
i = 1 .. 2^b - 1 serves bit b - 1 - tz(i), where tz counts the trailing zero bits of i: every
class that has this bit in its priority gets one slot, in class order. The highest bit comes
round in every second cycle, the next in every fourth, and so on. Priorities 5, 4, 3, 2, 1 give
``AB|CD|AB|ACE|AB|CD|AB``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from daybreak.model.errors import ConfigError

Cycles = tuple[tuple[int, ...], ...]

#: A schedule has up to twice as many minor cycles as its largest priority says.
LARGEST = 2**20 - 1


def ruler(priorities: Sequence[int]) -> Cycles:
    """The minor cycles, each the classes it serves; cycles that serve nobody are empty.

    Class c appears exactly ``priorities[c]`` times, and the slots that one bit of its priority
    brings are evenly spaced.
    """
    for number in priorities:
        if not 1 <= number <= LARGEST:
            raise ConfigError("schedule", f"priority {number}", f"give 1 to {LARGEST}")
    bits = max(priorities, default=0).bit_length()
    served = [
        tuple(c for c, priority in enumerate(priorities) if priority >> bit & 1)
        for bit in range(bits)
    ]
    return tuple(served[bits - (i & -i).bit_length()] for i in range(1, 2**bits))


def slots_of(cycles: Cycles) -> tuple[int, ...]:
    """The schedule as one round of slots, without the borders of its minor cycles."""
    return tuple(chain.from_iterable(cycles))


def longest_waits(slots: Sequence[int]) -> dict[int, int]:
    """Of each class: the most slots of others between two of its own, round after round."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    longest: dict[int, int] = {}
    for at, c in enumerate(slots):
        if c in last:
            longest[c] = max(longest.get(c, 0), at - last[c] - 1)
        else:
            first[c] = at
        last[c] = at
    return {c: max(longest.get(c, 0), len(slots) - last[c] + first[c] - 1) for c in sorted(first)}


def one_turn_each(priorities: Sequence[int]) -> tuple[int, ...]:
    """The same slots as CQC gives them: all of a class at once (Figure 8)."""
    return tuple(chain.from_iterable([c] * p for c, p in enumerate(priorities)))


def whole(priorities: Sequence[float], largest: int = 1023) -> list[int]:
    """Priorities as whole numbers for the ruler: as they are, if they are whole and not large.

    Fractions are doubled away as far as ``largest`` allows and then rounded, and what is too
    large is scaled down; no class gets less than one slot.
    """
    scale = min(1.0, largest / max(priorities))
    while (
        any(p * scale != round(p * scale) for p in priorities)
        and max(priorities) * scale * 2 <= largest
    ):
        scale *= 2
    return [max(1, round(p * scale)) for p in priorities]
