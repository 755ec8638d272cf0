"""How much one scheduling step covers: a tuple, a box, or whatever the operating system lets run.

All cycle through what is runnable in one fixed random order, and run the scheduler anew for
every step (aurora-thesis 3.4.2 and 3.4.5); what differs is how much such a step gets done.
``daybreak.policies.superbox`` adds the step that covers a whole application.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.listed import ListParams
from daybreak.policies.round_robin import RoundRobin


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxParams(ListParams):
    """Boxes are what is chosen among."""

    level: Literal["box"] = "box"


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleParams(BoxParams):
    """One tuple per call, unless a longer train is asked for."""

    train: int = 1


class BoxAtATime(RoundRobin):
    """BAAT: the next runnable box in turn takes its train."""

    name = "baat"
    summary = "box-at-a-time: one scheduling step per box, which takes its whole queue"
    on_spark = False  # a query is one box there: the same as round-robin
    Params: ClassVar[type[Any]] = BoxParams
    list_size = 1

    def examined(self, ready: int) -> int:
        # Whoever cycles looks at the next in turn, not at all that wait behind it.
        return min(ready, self._size or ready)


class TupleAtATime(BoxAtATime):
    """TAAT: the next runnable box in turn takes one tuple."""

    name = "taat"
    summary = "tuple-at-a-time: one scheduling step per box and tuple"
    granularity = "tuple"
    Params: ClassVar[type[Any]] = TupleParams


class ThreadPerBox(BoxAtATime):
    """Every box is a thread of the operating system, which switches among them in turn.

    The baseline of Figure 3.3. A context switch costs the fixed part of a scheduling step plus
    one candidate scanned per thread: run queues, caches and locks all grow with the threads.
    """

    name = "thread-per-box"
    summary = "a thread per box, switched in turn at a cost that grows with their number"

    def examined(self, ready: int) -> int:
        return len(self.units.units)
