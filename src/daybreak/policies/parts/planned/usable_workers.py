"""How many of the workers the processor can keep busy, and what that makes of a job's time."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import ProcessorUse

#: Counted over so long, and not before there is this much of it.
SPAN_NS, LEAST_NS = 3 * NS_PER_S, NS_PER_S
#: From this share on the cores are in use as a whole.
FULL = 0.9
#: The share of its time that is believed of a job on rows if no other shared the cores: it may use
#: all of them. About 0.8 is measured; whoever is given up for a cost that is too high by a third
#: does not come back (``benchmarks/mixed.py --workloads filters --loads 2 --trace FOLDER``).
ALONE = 0.6


class _Sample(NamedTuple):
    at_ns: int
    #: What workers have spent on jobs so far, and cores on anything.
    working_ns: float
    use: ProcessorUse


class UsableWorkers:
    """Learned while the cores are busy: what jobs cost is elapsed time, and so is this.

    Where there are more workers than cores, and these are busy all the time, more jobs at once
    share them and take longer: k jobs on c cores get c/k of one each. So that costs mean the same
    whatever runs beside a job, its time counts by that share, and the workers that are usable are
    those that are busy then on average, counted alike.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._samples: deque[_Sample] = deque()
        self.count = float(workers)
        #: How many jobs at once are enough. While all cores are busy, more only slow each other
        #: down.
        self.enough_jobs = workers

    @property
    def are_shared(self) -> bool:
        """Whether there are more workers than cores, and all these are busy."""
        return self.enough_jobs < self._workers

    @property
    def alone(self) -> float:
        """The share of its time that a job on rows would take by itself."""
        return ALONE if self.are_shared else 1.0

    def share(self, others: float) -> float:
        """The share of a core that a job has beside so many others, on average."""
        return min(1.0, self.enough_jobs / (others + 1.0))

    def note(self, now_ns: int, working_ns: float, use: ProcessorUse | None) -> None:
        """What workers have spent on jobs so far, by their shares; as often as is convenient."""
        if use is None:
            return
        samples = self._samples
        samples.append(_Sample(now_ns, working_ns, use))
        while len(samples) > 2 and samples[1].at_ns <= now_ns - SPAN_NS:
            samples.popleft()
        first, span_ns = samples[0], now_ns - samples[0].at_ns
        busy_ns, idle_ns = use.busy_ns - first.use.busy_ns, use.idle_ns - first.use.idle_ns
        if span_ns < LEAST_NS or busy_ns <= 0:
            return
        busy = busy_ns / (busy_ns + idle_ns)
        self.enough_jobs = max(1, min(use.cores, self._workers)) if busy >= FULL else self._workers
        could = (working_ns - first.working_ns) / span_ns / busy
        # Cores that are idle show no limit, but may show that it was too low.
        could = could if busy >= FULL else max(could, self.count)
        self.count = min(max(could, use.cores, 1.0), float(self._workers))
