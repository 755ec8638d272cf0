"""Why a cell waits under a plan, in the figures of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.policies.reasons import Reason

#: How a job came to begin: when it was due; before, as a worker was free; although it kept
#: worthier cells waiting; in time that no planned cell wanted; or to learn what it costs.
Turn = Literal["due", "early", "forced", "spare", "trial"]


class CellFigures(NamedTuple):
    """What is planned for a cell."""

    queries: int
    #: None: it is not served by plan, and ``dropped`` says why.
    period_ns: int | None
    dropped: str | None
    deadline_ns: float
    job_s: float
    #: Of all workers' time.
    share: float
    #: Cells and queries that share the workers.
    cells: int
    others: int
    workers: int
    utility: float | None
    bound: float | None

    @property
    def figures(self) -> dict[str, float | str]:
        """As a reason shows them."""
        period_s = {} if self.period_ns is None else {"period_s": self.period_ns / NS_PER_S}
        utility = {} if self.utility is None else {"utility": self.utility}
        bound = {} if self.bound is None else {"bound": self.bound}
        goal = {"goal_s": self.deadline_ns / NS_PER_S} if self.deadline_ns else {}
        found = {**period_s, "job_s": self.job_s, "share": self.share, **goal, **utility, **bound}
        return {name: float(f"{value:.4g}") for name, value in found.items()}


class WorkerHeld(NamedTuple):
    """A job that has, or had, a worker while the cell waited."""

    worker: int
    query: str
    along: int
    begun_ns: int
    #: None while it runs.
    ended_ns: int | None
    expected_ns: int


class TurnTaken(NamedTuple):
    """How the last job of a cell came to begin."""

    turn: Turn
    head_ns: int
    due_ns: int
    begun_ns: int


def waited(cell: CellFigures, taken: TurnTaken, held: Sequence[WorkerHeld]) -> Reason:
    """The wait that ended when a job of the cell began."""
    begun_ns = taken.begun_ns
    due_ns = min(max(taken.due_ns, taken.head_ns), begun_ns)
    parts: list[Reason] = []
    if taken.turn in ("spare", "trial"):
        parts.append(_left_out(cell, (taken.head_ns, begun_ns)))
    else:
        parts.append(_turn(cell, (taken.head_ns, due_ns)))
        if due_ns < begun_ns:
            parts.extend(_holders(held, begun_ns))
            parts.append(_yielded((due_ns, begun_ns)))
    return Reason("planned", _verdict(cell), cell.figures, tuple(parts))


def waiting(
    cell: CellFigures,
    now_ns: int,
    head_ns: int,
    due_ns: int,
    held: Sequence[WorkerHeld],
    *,
    crowded: bool,
) -> Reason:
    """A wait that goes on; ``crowded``: so many jobs run that one more would slow all down."""
    parts: list[Reason] = []
    if cell.period_ns is None:
        parts.append(_left_out(cell, (head_ns, now_ns)))
    elif now_ns < due_ns:
        late = f"due in {_s(due_ns - now_ns)}"
        turn = _turn(cell, (head_ns, now_ns))
        parts.append(replace(turn, verdict=f"{turn.verdict}; {late}"))
    elif sum(one.ended_ns is None for one in held) >= cell.workers or crowded:
        parts.extend(_holders(held, now_ns))
    else:
        parts.append(_yielded((due_ns, now_ns)))
    return Reason("planned", _verdict(cell), cell.figures, tuple(parts))


def _verdict(cell: CellFigures) -> str:
    along = "" if cell.queries == 1 else f", with {cell.queries - 1} others"
    if cell.period_ns is None:
        return f"not served by plan{along}: {cell.dropped}"
    slow = ""
    if cell.deadline_ns and cell.period_ns + cell.job_s * NS_PER_S > cell.deadline_ns:
        slow = f", too seldom for its goal of {_s(cell.deadline_ns)}"
    return f"planned every {_s(cell.period_ns)}{along}{slow}"


def _turn(cell: CellFigures, span_ns: tuple[int, int]) -> Reason:
    why = f"{_verdict(cell)}; {cell.others} queries in {cell.cells} jobs share"
    workers = "one worker" if cell.workers == 1 else f"{cell.workers} workers"
    return Reason(
        "period", f"for its turn: {why} {workers}", cell.figures, (), "turn", span_ns
    )  # fmt: skip


def _left_out(cell: CellFigures, span_ns: tuple[int, int]) -> Reason:
    return Reason("dropped", _verdict(cell), cell.figures, (), "unplanned", span_ns)


def _yielded(span_ns: tuple[int, int]) -> Reason:
    text = "made way for cells that lose more by waiting"
    return Reason("room", text, {}, (), "yielded", span_ns)


def _holders(held: Sequence[WorkerHeld], now_ns: int) -> Iterator[Reason]:
    for one in sorted(held, key=lambda h: h.begun_ns - (h.ended_ns or now_ns)):
        ran_ns = (one.ended_ns or now_ns) - one.begun_ns
        along = f" and {one.along} more" if one.along else ""
        runs = "runs for" if one.ended_ns is None else "ran"
        yield Reason(
            "worker",
            f"{one.query}{along} {runs} {_s(ran_ns)}, {_s(one.expected_ns)} were expected",
            {"ran_s": ran_ns / NS_PER_S, "expected_s": one.expected_ns / NS_PER_S},
            worker=(one.worker, one.begun_ns),
        )


def _s(ns: float) -> str:
    return f"{ns / NS_PER_S:.3g} s"
