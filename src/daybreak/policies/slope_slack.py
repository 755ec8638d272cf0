"""SlopeSlack: the most utility lost per unit of delay first, then the least slack.

Aurora's dynamic scheduler (aurora-thesis 4.2.2, p-tuple scheduling). Utility is the gradient of
the QoS graph at the expected output latency, slack the distance to the next critical point. A
box that is late, with no critical point ahead, goes last; ties go by index.
"""

from __future__ import annotations

import heapq

from daybreak.policies.parts.priorities.urgency import UrgencyPolicy


class SlopeSlack(UrgencyPolicy):
    """An exact sort of p-tuples at every scheduling point."""

    name = "slope-slack"
    summary = "most utility lost per delay first, then least slack to the deadline"
    on_spark = False  # a query is one box there: the same as slope-slack-push

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        pending, heads, priority = self.view.pending, self.heads, self.outlook.priority
        self.work.evaluated += len(ready)
        # The text's scheduler scans the queues of each box for the latencies of its tuples.
        self.work.queued += sum([pending[b] for unit in ready for b in heads[unit]])
        self.work.sorted(len(ready))
        ranked = [(priority(heads[unit], now_ns), unit) for unit in ready]
        return [unit for _, unit in heapq.nsmallest(size, ranked)]
