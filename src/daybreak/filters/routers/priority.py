"""priority: the report's final scheduler (section 5.3, algorithm 1)."""

from __future__ import annotations

from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.pool import most_passed
from daybreak.filters.routers.base import Fetching


class Priority(Fetching):
    """Every filter picks the tuple of highest ``numProcessed - numF x numCurrThread``.

    A tuple nobody works on has priority >= 0, any other < 0: so free tuples come first, by
    filters passed, and no two queues need to agree on priorities. Ties go to the oldest. A tuple
    leaves a filter's queue when the filter starts on it.
    """

    name = "priority"

    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        self.fetch()
        t = self.pool.take_free(filter_, most_passed)
        if t is None and duplicate:
            t = self.pool.take_busy(filter_, lambda b: (self.priority(b), -b.sequence))
        return t

    def priority(self, t: StreamTuple) -> int:
        return t.num_passed - len(self.estimates) * t.num_running


class PriorityLiteral(Priority):
    """As the report words it: a tuple leaves a filter's queue after the filter has processed it.

    The fetch rule then sees a queue that is never empty while its filter works, and fetches less.
    """

    name = "priority-literal"
    keep_started = True
