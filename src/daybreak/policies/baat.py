"""Box-at-a-time: a scheduling step covers one box and all that is queued at it.

The boxes take turns in one fixed random order, and the scheduler runs again for every step
(aurora-thesis 3.4.2 and 3.4.5). ``taat`` covers less with a step, one tuple; ``aaat`` more, a
whole application; ``thread-per-box`` leaves the choice to the operating system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.parts.queues.execution_list import ListParams
from daybreak.policies.round_robin import RoundRobin


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxParams(ListParams):
    """Boxes are what is chosen among."""

    level: Literal["box"] = "box"


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
