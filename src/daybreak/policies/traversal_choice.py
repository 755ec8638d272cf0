"""Which of MC and ML gives a superbox the lower mean latency, from what was seen of its runs.

A tuple waits until the run under way ends and then for its place in the next run. With runs of
length T in cycles of length C, an arrival waits E[T²] / (2 E[C]) on average. What the traversal
in use does shows in the queues. The other one is foreseen on the same queues; but used all the
time it would meet other queues: a run longer by dT gathers more tuples for the next, which is
longer by s dT, where s is the marginal load (arrival rate times what one more tuple adds to a
run), so that runs end up longer by dT / (1 - s).
"""

from __future__ import annotations

from collections.abc import Mapping

from daybreak.policies.traversals import Foreseen

#: What is left of a review's evidence by the next one.
FADING = 0.98
#: A marginal load beyond this is taken for this: queues stay finite.
SATURATED = 0.95


class _Sums:
    """Fading sums over the runs reviewed, under one traversal."""

    __slots__ = ("latency", "length", "marginal", "outputs", "square")

    def __init__(self) -> None:
        self.latency = self.length = self.square = self.outputs = self.marginal = 0.0


class Evidence:
    """What reviews of one superbox have shown, older ones fading."""

    def __init__(self) -> None:
        #: The better traversal so far; MC until there is evidence, as it never overloads.
        self.choice = "mc"
        self._sums = {"ml": _Sums(), "mc": _Sums()}
        self._reviews = self._own = self._elsewhere = 0.0
        self._runs = self._time = self._arrived = 0.0

    def passed(self, time_ns: float, runs: int, arrived: int) -> None:
        """Since the last review: time, runs of the superbox, and tuples that entered it."""
        self._time = self._time * FADING + time_ns
        self._runs = self._runs * FADING + runs
        self._arrived = self._arrived * FADING + arrived

    def add(self, seen: Mapping[str, tuple[Foreseen, float]], own: float, elsewhere: float) -> None:
        """Under each traversal: the run foreseen, and what one more tuple would add to it.

        ``own`` counts the tuples queued in the superbox, ``elsewhere`` those queued in others,
        which wait for the run to end.
        """
        self._reviews = self._reviews * FADING + 1
        self._own = self._own * FADING + own
        self._elsewhere = self._elsewhere * FADING + elsewhere
        for kind, (run, marginal) in seen.items():
            s = self._sums[kind]
            s.latency = s.latency * FADING + run.latency_ns * run.outputs
            s.length = s.length * FADING + run.length_ns
            s.square = s.square * FADING + run.length_ns**2
            s.outputs = s.outputs * FADING + run.outputs
            s.marginal = s.marginal * FADING + marginal
        if self._runs and self._own and all(s.outputs for s in self._sums.values()):
            # A tie goes to ML: under it, what arrives during a run does not hold up the rest.
            self.choice = min(self._sums, key=self._expected_ns)

    def _expected_ns(self, kind: str) -> float:
        """Mean latency if this traversal were used all the time."""
        now, other = self._sums[self.choice], self._sums[kind]
        if not (now.length and other.length):
            return 0.0  # neither boxes nor calls cost anything
        load = min(self._arrived / max(self._time, 1.0) * other.marginal / self._reviews, SATURATED)
        length = max(now.length + (other.length - now.length) / (1 - load), 0.0)
        place = other.latency / other.outputs * length / other.length
        cycle = max(self._time / self._runs, now.length / self._reviews)
        wait = now.square / self._reviews / (2 * cycle) * (length / now.length) ** 2
        others = length / self._reviews * self._elsewhere / self._own
        return place + wait + others
