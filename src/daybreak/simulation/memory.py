"""Weighs what the queues hold over time, when asked to.

Every box call and every delivery is recorded, at the price of the executor's short cut for
lists; a run that does not ask pays nothing. A train counts until its call ends: only then are
its tuples let go.
"""

from __future__ import annotations

from typing import Any

from daybreak.simulation.executor import VirtualExecutor, _Job
from daybreak.simulation.loop import SimulationLoop


class WeighingExecutor(VirtualExecutor):
    """The same run, to the tuple, with the bytes in queues recorded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "lists": False})
        self._bytes = [b.tuple_bytes for b in self._network.boxes]
        self._stream_bytes = [
            sum(self._bytes[b] for b in boxes) for boxes in self._network.stream_boxes
        ]
        self._held_bytes = 0

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> None:
        first = self._next
        super()._deliver(until_ns, loop)
        for i in range(first, self._next):
            self._held_bytes += self._stream_bytes[self._stream[i]]
            self._monitor.weighed(self._at[i], self._held_bytes)

    def _emit(self, job: _Job, now: int, loop: SimulationLoop) -> None:
        box = job.plan.steps[job.step][0]
        fed, pending = self._network.downstream[box], self._state.pending
        before = sum(pending[d] * self._bytes[d] for d in fed)
        taken = len(job.arrivals)
        super()._emit(job, now, loop)
        after = sum(pending[d] * self._bytes[d] for d in fed)
        self._held_bytes += after - before - taken * self._bytes[box]
        self._monitor.weighed(now, self._held_bytes)
