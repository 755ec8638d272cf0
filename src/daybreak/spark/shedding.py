"""Load shedding on Spark: under overload, the oldest tuples of some queries are given up.

Who loses how much is decided elsewhere (a ``Shedder``, the same as in simulation); here it is
counted and done. A query's share of what arrived is taken from the head of its own queue: its
cursor moves on, the ranges are recorded as lost, and other queries keep their rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from daybreak.policies.base import View
from daybreak.runtime.eventlog import Say, silent
from daybreak.runtime.loop import Loop

if TYPE_CHECKING:
    from daybreak.spark.executor import SparkExecutor


class Shedder(Protocol):
    """Decides. Called once per window, on the loop's thread."""

    def review(
        self, elapsed_s: float, arrived: Mapping[int, int], backlog: Sequence[float]
    ) -> Mapping[int, float]:
        """The share of what arrives at each box to drop; boxes not named drop nothing.

        ``arrived``: tuples per box since the last review; ``backlog``: what waits at each.
        """


MakeShedder = Callable[[View], Shedder]


class Shedding:
    """Asks a shedder and does what it says. Used by the loop's thread alone."""

    def __init__(
        self, executor: SparkExecutor, shedder: Shedder, window_s: float, say: Say = silent
    ) -> None:
        self._say = say
        self._sheds = False
        self._executor = executor
        self._shedder = shedder
        self._window_s = window_s
        self._reviewed_s = time.monotonic()
        self._arrived: list[int] = []
        #: Tuples that are to be given up as soon as no job of the query is under way.
        self._owed: dict[int, int] = {}

    def tidy(self, loop: Loop) -> None:
        """Called now and then; reviews once per window."""
        elapsed_s = time.monotonic() - self._reviewed_s
        if elapsed_s >= self._window_s:
            self._reviewed_s += elapsed_s
            self._review(elapsed_s)
        for box in [b for b in self._owed if not self._executor.in_job(b)]:
            self._executor.skip_oldest(box, self._owed.pop(box), "shed", loop)

    def _review(self, elapsed_s: float) -> None:
        total = list(self._executor.arrived)
        known = self._arrived + [0] * (len(total) - len(self._arrived))
        came = {b: n - known[b] for b, n in enumerate(total) if n > known[b]}
        self._arrived = total
        backlog = [float(self._executor.waiting(b)[0]) for b in range(len(total))]
        shares = self._shedder.review(elapsed_s, came, backlog)
        self._tell({box: share for box, share in shares.items() if share > 0})
        for box, share in shares.items():
            if drop := round(share * came.get(box, 0)):
                self._owed[box] = self._owed.get(box, 0) + drop

    def _tell(self, shares: Mapping[int, float]) -> None:
        if shares and not self._sheds:
            names = {self._executor.queries[b].name: round(s, 4) for b, s in shares.items()}
            message = f"overload: {len(names)} queries lose some of what arrives"
            self._say("shedding-began", message, level=logging.WARNING, shares=names)
        elif self._sheds and not shares:
            self._say("shedding-ended", "nothing is dropped any more")
        self._sheds = bool(shares)
