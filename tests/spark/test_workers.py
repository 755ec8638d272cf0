"""Worker threads, without Spark: orders of several jobs, and jobs past their time limit."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import cast

from daybreak.engine.events import Done, JobBegan, JobEnded, Ran
from daybreak.engine.instructions import Group, StartJob
from daybreak.policies.base import Plan
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.jobs.workers import Ticket, Workers

RAN = Ran((), 0, 0, 0, 0, {}, ())


class NoRunner:
    """Runs nothing, and is closed when its worker ends."""

    def close(self) -> None: ...


def test_a_query_whose_range_was_not_committed_takes_part_in_no_later_job_of_the_order() -> None:
    """Its later range does not begin where the query is, so that job would fail."""
    asked: list[tuple[int, ...]] = []

    def run_group(_runner: JobRunner, group: Group, _ticket: Ticket) -> Done:
        asked.append(group.boxes)
        ran = group.boxes[:1] if len(asked) == 1 else group.boxes  # the first falls apart
        return Done(ran, RAN)

    told: SimpleQueue[JobBegan | JobEnded] = SimpleQueue()
    workers = Workers(
        1, lambda _tag: cast("JobRunner", NoRunner()), run_group, told.put, lambda _tag: None, 60
    )
    boxes = ((0, 1), (2, 1, 3), (1, 4), (4, 5), (5,), (6,))
    workers.submit(StartJob(7, 0, Plan(()), tuple(Group(b, (), b) for b in boxes)))
    assert [told.get(timeout=30) for _ in boxes[1:]] == [JobBegan(7, n) for n in range(1, 6)]
    ended = told.get(timeout=30)
    workers.join()
    assert asked == [(0, 1), (2, 3), (6,)]
    assert isinstance(ended, JobEnded)
    assert [done.boxes for done in ended.done] == [(0,), (2, 3), (), (), (), (6,)]


def test_a_query_whose_result_was_not_delivered_takes_part_in_no_later_job_of_the_order() -> None:
    """A sink that recognises deliveries by their number would take the earlier one for known."""
    asked: list[tuple[int, ...]] = []

    def run_group(_runner: JobRunner, group: Group, _ticket: Ticket) -> Done:
        asked.append(group.boxes)
        return Done(group.boxes, RAN, behind=(1,) if len(asked) == 1 else ())

    told: SimpleQueue[JobBegan | JobEnded] = SimpleQueue()
    workers = Workers(
        1, lambda _tag: cast("JobRunner", NoRunner()), run_group, told.put, lambda _tag: None, 60
    )
    boxes = ((0, 1), (2, 1), (1, 3))
    workers.submit(StartJob(7, 0, Plan(()), tuple(Group(b, (), b) for b in boxes)))
    ended = [told.get(timeout=30) for _ in boxes][-1]
    workers.join()
    assert asked == [(0, 1), (2,)]
    assert isinstance(ended, JobEnded)
    assert [done.boxes for done in ended.done] == [(0, 1), (2,), ()]


def test_only_the_present_job_is_cancelled_and_what_is_left_behind_again() -> None:
    """The engine hears of a worker's next job a little later than the worker begins it."""
    began, may_end = threading.Semaphore(0), threading.Event()

    def run_group(_runner: JobRunner, group: Group, _ticket: Ticket) -> Done:
        if group.boxes == (1,):
            began.release()
            may_end.wait(timeout=30)
        return Done(group.boxes, RAN)

    told: SimpleQueue[JobBegan | JobEnded] = SimpleQueue()
    cancelled: list[str] = []
    workers = Workers(
        1, lambda _tag: cast("JobRunner", NoRunner()), run_group, told.put, cancelled.append, 60
    )
    groups = tuple(Group((box,), (), (box,)) for box in (0, 1))
    workers.submit(StartJob(7, 0, Plan(()), groups))
    assert began.acquire(timeout=30)
    workers.cancel(0, 7, 0)
    workers.abandon(0, 7, 0)
    assert cancelled == [], "that job has ended: another one is under way"
    workers.cancel(0, 7, 1)
    workers.cancel_left()
    assert len(cancelled) == 1
    workers.abandon(0, 7, 1)
    workers.cancel_left()
    assert cancelled == [cancelled[0]] * 2, "a stage may begin late"
    may_end.set()
    workers.join()
    assert told.get(timeout=30) == JobBegan(7, 1)
    ended = told.get(timeout=30)
    assert isinstance(ended, JobEnded)
    assert (ended.done, ended.failure is not None) == ((Done((0,), RAN),), True)
