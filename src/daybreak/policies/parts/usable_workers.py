"""How many of the workers the processor can keep busy."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import ProcessorUse

#: Counted over so long, and not before there is this much of it.
SPAN_NS, LEAST_NS = 3 * NS_PER_S, NS_PER_S
#: From this share on the cores are in use as a whole.
FULL = 0.9


class _Sample(NamedTuple):
    at_ns: int
    #: What workers have spent on jobs so far, and cores on anything.
    working_ns: int
    use: ProcessorUse


class UsableWorkers:
    """Learned while the cores are busy: what jobs cost is elapsed time, and so is this.

    Reading streams takes processor time too, and there may be more workers than cores. Where the
    cores are busy all the time, more jobs at once only make each of them take longer: the workers
    that are busy then, on average, are all that can be.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._samples: deque[_Sample] = deque()
        self.count = float(workers)
        #: How many jobs at once are enough. While all cores are busy, more only slow each other
        #: down.
        self.enough_jobs = workers

    def note(self, now_ns: int, working_ns: int, use: ProcessorUse | None) -> None:
        """What workers have spent on jobs so far; as often as is convenient."""
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
        self.count = min(max(could, float(use.cores)), float(self._workers))
