"""AMBD: MBD that prefers queries whose state is still in a core's cache (section 7.3).

A free core looks ten slots ahead for a query that it ran last; if there is one, the two slots
change places. Otherwise it takes the next slot, as MBD does. Worth it only where running a query
on another core costs something.
"""

from __future__ import annotations

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.mbd import MulticoreBroadcastDisks
from daybreak.policies.parts.queues.growing_tables import put

#: How far it looks: the text's arbitrary 10, about 15 % of its workloads' queries.
AHEAD = 10


class AffinityBroadcastDisks(MulticoreBroadcastDisks):
    """The same slots in a round, some of them earlier or later."""

    name = "ambd"
    summary = "mbd that prefers, ten slots ahead, a query last run on the same core"
    on_spark = False  # worker threads there are not cores, and keep nothing warm

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        #: The worker that ran each unit last.
        self._home = [-1] * len(self._plans)

    def on_query_added(self, query: int, now_ns: int) -> None:
        super().on_query_added(query, now_ns)
        put(self._home, self._units.of_query[query], -1)

    def next_slot(self, now_ns: int, worker: int) -> int | None:
        slots, at = self._slots, self._cursor
        for ahead in range(at, min(at + AHEAD, len(slots))):
            unit, chance = slots[ahead]
            # Slots that depend on the lot stay where they are.
            if self._home[unit] == worker and chance == 1.0 and self.can_run(unit):
                if slots[at][1] == 1.0:
                    slots[at], slots[ahead] = slots[ahead], slots[at]
                break
        return super().next_slot(now_ns, worker)

    def _taken(self, unit: int, worker: int) -> Plan:
        self._home[unit] = worker
        return super()._taken(unit, worker)
