"""PCT: a thread per class (class-based-thesis 6.2.1).

A thread runs the queries of its class in turn. Threads that outnumber the cores take turns on
them; cores that outnumber the threads stay idle.
"""

from __future__ import annotations

from collections import deque

from daybreak.policies.base import BasePolicy, Change, Plan, View, Work
from daybreak.policies.parts.classes.candidates import Candidates, Turns


class ThreadPerClass(BasePolicy):
    """PCT."""

    name = "pct"
    summary = "a thread per class runs its queries in turn; threads share the cores"
    granularity = "class"
    starves_nothing = True
    on_spark = False  # a baseline of the simulated system
    splits = False

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.candidates = Candidates.queries(view)
        self._threads = [Turns(self.candidates, members) for members in self._members()]
        #: Threads that no core runs, the longest waiting first.
        self._waiting = deque(range(len(self._threads)))
        self._running: dict[int, int] = {}

    def _members(self) -> list[list[int]]:
        """The queries of each thread: a class, or half of one."""
        view = self.view
        order = sorted(range(len(view.class_priority)), key=lambda c: (-view.class_priority[c], c))
        spare = view.workers - len(order) if self.splits else 0
        members = []
        for rank, cls in enumerate(order):
            queries = [q for q, c in enumerate(view.query_class) if c == cls]
            half = (len(queries) + 1) // 2 if rank < spare else len(queries)
            members.append(queries[:half])
            if rank < spare:
                members.append(queries[half:])
        return members

    def on_change(self, change: Change, now_ns: int) -> None:
        for thread, queries in zip(self._threads, self._members(), strict=True):
            thread.members = queries

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        """The longest waiting thread with something to run; the core's own goes on if none has."""
        own = self._running.pop(worker, None)
        if own is not None:
            self._waiting.append(own)
        for thread in list(self._waiting):
            unit = self._threads[thread].next()
            if unit is not None:
                self._waiting.remove(thread)
                self._running[worker] = thread
                self.work.invocations += 1
                return self.candidates.plans[unit]
        return None
