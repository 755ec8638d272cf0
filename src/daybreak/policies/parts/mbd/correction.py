"""Watches response times by class, and changes running frequencies when priorities are inverted.

Two ways: one of the text's modules at a time (``Stepwise``), judged on all results since the
schedule's inputs last changed; and ``Levelling``, which is ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from daybreak.model.qos import NS_PER_S
from daybreak.policies.parts.classes.class_responses import ClassResponses
from daybreak.policies.parts.mbd.inversion import Module, victims

Frequencies = tuple[float, ...]


class Correction(ABC):
    """Told of results by class; classes are given in order of priority when it corrects."""

    def __init__(self, classes: int, percentile: int | None, *, equal_inverts: bool) -> None:
        self.responses = ClassResponses(classes, percentile)
        self.equal_inverts = equal_inverts
        self.since_ns = 0

    def add(
        self, cls: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int = 1
    ) -> None:
        """Results of a class left, each for so many tuples."""
        self.responses.add(cls, arrivals_ns, departures_ns, tuples)

    def reset(self, now_ns: int) -> None:
        """The schedule's inputs changed: judge anew from now on."""
        self.responses.reset()
        self.since_ns = now_ns

    @abstractmethod
    def corrected(
        self,
        now_ns: int,
        order: Sequence[int],
        priorities: Sequence[float],
        frequencies: Frequencies,
    ) -> Frequencies:
        """The frequencies to go on with, by place in the order; called at the end of a round."""


class Uncorrected(Correction):
    """Inversion is left alone."""

    def corrected(
        self,
        now_ns: int,
        order: Sequence[int],
        priorities: Sequence[float],
        frequencies: Frequencies,
    ) -> Frequencies:
        return frequencies


class Stepwise(Correction):
    """A module of section 6.1.5: a step of one at the end of every round with inversion."""

    def __init__(
        self,
        classes: int,
        percentile: int | None,
        *,
        equal_inverts: bool,
        module: Module,
        warm_up_s: float,
    ) -> None:
        super().__init__(classes, percentile, equal_inverts=equal_inverts)
        self._module = module
        self._warm_up_ns = warm_up_s * NS_PER_S

    def corrected(
        self,
        now_ns: int,
        order: Sequence[int],
        priorities: Sequence[float],
        frequencies: Frequencies,
    ) -> Frequencies:
        if now_ns < self.since_ns + self._warm_up_ns:
            return frequencies
        response_ns = [self.responses.response_ns(c) for c in order]
        slower = victims(priorities, response_ns, equal_inverts=self.equal_inverts)
        if not slower:
            return frequencies
        return self._module(tuple(round(f) for f in frequencies), priorities, slower)


class Levelling(Correction):
    """Slows a violator down to its victim's level, in few, measured steps.

    What makes a class slow is often not its share of the cores (joins that wait for input, say),
    so giving it more does not help, and the text's modules go on step after step. But a class
    that runs too often for its place can always run less often, and that costs nobody else
    anything. Response times fall roughly as one over the frequency, so one step is
    ``(its response / the response wanted) ** GAIN``. A violator may well end with a lower
    frequency than the class below it: priorities are about response times.

    Each step is judged only after ``patience_s`` and enough results: whether it worked must be
    seen before the next is made. It did not if the victim is slower since the step, or still
    slower over all results since the schedule's inputs last changed. The response wanted makes up
    for the latter within as long again; a violator that is that slow already is left alone.
    """

    #: Violators end this much slower than their victims, so that noise does not bring them back.
    MARGIN = 0.1
    #: Response times fall somewhat slower than one over the frequency.
    GAIN = 1.25
    #: Tuples answered per class before it is judged.
    ENOUGH = 500
    #: No class is slowed down to less than this share of its priority.
    LEAST = 1 / 64

    def __init__(
        self,
        classes: int,
        percentile: int | None,
        *,
        equal_inverts: bool,
        patience_s: float,
    ) -> None:
        super().__init__(classes, percentile, equal_inverts=equal_inverts)
        self._patience_ns = patience_s * NS_PER_S
        #: Since the last step.
        self._recent = ClassResponses(classes, percentile)
        self._stepped_ns = 0

    def add(
        self, cls: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int = 1
    ) -> None:
        super().add(cls, arrivals_ns, departures_ns, tuples)
        self._recent.add(cls, arrivals_ns, departures_ns, tuples)

    def reset(self, now_ns: int) -> None:
        super().reset(now_ns)
        self._recent.reset()
        self._stepped_ns = now_ns

    def corrected(
        self,
        now_ns: int,
        order: Sequence[int],
        priorities: Sequence[float],
        frequencies: Frequencies,
    ) -> Frequencies:
        if now_ns < self._stepped_ns + self._patience_ns:
            return frequencies
        counts = [self._recent.counts[c] for c in order]
        recent_ns = [self._recent.response_ns(c) for c in order]
        whole_ns = [self.responses.response_ns(c) for c in order]
        slower = sorted(
            i
            for i in {
                *victims(priorities, recent_ns, equal_inverts=self.equal_inverts),
                *victims(priorities, whole_ns, equal_inverts=self.equal_inverts),
            }
            if min(counts[i], counts[i + 1]) >= self.ENOUGH
        )
        if not slower:
            return frequencies
        result = list(frequencies)
        # From the top: a class that is slowed down may leave the next one too fast in turn.
        level_ns = recent_ns[slower[0]]
        for i in range(slower[0] + 1, len(result)):
            owed_ns = max(0.0, whole_ns[i - 1] - whole_ns[i])
            wanted_ns = level_ns * (1 + self.MARGIN) + owed_ns
            too_fast = i - 1 in slower or recent_ns[i] < level_ns
            level_ns = recent_ns[i]
            if priorities[i - 1] > priorities[i] and too_fast and recent_ns[i] < wanted_ns:
                level_ns = wanted_ns
                slowed = frequencies[i] * (recent_ns[i] / wanted_ns) ** self.GAIN
                result[i] = max(slowed, priorities[i] * self.LEAST)
        if result == list(frequencies):
            return frequencies
        self._recent.reset()
        self._stepped_ns = now_ns
        return tuple(result)
