"""Boxes that wait for something other than the CPU: a database, a remote service (6.3.7).

A call of such a box works as any other, and its results come ``wait_ns`` later. A worker that
*blocks* stays with the call until then. One that *yields* runs other boxes; the results
arrive downstream by themselves, and the box may be called again meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from heapq import heappop, heappush
from itertools import count
from typing import Any

from daybreak.simulation.executor import VirtualExecutor, _Job
from daybreak.simulation.loop import SimulationLoop


class WaitingExecutor(VirtualExecutor):
    """The same in virtual time, with boxes that wait."""

    def __init__(self, *args: Any, yields: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "lists": False})
        self.yields = yields
        self._waits = [b.wait_ns for b in self._network.boxes]
        self._returns: list[tuple[int, int, _Job]] = []
        self._sequence = count()

    def _begin(self, worker: int, now: int) -> bool:
        began = super()._begin(worker, now)
        job = self._jobs[worker]
        if began and not self.yields and (wait := self._waits[job.plan.steps[job.step][0]]):
            job.spent_ns += wait
            self._ends[worker] += wait
            _postpone(job, wait)
        return began

    def _emit(self, job: _Job, now: int, loop: SimulationLoop) -> None:
        wait = self._waits[job.plan.steps[job.step][0]] if self.yields else 0
        if not wait:
            super()._emit(job, now, loop)
            return
        held, due = copy(job), now + wait
        _postpone(held, wait)
        heappush(self._returns, (due, next(self._sequence), held))
        # An arrival at no box stands for it among the others: the clock stops there.
        place = bisect_right(self._at, due, self._next)
        self._at.insert(place, due)
        self._stream.insert(place, len(self._network.streams))

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> None:
        while self._returns and self._returns[0][0] <= until_ns:
            due, _, held = heappop(self._returns)
            super()._deliver(due, loop)
            super()._emit(held, due, loop)
        super()._deliver(until_ns, loop)


def _postpone(job: _Job, wait_ns: int) -> None:
    """Results leave so much later than the work on them ends."""
    job.began_ns += wait_ns
    if job.ends_ns is not None:
        job.ends_ns = [at + wait_ns for at in job.ends_ns]
