"""Drops tuples at the inputs in virtual time, when asked to.

A run that does not ask pays nothing: it is another executor.
"""

from __future__ import annotations

from typing import Any

from daybreak.engine.shedding import Shedder
from daybreak.model.qos import NS_PER_S
from daybreak.model.shedding import SheddingParams
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.loop import NEVER, SimulationLoop
from daybreak.simulation.randomness import random_for


class SheddingExecutor(VirtualExecutor):
    """The same executor behind inputs that drop a share of what arrives under overload.

    Which tuples go is drawn by lot: a regular pattern could fall in step with the data's.
    """

    def __init__(self, *args: Any, shedding: SheddingParams, seed: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, seed=seed, **kwargs)
        self._shedder = Shedder(self._state, shedding)
        self._window_ns = round(shedding.window_s * NS_PER_S)
        self._reviewed_ns = 0
        self._arrived: dict[int, int] = {}
        #: What share to drop of each input now.
        self._drop: dict[int, float] = {}
        self._lot = random_for(seed, "shedding").random

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> None:
        """Queues every arrival up to this instant that is not dropped."""
        if until_ns >= self._monitor.next_sample_ns:
            self._monitor.sample(until_ns, self._state, self.offered.until(until_ns))
        state, stream_boxes, arrived = self._state, self._network.stream_boxes, self._arrived
        i = self._next
        while (now := self._at[i]) <= until_ns:
            if now - self._reviewed_ns >= self._window_ns:
                self._review(now)
            for b in stream_boxes[self._stream[i]]:
                arrived[b] = arrived.get(b, 0) + 1
                # Drawn dropped or not, so that fates do not depend on what is shed.
                luck = self._luck() if self._lucky[b] else 0.0
                if b in self._drop and self._lot() < self._drop[b]:
                    self._monitor.dropped(b, 1)
                    continue
                if not state.pending[b]:
                    state.head_ns[b] = now
                state.pending[b] += 1
                state.arrival_sum_ns[b] += now
                self._arrivals[b].append(now)
                if self._lucky[b]:
                    self._lucks[b].append(luck)
                loop.arrived(b, 1, now)
            i += 1
        self._next = i

    def _review(self, now_ns: int) -> None:
        backlog = [float(n) for n in self._state.pending]
        for job, ends_ns in zip(self._jobs, self._ends, strict=True):
            if ends_ns != NEVER and job.step >= 0 and not job.through:
                backlog[job.plan.steps[job.step].box] += len(job.arrivals)
        elapsed_s = (now_ns - self._reviewed_ns) / NS_PER_S
        self._drop = self._shedder.review(elapsed_s, self._arrived, backlog)
        self._arrived.clear()
        self._reviewed_ns = now_ns
