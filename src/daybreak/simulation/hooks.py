"""What a simulation may ask for beyond the plain run: memory, load shedding, boxes that wait.

The executor calls each of these where it has been asked for, and they combine freely. A run that
asks for none pays one comparison with ``None`` per event.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from heapq import heappop, heappush
from itertools import count

from daybreak.engine.shedding import LoadEstimates, Shedder
from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.loop import NEVER
from daybreak.simulation.plan_run import PlanRun
from daybreak.simulation.randomness import random_for


class HeldBytes:
    """Weighs what the queues hold, at every delivery and at the end of every call.

    A train counts until its results are there: only then are its tuples let go.
    """

    def __init__(self, network: Network, monitor: Monitor) -> None:
        self._monitor = monitor
        self._bytes = [b.tuple_bytes for b in network.boxes]
        self._fed_bytes = [sum(self._bytes[d] for d in down) for down in network.downstream]
        self._held_bytes = 0

    def queued(self, box: int) -> None:
        """A tuple was queued at an input box; ``weigh`` records it."""
        self._held_bytes += self._bytes[box]

    def weigh(self, now_ns: int) -> None:
        """Records what the queues hold from now on."""
        self._monitor.weighed(now_ns, self._held_bytes)

    def emitted(self, box: int, taken: int, emitted: int, now_ns: int) -> None:
        """A box made ``emitted`` tuples of ``taken``; each of them goes to every box it feeds."""
        self._held_bytes += emitted * self._fed_bytes[box] - taken * self._bytes[box]
        self.weigh(now_ns)


class SheddingInputs:
    """Inputs that drop a share of what arrives while the workers are overloaded.

    Which tuples go is drawn by lot: a regular pattern could fall in step with the data's.
    """

    def __init__(self, view: LoadEstimates, params: SheddingParams, seed: int) -> None:
        self._shedder = Shedder(view, params)
        self._window_ns = round(params.window_s * NS_PER_S)
        self._reviewed_ns = 0
        self._arrived: dict[int, int] = {}
        #: What share to drop of each input now.
        self._drop: dict[int, float] = {}
        self._lot = random_for(seed, "shedding").random

    def due(self, now_ns: int) -> bool:
        """Whether ``review`` is to be called now."""
        return now_ns - self._reviewed_ns >= self._window_ns

    def review(self, now_ns: int, backlog: Sequence[float]) -> None:
        """Decides anew what share of each input to drop; ``backlog`` as of ``Shedder.review``."""
        elapsed_s = (now_ns - self._reviewed_ns) / NS_PER_S
        self._drop = self._shedder.review(elapsed_s, self._arrived, backlog)
        self._arrived.clear()
        self._reviewed_ns = now_ns

    def drops(self, box: int) -> bool:
        """Whether the tuple that has just arrived at an input box is dropped."""
        self._arrived[box] = self._arrived.get(box, 0) + 1
        return box in self._drop and self._lot() < self._drop[box]


class Waits:
    """Boxes that wait for something other than the CPU: a database, a remote service (6.3.7).

    A call of such a box works as any other, and its results come ``wait_ns`` later. A worker that
    *blocks* stays with the call until then. One that *yields* runs other boxes; the results
    arrive downstream by themselves, and the box may be called again meanwhile.
    """

    def __init__(self, network: Network, yields: bool) -> None:
        self._wait_ns = [b.wait_ns for b in network.boxes]
        self._yields = yields
        self._calls: list[tuple[int, int, PlanRun]] = []
        self._sequence = count()

    def block(self, run: PlanRun, box: int) -> int:
        """How much longer a worker stays with the call that it begins (ns)."""
        wait_ns = 0 if self._yields else self._wait_ns[box]
        if wait_ns:
            run.spent_ns += wait_ns
            run.postpone(wait_ns)
        return wait_ns

    def keep(self, run: PlanRun, now_ns: int) -> bool:
        """Keeps the results of a call whose work has ended; False if they are there already."""
        wait_ns = self._wait_ns[run.box] if self._yields else 0
        if wait_ns:
            kept = copy(run)
            kept.postpone(wait_ns)
            heappush(self._calls, (now_ns + wait_ns, next(self._sequence), kept))
        return wait_ns > 0

    @property
    def due_ns(self) -> int:
        """When the next results come."""
        return self._calls[0][0] if self._calls else NEVER

    def take(self) -> PlanRun:
        """The call whose results come next."""
        return heappop(self._calls)[2]

    def kept(self) -> list[PlanRun]:
        """Calls whose results are still to come."""
        return [run for _, _, run in self._calls]


class BlockedTime:
    """The estimates of a state, where the time that a call blocks its worker counts as work.

    What a tuple takes of it depends on how many share a call: it is a mean over the calls so far.
    """

    def __init__(self, state: SystemState) -> None:
        self._state = state
        self.network = state.network
        self.workers = state.workers
        self.express = state.express

    @property
    def cost_ns(self) -> Sequence[float]:
        """Worker time per tuple of each box."""
        state = self._state
        seen = zip(self.network.boxes, state.cost_ns, state.calls, state.tuples_in, strict=True)
        return [cost + b.wait_ns * calls / max(1, tuples) for b, cost, calls, tuples in seen]

    @property
    def selectivity(self) -> Sequence[float]:
        """Outputs per input of each box."""
        return self._state.selectivity

    @property
    def class_priority(self) -> Sequence[float]:
        """The present priority of each class."""
        return self._state.class_priority

    @property
    def query_class(self) -> Sequence[int]:
        """The present class of each query."""
        return self._state.query_class
