"""Express workers: threads that only the most important class may use.

A job cannot be interrupted. So a query that must answer soon waits, when all workers are busy, for
one of them to end, whatever the policy. An express worker is kept out of this: it takes the queries
of the highest class as soon as they hold something, in the order of their oldest tuples, and nobody
else's. The policy assigns the other workers as before, and hears of an express job as of queries
that were taken along: they run, then they are free again and it is told what they cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.engine.state import SystemState
from daybreak.policies.base import Plan, Step


def usable_threads(workers: int, express: int, urgent: float) -> float:
    """How many threads can be kept busy: express ones only with work of the highest class.

    ``urgent``: seconds of work per second that the highest class asks for.
    """
    return workers + min(float(express), urgent)


def highest_priority(class_priority: Sequence[float], query_class: Sequence[int]) -> float:
    """The priority that express workers serve: the highest among classes that have queries."""
    return max(class_priority[c] for c in set(query_class))


class Express:
    """Chooses for express workers, where a query is one box."""

    def __init__(self, state: SystemState) -> None:
        self._state = state
        self.idle = list(range(state.workers, state.threads))

    def next(self) -> Plan | None:
        """The free query of the highest class that waits longest; None if there is none."""
        state = self._state
        waiting = [b for b, n in enumerate(state.pending) if n and not state.running[b]]
        if not waiting:
            return None
        priority, of_query = state.class_priority, state.query_class
        highest = highest_priority(priority, of_query)
        urgent = [b for b in waiting if priority[of_query[b]] == highest]
        if not urgent:
            return None
        return Plan((Step(min(urgent, key=state.head_ns.__getitem__)),))
