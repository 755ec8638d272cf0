"""Load shedding on Spark: under overload, the oldest tuples of some queries are given up.

Who loses how much is decided elsewhere (a ``Shedder``, the same as in simulation); here it is
counted and done. A query's share of what arrived is taken from the head of its own queue: its
cursor moves on, the ranges are recorded as lost, and other queries keep their rows.

Windows and views are spared. A window without some of its rows would be wrong rather than late,
and rows dropped at a view would be missing in several queries and counted in none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from daybreak.engine.shedding import Shedder
from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.eventlog import Say, silent
from daybreak.runtime.loop import Loop
from daybreak.spark.windows.views import ViewSink

if TYPE_CHECKING:
    from daybreak.spark.executor import SparkExecutor

#: Why rows are given up, as it is recorded.
SHED = "shed"
#: So many jobs of a query are not counted: Spark compiles it, and that is not what tuples cost.
WARM_CALLS = 2
#: Weight of the newest window in the costs.
NEWEST = 0.5


class Measured:
    """What the shedder is shown: the system's state, with costs as the latest jobs had them.

    The state's own estimates remember the first jobs, which Spark compiled, for too long.
    """

    def __init__(self, state: SystemState) -> None:
        self._state = state
        self.cost_ns: list[float] = []
        #: Tuples and work of each box that are counted already.
        self._seen: list[tuple[int, int]] = []

    @property
    def network(self) -> Network:
        return self._state.network

    @property
    def workers(self) -> int:
        return self._state.workers

    @property
    def express(self) -> int:
        return self._state.express

    @property
    def selectivity(self) -> Sequence[float]:
        return self._state.selectivity

    @property
    def class_priority(self) -> Sequence[float]:
        return self._state.class_priority

    @property
    def query_class(self) -> Sequence[int]:
        return self._state.query_class

    def look(self) -> None:
        """Lets the costs follow the jobs that have ended since the last call."""
        state = self._state
        new = len(state.calls) - len(self.cost_ns)
        self.cost_ns += [0.0] * new
        self._seen += [(0, 0)] * new
        for box, calls in enumerate(state.calls):
            tuples, work_ns = self._seen[box]
            self._seen[box] = (state.tuples_in[box], state.work_ns[box])
            done = state.tuples_in[box] - tuples
            if calls > WARM_CALLS and done > 0:
                each_ns = (state.work_ns[box] - work_ns) / done
                known_ns = self.cost_ns[box] or each_ns
                self.cost_ns[box] = known_ns + (each_ns - known_ns) * NEWEST


class Shedding:
    """Asks a shedder and does what it says. Used by the loop's thread alone."""

    def __init__(
        self,
        executor: SparkExecutor,
        state: SystemState,
        params: SheddingParams,
        say: Say = silent,
    ) -> None:
        self._say = say
        self._sheds = False
        #: Tuples given up in this spell of overload.
        self._shed_rows = 0
        self._executor = executor
        self._measured = Measured(state)
        self._measured.look()
        self._shedder = Shedder(self._measured, params, spared=self._spared)
        self._window_s = params.window_s
        self._reviewed_s = time.monotonic()
        #: Tuples that had come to each box when it was last looked at.
        self._known: list[int] = []
        #: Tuples that came to each box since the last review.
        self._came: dict[int, int] = {}
        #: What share of what comes to each box is to be dropped now.
        self._shares: dict[int, float] = {}
        #: Tuples that are still to be given up, where that is not while a job is under way.
        self._owed: dict[int, float] = {}

    def tidy(self, loop: Loop) -> None:
        """Called every sampling period; reviews once per window."""
        for box, came in self._arrivals():
            self._came[box] = self._came.get(box, 0) + came
            if box in self._shares:
                self._owed[box] = self._owed.get(box, 0.0) + self._shares[box] * came
        elapsed_s = time.monotonic() - self._reviewed_s
        if elapsed_s >= self._window_s:
            self._reviewed_s += elapsed_s
            self._review(elapsed_s)
        self.settle([b for b in self._owed if not self._executor.in_job(b)], loop)

    def settle(self, boxes: Iterable[int], loop: Loop) -> None:
        """Gives up what is owed of these boxes, as far as it still waits; none is in a job."""
        due = {b: int(self._owed[b]) for b in boxes if self._owed.get(b, 0.0) >= 1}
        if not due:
            return
        for box, tuples in self._executor.skip_oldest(due, SHED, loop).items():
            self._shed_rows += tuples
            self._executor.books.monitor.dropped(box, tuples)
        for box, tuples in due.items():
            self._owed[box] -= tuples

    def _arrivals(self) -> list[tuple[int, int]]:
        """Tuples that came to each box since the last call; not to those that are held."""
        total, standings = list(self._executor.arrived), self._executor.standings
        known = self._known + [0] * (len(total) - len(self._known))
        self._known = total
        came = [(b, n - known[b]) for b, n in enumerate(total)]
        return [(b, n) for b, n in came if n and not standings[b].held]

    def _review(self, elapsed_s: float) -> None:
        executor = self._executor
        self._measured.look()
        backlog = [
            0.0 if standing.held else float(executor.waiting(b)[0])
            for b, standing in enumerate(executor.standings)
        ]
        self._shares = self._shedder.review(elapsed_s, self._came, backlog)
        self._tell(self._shares)
        self._came = {}
        self._owed = {b: owed for b, owed in self._owed.items() if b in self._shares}

    def _spared(self, box: int) -> bool:
        query = self._executor.queries[box]
        return query.checked.windowing is not None or isinstance(query.sink, ViewSink)

    def _tell(self, shares: Mapping[int, float]) -> None:
        if shares and not self._sheds:
            names = {self._executor.queries[b].name: round(s, 4) for b, s in shares.items()}
            message = f"overload: {len(names)} queries lose some of what arrives"
            self._say("shedding-began", message, level=logging.WARNING, shares=names)
        elif self._sheds and not shares:
            message = f"nothing is dropped any more; {self._shed_rows} rows were"
            self._say("shedding-ended", message, rows=self._shed_rows)
            self._shed_rows = 0
        self._sheds = bool(shares)
