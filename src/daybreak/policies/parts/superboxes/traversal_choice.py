"""Which of MC and ML gives a superbox the lower mean latency, from what was seen of its runs.

A tuple waits for the run under way to end, and then for its place in the next; or it arrives at
a box whose turn is still to come, and joins the run. Places, lengths of runs and joining tuples
are foreseen for both traversals on the queues that the one in use has left, and how long those
tuples have waited is seen. The other traversal, used all the time, would meet other queues: a run
longer by dT misses more tuples, about half of those that arrive meanwhile, and they make the next
one longer by s dT / 2, where s is the marginal load (arrival rate times what one more tuple adds
to a run); so runs end up longer by dT / (1 - s / 2), and waits with them.
"""

from __future__ import annotations

from collections.abc import Mapping

from daybreak.policies.parts.superboxes.traversals import Foreseen

#: What is left of a look's evidence by the next one.
FADING = 0.995
#: A marginal load beyond this is taken for this: queues stay finite.
SATURATED = 1.9
#: MC is left for an ML that looks better by so many standard errors of the arrival rate: too early
#: an ML, which may overload, costs far more than too late a one.
DOUBT = 2.0


class _Sums:
    """Fading sums over the runs looked at, under one traversal."""

    __slots__ = ("joined", "latency", "length", "outputs")

    def __init__(self) -> None:
        self.latency = self.length = self.outputs = self.joined = 0.0


class Evidence:
    """What looks at one superbox have shown, older ones fading."""

    def __init__(self) -> None:
        #: The better traversal so far; MC until there is evidence, as it never overloads.
        self.choice = "mc"
        self._sums = {"ml": _Sums(), "mc": _Sums()}
        #: What one more tuple adds to a run under each traversal.
        self.marginal_ns = {"ml": 0.0, "mc": 0.0}
        self._looks = self._own = self._elsewhere = self._waited = 0.0
        self._time = self._arrived = 0.0

    def passed(self, time_ns: float, arrived: int) -> None:
        """Since the last look: time, and tuples that entered the superbox."""
        self._time = self._time * FADING + time_ns
        self._arrived = self._arrived * FADING + arrived

    @property
    def rate_per_ns(self) -> float:
        return self._arrived / max(self._time, 1.0)

    def add(
        self,
        seen: Mapping[str, Foreseen],
        own: float,
        waited_ns: float,
        elsewhere: float,
    ) -> None:
        """The run foreseen under each traversal.

        ``own`` counts the tuples queued in the superbox, which have waited so long together;
        ``elsewhere`` those queued in others, which wait for the run to end.
        """
        self._looks = self._looks * FADING + 1
        self._own = self._own * FADING + own
        self._waited = self._waited * FADING + waited_ns
        self._elsewhere = self._elsewhere * FADING + elsewhere
        for kind, run in seen.items():
            s = self._sums[kind]
            s.latency = s.latency * FADING + run.latency_ns * run.outputs
            s.length = s.length * FADING + run.length_ns
            s.outputs = s.outputs * FADING + run.outputs
            s.joined = s.joined * FADING + run.joined
        if self._own and self._arrived and all(s.outputs for s in self._sums.values()):
            mc, ml = self._expected_ns("mc"), self._expected_ns("ml")
            # Of n arrivals, as of a Poisson process: the rate is known to one part in sqrt(n).
            doubt = DOUBT / self._arrived**0.5 if self.choice == "mc" else 0.0
            self.choice = "ml" if ml <= mc * (1 - doubt) else "mc"

    def _expected_ns(self, kind: str) -> float:
        """Mean latency if this traversal were used all the time."""
        now, other = self._sums[self.choice], self._sums[kind]
        if not (now.length and other.length):
            return 0.0  # neither boxes nor calls cost anything
        load = min(self.rate_per_ns * self.marginal_ns[kind], SATURATED)
        length = max(now.length + (other.length - now.length) / (1 - load / 2), 0.0)
        place = other.latency / other.outputs * length / other.length
        waited = self._waited / (self._own + other.joined) * length / now.length
        others = length / self._looks * self._elsewhere / self._own
        return place + waited + others
