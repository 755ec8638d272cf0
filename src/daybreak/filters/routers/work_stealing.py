"""work-stealing: an idle service takes a tuple that few others work on (section 5.2)."""

from __future__ import annotations

import math

from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.routers.base import Fetching


class WorkStealing(Fetching):
    """Lowest concurrency level first, then highest probability of survival, then oldest.

    The report breaks the last tie at random; the oldest keeps runs repeatable and starves none.
    """

    name = "work-stealing"

    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        self.fetch()
        t = self.pool.take_free(filter_, self._survival)
        if t is None and duplicate:
            t = self.pool.take_busy(
                filter_, lambda b: (-b.num_running, self._survival(b.passed), -b.sequence)
            )
        return t

    def _survival(self, passed: int) -> float:
        """s_i: the product of the selectivities of the services still to come."""
        return math.prod(e.selectivity for i, e in enumerate(self.estimates) if not passed >> i & 1)
