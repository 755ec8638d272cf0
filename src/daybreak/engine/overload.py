"""Load shedding: under overload, the oldest tuples of some queries are given up.

Who loses how much is decided elsewhere (a ``Shedder``, the same as in tuple simulations); here it
is counted and done. A query's share of what arrived is taken from the head of its own inbox: it
moves on, the ranges are recorded as lost, and other queries keep their rows.

Windows and views are spared. A window without some of its rows would be wrong rather than late,
and rows dropped at a view would be missing in several queries and counted in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from daybreak.engine.core import Core
from daybreak.engine.instructions import WARNING, Shed
from daybreak.engine.lifecycle import SHED, Lifecycle
from daybreak.engine.shedding import Shedder
from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S
from daybreak.model.shedding import SheddingParams

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


class LoadShedding:
    """Asks a shedder and gives up what it names."""

    def __init__(self, core: Core, lifecycle: Lifecycle, params: SheddingParams) -> None:
        self._core = core
        self._lifecycle = lifecycle
        self._sheds = False
        #: Tuples given up in this spell of overload.
        self._shed_rows = 0
        self._measured = Measured(core.state)
        self._measured.look()
        facts = core.queries.facts
        self._shedder = Shedder(self._measured, params, spared=lambda b: facts[b].spared)
        self._window_ns = round(params.window_s * NS_PER_S)
        self._reviewed_ns: int | None = None
        #: Tuples that had come to each box when it was last looked at.
        self._known: list[int] = []
        #: Tuples that came to each box since the last review.
        self._came: dict[int, int] = {}
        #: What share of what comes to each box is to be dropped now.
        self._shares: dict[int, float] = {}
        #: Tuples that are still to be given up, where that is not while a job is under way.
        self._owed: dict[int, float] = {}

    def woke(self) -> None:
        """Time has passed; reviews once per window."""
        for box, came in self._arrivals():
            self._came[box] = self._came.get(box, 0) + came
            if box in self._shares:
                self._owed[box] = self._owed.get(box, 0.0) + self._shares[box] * came
        now_ns = self._core.now_ns
        if self._reviewed_ns is None:
            self._reviewed_ns = now_ns
        elif now_ns - self._reviewed_ns >= self._window_ns:
            elapsed_s = (now_ns - self._reviewed_ns) / NS_PER_S
            self._reviewed_ns = now_ns
            self._review(elapsed_s)
        self.settle([b for b in self._owed if not self._core.queries.in_job(b)])

    def forget(self, box: int) -> None:
        """Another query comes to this box: it does not lose what the former one was to lose."""
        for figures in (self._owed, self._shares, self._came):
            figures.pop(box, None)

    def settle(self, boxes: Iterable[int]) -> None:
        """Gives up what is owed of these boxes, as far as it still waits; none is in a job."""
        due = {b: int(self._owed[b]) for b in boxes if self._owed.get(b, 0.0) >= 1}
        due = {b: n for b, n in due.items() if not self._lifecycle.skipping(b)}
        if due and not self._lifecycle.skip(due, SHED, lambda rows: self._shed(due, rows)):
            self._pay(due)  # nothing waits: what was to go has been answered

    def _shed(self, due: Mapping[int, int], rows: Mapping[int, int] | None) -> None:
        if rows is not None:  # else it could not be recorded, and stays due
            self._shed_rows += sum(rows.values())
            self._core.emit(Shed(rows))
            self._pay(due)

    def _pay(self, due: Mapping[int, int]) -> None:
        for box, tuples in due.items():
            if box in self._owed:
                self._owed[box] -= tuples

    def _arrivals(self) -> list[tuple[int, int]]:
        """Tuples that came to each box since the last call; not to those that are held."""
        total, status = list(self._core.state.arrived), self._core.queries.status
        known = self._known + [0] * (len(total) - len(self._known))
        self._known = total
        came = [(b, n - known[b]) for b, n in enumerate(total)]
        return [(b, n) for b, n in came if n and not status[b].held]

    def _review(self, elapsed_s: float) -> None:
        queries = self._core.queries
        self._measured.look()
        backlog = [
            0.0 if status.held else float(inbox.tuples)
            for status, inbox in zip(queries.status, queries.inboxes, strict=True)
        ]
        self._shares = self._shedder.review(elapsed_s, self._came, backlog)
        self._tell(self._shares)
        self._came = {}
        self._owed = {b: owed for b, owed in self._owed.items() if b in self._shares}

    def _tell(self, shares: Mapping[int, float]) -> None:
        if shares and not self._sheds:
            facts = self._core.queries.facts
            names = {facts[b].name: round(s, 4) for b, s in shares.items()}
            message = f"overload: {len(names)} queries lose some of what arrives"
            self._core.notice("shedding-began", message, level=WARNING, shares=names)
        elif self._sheds and not shares:
            message = f"nothing is dropped any more; {self._shed_rows} rows were"
            self._core.notice("shedding-ended", message, rows=self._shed_rows)
            self._shed_rows = 0
        self._sheds = bool(shares)
