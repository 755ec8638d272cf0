"""How a run treated its classes: the metrics of class-based-thesis 2.3 and 6.2.3.

* *weighted response time*: the mean over classes of their response times, by priority; at the
  mean and, a contribution of the text (7.1), at each percentile;
* *priority inversion*: a class is slower than the next one below it. Its ratio is
  PrIR_i = (Pr_i / Pr_(i+1)) x |min(0, 1 - RT_i / RT_(i+1))| (the bars are misplaced in print);
* *starvation ratio*: the lowest class's response time over the highest's;
* *starvation alarm*: response times keep rising although the input does not.

Output counts always go along: a class that never runs has excellent response times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.report import RunReport, weighted_percentiles

Floats = NDArray[np.float64]

#: What the text's box-and-whisker charts and inversion charts show, besides the mean.
PERCENTILES = (10, 25, 50, 75, 90, 95)
LEVELS = ("mean", *(f"p{p}" for p in PERCENTILES))
#: Response times and inversion over time are taken every so many seconds (6.2.3).
SLOT_S = 0.1
#: Longer runs get longer slots, at most so many.
MOST_SLOTS = 10_000


def inversion_ratios(priorities: Sequence[float], response_s: Floats) -> Floats:
    """PrIR of each class but the last, along the last axis; 0 where there is nothing to compare.

    Classes of equal priority cannot invert each other.
    """
    higher, lower = response_s[..., :-1], response_s[..., 1:]
    ratio = np.array(priorities[:-1]) / np.array(priorities[1:])
    with np.errstate(invalid="ignore", divide="ignore"):
        found = ratio * np.abs(np.minimum(0.0, 1.0 - higher / lower))
    return np.where((ratio > 1) & ~np.isnan(found), found, 0.0)


def inverted(
    priorities: Sequence[float], response_s: Floats, *, equal_inverts: bool = False
) -> NDArray[np.bool_]:
    """Whether each class but the last is slower than the next one.

    ``equal_inverts`` counts equal response times as inversion too, which section 2.3.2 leaves
    to the administrator (its ratio is 0 all the same).
    """
    higher, lower = response_s[..., :-1], response_s[..., 1:]
    differ = np.array(priorities[:-1]) > np.array(priorities[1:])
    with np.errstate(invalid="ignore"):
        slower = higher >= lower if equal_inverts else higher > lower
    found: NDArray[np.bool_] = slower & differ
    return found


def weighted_response_s(priorities: Sequence[float], response_s: Floats) -> float:
    """The mean by priority over the classes that had results."""
    known = ~np.isnan(response_s)
    if not known.any():
        return math.nan
    return float(np.average(response_s[known], weights=np.array(priorities)[known]))


@dataclass(frozen=True)
class ClassFigures:
    """What the classes got over a run, or over part of it. Small: it travels between processes."""

    classes: tuple[str, ...]
    priorities: tuple[float, ...]
    counts: tuple[int, ...]
    #: Response times: one row per level (``LEVELS``), one column per class; NaN without results.
    response_s: Floats

    @classmethod
    def of(cls, report: RunReport, since_s: float = 0.0, until_s: float = math.inf) -> ClassFigures:
        """Of the results that left within these instants."""
        left_s = report.outputs.departure_ns / NS_PER_S
        within = (left_s >= since_s) & (left_s < until_s)
        rows = np.full((len(LEVELS), len(report.classes)), np.nan)
        counts = []
        for c in range(len(report.classes)):
            mine = within & (report.class_of_output == c)
            values, tuples = report.response_s[mine], report.outputs.tuples[mine]
            counts.append(int(tuples.sum()))
            if counts[-1]:
                found = weighted_percentiles(values, tuples, PERCENTILES)
                rows[:, c] = [np.average(values, weights=tuples), *found.values()]
        return cls(report.classes, report.priorities, tuple(counts), rows)

    def at(self, level: str) -> Floats:
        """Response times by class at the mean or a percentile."""
        row: Floats = self.response_s[LEVELS.index(level)]
        return row

    @property
    def mean_s(self) -> Floats:
        return self.at("mean")

    def weighted_s(self, level: str = "mean") -> float:
        return weighted_response_s(self.priorities, self.at(level))

    def inversion(self, level: str = "mean") -> float:
        """Cumulative PrIR: the sum over the classes."""
        return float(inversion_ratios(self.priorities, self.at(level)).sum())

    def inverts(self, *, equal_inverts: bool = False) -> tuple[str, ...]:
        """The levels at which some class is slower than the next."""
        return tuple(
            level
            for level in LEVELS
            if inverted(self.priorities, self.at(level), equal_inverts=equal_inverts).any()
        )

    @property
    def starvation_ratio(self) -> float:
        """Mean response time of the lowest class over that of the highest."""
        return float(self.mean_s[-1] / self.mean_s[0])


@dataclass(frozen=True)
class ClassesOverTime:
    """Means in slots of time: one row per slot, one column per class; NaN where nothing left."""

    #: Where each slot ends.
    time_s: Floats
    #: Mean response time of what left in the slot.
    response_s: Floats
    #: Results that left in it, and results whose tuple arrived in it.
    left: NDArray[np.int64]
    arrived: NDArray[np.int64]

    @classmethod
    def of(cls, report: RunReport, slot_s: float = SLOT_S) -> ClassesOverTime:
        slot_s = max(slot_s, report.duration_s / MOST_SLOTS)
        slots = max(1, math.ceil(report.duration_s / slot_s))
        shape = (slots, len(report.classes))
        out = report.outputs
        left = _cells(out.departure_ns, report.class_of_output, slot_s, shape)
        arrived = _cells(out.arrival_ns, report.class_of_output, slot_s, shape)
        size = shape[0] * shape[1]
        counts = np.bincount(left, weights=out.tuples, minlength=size).reshape(shape)
        sums = np.bincount(left, weights=report.response_s * out.tuples, minlength=size)
        means = np.full(shape, np.nan)
        np.divide(sums.reshape(shape), counts, out=means, where=counts > 0)
        return cls(
            time_s=np.arange(1, slots + 1, dtype=np.float64) * slot_s,
            response_s=means,
            left=counts.astype(np.int64),
            arrived=np.bincount(arrived, weights=out.tuples, minlength=size)
            .reshape(shape)
            .astype(np.int64),
        )

    def merged(self, slots: int) -> ClassesOverTime:
        """In longer slots of so many of these; the last one may be shorter."""
        starts = np.arange(0, len(self.time_s), slots)
        left = np.add.reduceat(self.left, starts)
        sums = np.add.reduceat(np.where(self.left > 0, self.response_s, 0.0) * self.left, starts)
        means = np.full(left.shape, np.nan)
        np.divide(sums, left, out=means, where=left > 0)
        return ClassesOverTime(
            time_s=self.time_s[np.minimum(starts + slots, len(self.time_s)) - 1],
            response_s=means,
            left=left,
            arrived=np.add.reduceat(self.arrived, starts),
        )

    def inversion(self, priorities: Sequence[float]) -> Floats:
        """Cumulative PrIR (sum over the classes) in each slot."""
        total: Floats = inversion_ratios(priorities, self.response_s).sum(axis=1)
        return total

    def inverted_share(self, priorities: Sequence[float]) -> float:
        """The share of slots in which some class was slower than the next."""
        return float(inverted(priorities, self.response_s).any(axis=1).mean())


def _cells(
    at_ns: NDArray[np.int64], cls: NDArray[np.int64], slot_s: float, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Flat index of (slot, class) of every result; what came before the run is in the first."""
    slot = np.clip(at_ns / NS_PER_S / slot_s, 0, shape[0] - 1).astype(np.int64)
    flat: NDArray[np.int64] = slot * shape[1] + cls
    return flat


