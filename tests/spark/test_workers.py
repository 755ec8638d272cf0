"""Orders of several jobs, without Spark: a query that one job leaves behind is not overtaken."""

from __future__ import annotations

from queue import SimpleQueue
from typing import cast

from daybreak.policies.base import Plan
from daybreak.spark.jobs import JobRunner, Ran
from daybreak.spark.workers import Done, Group, Order, Ticket, Workers

RAN = Ran((), 0, 0, 0, 0, {}, ())


class NoRunner:
    """Runs nothing, and is closed when its worker ends."""

    def close(self) -> None: ...


def test_a_query_whose_range_was_not_committed_takes_part_in_no_later_job_of_the_order() -> None:
    """Its later range does not begin where the query is, so that job would fail."""
    asked: list[list[int]] = []

    def run_group(_runner: JobRunner, group: Group, _ticket: Ticket) -> tuple[list[int], Ran]:
        asked.append(group.boxes)
        return (group.boxes[:1] if len(asked) == 1 else group.boxes), RAN  # the first falls apart

    ended: SimpleQueue[Done] = SimpleQueue()
    workers = Workers(
        1,
        lambda _tag: cast("JobRunner", NoRunner()),
        run_group,
        lambda _worker, _order, ran, _failure, _cost_ns: ended.put(ran),
        job_timeout_s=60,
    )
    groups = [Group(boxes, [], boxes) for boxes in ([0, 1], [2, 1, 3], [1, 4], [4, 5], [5], [6])]
    workers.submit(0, Order(Plan(()), groups))
    ran = ended.get(timeout=30)
    workers.join()
    assert asked == [[0, 1], [2, 3], [6]]
    assert [boxes for boxes, _ in ran] == [[0], [2, 3], [], [], [], [6]]
