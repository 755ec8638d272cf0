"""What to do about priority inversion: four ways of changing classes' running frequencies.

class-based-thesis 6.1.5. Classes come in order of priority, the highest first. A *victim* is a
class slower than the next one below it, which is the *violator*. Frequencies are the whole
numbers from which the schedule is built; they begin as the priorities.

The printed Algorithms 4, 6 and 7 contradict the prose and its examples (wrong index, a loop
that never ends, off by one); the prose stands. Common to all: nothing falls below 1, and then,
from the bottom up, a class of higher priority stays above the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

Frequencies = tuple[int, ...]
#: Frequencies, priorities, and the victims' places.
Module = Callable[[Frequencies, Sequence[float], Collection[int]], Frequencies]

#: DVP doubles when it runs out of strategies, and could for ever: with the largest frequency,
#: the schedule doubles too. Beyond this it gives up.
LARGEST = 1000


def victims(
    priorities: Sequence[float], response_ns: Sequence[float], *, equal_inverts: bool = False
) -> tuple[int, ...]:
    """The classes slower than the next one (NaN, no results yet: not), by place.

    ``equal_inverts``: equal response times count as inversion too (section 2.3.2).
    """
    return tuple(
        i
        for i in range(len(priorities) - 1)
        if priorities[i] > priorities[i + 1]
        and (
            response_ns[i] > response_ns[i + 1]
            or (equal_inverts and response_ns[i] == response_ns[i + 1])
        )
    )


def dvp(
    frequencies: Frequencies, priorities: Sequence[float], victims: Collection[int]
) -> Frequencies:
    """Decrease Violator Priority: the violator runs less often.

    A violator at 1 cannot: then its victim runs more often. Where order leaves no room for
    either, everything is doubled first.
    """
    if not victims:
        return frequencies
    while True:
        changed = list(frequencies)
        for victim in sorted(victims):
            if changed[victim + 1] > 1:
                changed[victim + 1] -= 1
            else:
                changed[victim] += 1
        result = in_order(changed, priorities)
        if result != frequencies:
            return result
        if 2 * max(frequencies) > LARGEST:
            return result
        frequencies = tuple(2 * f for f in frequencies)


def ivp(
    frequencies: Frequencies, priorities: Sequence[float], victims: Collection[int]
) -> Frequencies:
    """Increase Victim Priority: the victim runs more often."""
    changed = [f + (i in victims) for i, f in enumerate(frequencies)]
    return in_order(changed, priorities)


def dsp(
    frequencies: Frequencies, priorities: Sequence[float], victims: Collection[int]
) -> Frequencies:
    """Decrease Violator Side Priority: the violator and all below it run less often.

    Out of strategies, everything is raised by one first.
    """
    if not victims:
        return frequencies
    start = frequencies
    while True:
        changed, decrease = [], 0
        for i, f in enumerate(frequencies):
            decrease += i - 1 in victims
            changed.append(f - decrease)
        result = in_order(changed, priorities)
        if result not in (frequencies, start):
            return result
        frequencies = tuple(f + 1 for f in frequencies)


def isp(
    frequencies: Frequencies, priorities: Sequence[float], victims: Collection[int]
) -> Frequencies:
    """Increase Violator Side Priority: the victim and all above it run more often."""
    changed, increase = [], 0
    for i in reversed(range(len(frequencies))):
        increase += i in victims
        changed.append(frequencies[i] + increase)
    return in_order(changed[::-1], priorities)


def in_order(frequencies: Sequence[int], priorities: Sequence[float]) -> Frequencies:
    """At least 1 each; then, from the bottom up, higher priorities above lower ones."""
    result = [max(1, f) for f in frequencies]
    for i in reversed(range(len(result) - 1)):
        if priorities[i] > priorities[i + 1]:
            result[i] = max(result[i], result[i + 1] + 1)
    return tuple(result)


MODULES: dict[str, Module] = {"dvp": dvp, "ivp": ivp, "dsp": dsp, "isp": isp}