@dataclass(frozen=True, slots=True)
class Alarm:
    """A class seems to starve: from one instant to another its response times only rose."""

    cls: str
    from_s: float
    to_s: float
    #: By how much they rose.
    factor: float


#: An alarm needs so many rises in a row, in steps of so many seconds, by this factor together:
#: noise alone does not double.
RISES, STEP_S, FACTOR = 5, 0.5, 2.0
#: Input counts as risen when it is more than this share above what it was.
INPUT_RISE = 0.1


def starvation_alarms(report: RunReport, step_s: float = STEP_S) -> list[Alarm]:
    """Classes whose response times rose step after step without their input rising (2.3.3)."""
    over = ClassesOverTime.of(report, step_s)
    # While the rest is worked off, nothing arrives any more: that says nothing about input.
    last_s = report.outputs.arrival_ns.max(initial=0) / NS_PER_S
    steps = int(np.searchsorted(over.time_s, last_s))
    return [Alarm(report.classes[c], *rise) for c, rise in starvation_alarms_over(over, steps)]


def starvation_alarms_over(
    over: ClassesOverTime, steps: int | None = None
) -> list[tuple[int, tuple[float, float, float]]]:
    """The same from what is known step by step: class, from when to when (s), by which factor."""
    steps = len(over.time_s) if steps is None else steps
    found = []
    for c in range(over.response_s.shape[1]):
        response, arrived = over.response_s[:steps, c], over.arrived[:steps, c]
        start = 0
        for end in range(1, steps + 1):
            if end < steps and response[end] > response[end - 1]:
                continue  # NaN compares false: silence ends a rise
            rose = end - 1 - start
            before = arrived[max(0, start - RISES) : start + 1]
            if rose >= RISES and _unprovoked(response[start:end], arrived[start:end], before):
                span = (float(over.time_s[start]), float(over.time_s[end - 1]))
                found.append((c, (*span, float(response[end - 1] / response[start]))))
            start = end
    return found


def _unprovoked(response: Floats, arrived: NDArray[np.int64], before: NDArray[np.int64]) -> bool:
    """Whether it rose enough, and no more came than at its beginning or just before."""
    half = len(arrived) // 2
    usual = min(arrived[:half].mean(), before.mean())
    return bool(
        response[-1] >= FACTOR * response[0] and arrived[-half:].mean() <= usual * (1 + INPUT_RISE)
    )


def schedule_updates_s(report: RunReport) -> tuple[float, ...]:
    """When the policy changed its schedule by itself; none for a policy without one."""
    return tuple(report.manifest.get("schedule_updates_s", ()))


def class_metrics(report: RunReport) -> dict[str, Any]:
    """Everything above for a script; NaN as None."""
    figures, over = ClassFigures.of(report), ClassesOverTime.of(report)
    updates = schedule_updates_s(report)
    return {
        "results": dict(zip(figures.classes, figures.counts, strict=True)),
        "response_s": {
            name: {level: _known(figures.at(level)[c]) for level in LEVELS}
            for c, name in enumerate(figures.classes)
        },
        "weighted_response_s": {level: _known(figures.weighted_s(level)) for level in LEVELS},
        "inversion": {level: figures.inversion(level) for level in LEVELS},
        "inverted_levels": list(figures.inverts()),
        "inverted_levels_if_equal_counts": list(figures.inverts(equal_inverts=True)),
        "inverted_time_share": over.inverted_share(report.priorities),
        "starvation_ratio": _known(figures.starvation_ratio),
        "starvation_alarms": [
            {"class": a.cls, "from_s": a.from_s, "to_s": a.to_s, "factor": a.factor}
            for a in starvation_alarms(report)
        ],
        "schedule_updates": len(updates),
        "convergence_s": updates[-1] if updates else 0.0,
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
