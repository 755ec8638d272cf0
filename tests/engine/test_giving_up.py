"""Rows that are given up: where the log is full, and under overload."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.inside import inside
from tests.engine.made import MS, SECOND, Bench, First, inbox_of, start

from daybreak.engine.core import Settings
from daybreak.engine.costs import Kind
from daybreak.engine.events import (
    AddQuery,
    Drop,
    Failure,
    JobEnded,
    LogFull,
    Resume,
    SegmentArrived,
    Skipped,
)
from daybreak.engine.inbox import Waiting, closing
from daybreak.engine.instructions import (
    WARNING,
    Finished,
    Group,
    Instruction,
    Notice,
    Shed,
    Skip,
    StartJob,
)
from daybreak.engine.queries import Owner, QueryFacts
from daybreak.model.limits import Limits
from daybreak.model.shedding import SheddingParams

LONE = QueryFacts("lone", ("s",), "job", on_full="skip")
WINDOW = QueryFacts("windows", ("s",), "window", "w", "windows", spared=True, on_full="skip")


def busy_with(facts: QueryFacts, **more: QueryFacts) -> Bench:
    """A query with 5 tuples in a job, and 3 and 4 that wait."""
    bench = Bench([facts, *more.values()])
    for rows in (5, 3, 4):
        bench.tell(SegmentArrived(bench.segment("s", rows, after_us=rows * 10)))
    return bench


def jobs_in(out: list[Instruction]) -> list[StartJob]:
    return [i for i in out if isinstance(i, StartJob)]


def ends(bench: Bench) -> JobEnded:
    """The only job under way ends well."""
    [order] = bench.engine.orders.values()
    return bench.well(StartJob(order.number, order.worker, order.plan, order.groups))


# A full log


def lagging(*facts: QueryFacts, classes: str = "") -> Bench:
    """Queries for which segments of 5, 3 and 4 tuples wait, and a stopped policy."""
    bench = Bench(facts, classes, policy=Idle())
    for n, rows in enumerate((5, 3, 4), 1):
        bench.tell(SegmentArrived(bench.segment("s", rows, after_us=n * 10)))
    return bench


class Idle(First):
    """Plans nothing until it is asked to."""

    name = "idle"

    def decide(self, now_ns: int, worker: int) -> None:
        return None


def test_a_query_that_may_skip_loses_what_lies_before_the_cut() -> None:
    bench = lagging(LONE)
    first, second, third = bench.waiting(0)
    assert bench.tell(LogFull({"s": (2, 0)})) == [Skip(1, ((0, (first, second)),), "full")]
    assert inside(bench.engine).state.pending == [4], "policies see what is left"
    assert (bench.owner(0), bench.engine.quiet) == (Owner.HELD, False)
    assert bench.tell(LogFull({"s": (3, 0)})) == [], "one skip after the other"
    assert bench.tell(Skipped(1)) == []
    assert (bench.owner(0), bench.waiting(0)) == (Owner.IDLE, [third])
    policy = inside(bench.engine).policy
    assert isinstance(policy, Idle)
    assert policy.heard[-2:] == [("withdrawn", 0), ("returned", 0)]


def test_a_skip_that_cannot_be_recorded_puts_everything_back() -> None:
    bench = lagging(LONE)
    before = bench.waiting(0)
    bench.tell(LogFull({"s": (2, 0)}), SegmentArrived(bench.segment("s", 2)))
    assert bench.tell(Skipped(1, recorded=False)) == []
    assert bench.waiting(0) == [*before, Waiting(0, "s", 2, 3)]
    assert inside(bench.engine).state.pending == [14]


@pytest.mark.parametrize(
    ("on_full", "cls", "loses"),
    [("skip", "h", True), ("block", "l", False), (None, "l", True), (None, "h", False)],
)
def test_who_blocks_keeps_its_rows(on_full: str | None, cls: str, loses: bool) -> None:
    """Where nothing is declared, the highest class does."""
    facts = replace(LONE, on_full=on_full)  # type: ignore[arg-type]
    bench = lagging(facts, classes=cls)
    assert bool(bench.tell(LogFull({"s": (1, 0)}))) == loses


@pytest.mark.parametrize("kind", ["window", "prepared"])
def test_a_query_over_windows_loses_whole_windows(kind: Kind) -> None:
    """However its jobs run: the oldest windows go, and no more than the log names."""
    bench = lagging(replace(WINDOW, kind=kind))
    oldest = closing(0, "s", 5, 0, 10)
    assert bench.waiting(0)[0] == oldest
    assert bench.tell(LogFull({"s": (2, 0)}, {0: 1})) == [Skip(1, ((0, (oldest,)),), "full")]


def test_a_query_in_a_job_loses_nothing_until_the_job_has_ended() -> None:
    bench = busy_with(LONE)
    assert bench.tell(LogFull({"s": (3, 0)})) == []
    out = bench.tell(ends(bench), LogFull({"s": (3, 0)}))
    assert out[1:] == [Skip(1, ((0, (Waiting(0, "s", 3, 1), Waiting(0, "s", 4, 2))),), "full")]


def test_rows_that_a_full_log_took_are_not_skipped_again_by_a_resume() -> None:
    """The query failed on rows that are gone: those that wait now have done nothing wrong."""
    bench = Bench([LONE], settings=Settings(limits=Limits(retries=0)))
    bench.tell(SegmentArrived(bench.segment("s", 5)))
    bench.tell(SegmentArrived(bench.segment("s", 3)), JobEnded(1, (), Failure("boom"), MS))
    bench.tell(LogFull({"s": (1, 0)}))
    bench.tell(Skipped(1))
    assert bench.tell(Resume(0, skip=True, command=7)) == [
        Finished(7),
        start(2, [Group((0,), (Waiting(0, "s", 3, 1),), (0,))]),
    ]


# Overload

PARAMS = SheddingParams(window_s=1.0, patience_s=0.0, recover_s=1.0, by="uniform")


def overloaded(*facts: QueryFacts) -> Bench:
    """Jobs of 10 ms a tuple, and 200 tuples a second: twice as much as there is time for."""
    bench = Bench(facts, settings=Settings(shedding=PARAMS, rider_bound_ns=0))
    bench.woke(0)
    for _ in range(4):  # the first jobs, which do not count
        bench.tell(SegmentArrived(bench.segment("s", 10)))
        while bench.engine.busy:
            [order] = bench.engine.orders.values()
            job = StartJob(order.number, order.worker, order.plan, order.groups)
            bench.tell(bench.well(job, ms=10 * job.groups[0].tuples))
    return bench


def flooded(*facts: QueryFacts) -> Bench:
    """The same, with 200 tuples in a job, 300 that wait, and some of them to be shed."""
    bench = overloaded(*facts)
    bench.tell(SegmentArrived(bench.segment("s", 200)))
    bench.tell(SegmentArrived(bench.segment("s", 200)))
    bench.woke(SECOND)
    bench.tell(SegmentArrived(bench.segment("s", 100)))
    assert bench.woke(SECOND + 100 * MS) == [], "not while it is in a job"
    return bench


def test_under_overload_the_oldest_tuples_are_shed_once_no_job_has_the_query() -> None:
    bench = overloaded(LONE)
    bench.tell(SegmentArrived(bench.segment("s", 200)))
    bench.tell(SegmentArrived(bench.segment("s", 200)))
    [began] = bench.woke(SECOND)
    assert isinstance(began, Notice)
    assert (began.event, began.level) == ("shedding-began", WARNING)
    bench.tell(SegmentArrived(bench.segment("s", 100)))
    assert bench.woke(SECOND + 100 * MS) == [], "not while it is in a job"
    out = bench.tell(ends(bench))
    [skip] = [i for i in out if isinstance(i, Skip)]
    assert (skip.why, jobs_in(out)) == ("shed", [])
    [(box, given)] = skip.given
    lost = sum(item.tuples for item in given)
    assert 0 < lost <= 100
    assert given[0] == Waiting(0, "s", min(200, lost), 5), "from the head of what waits"
    [shed, job] = bench.tell(Skipped(skip.skip))
    assert shed == Shed({box: lost})
    assert isinstance(job, StartJob)


def test_what_could_not_be_recorded_stays_due() -> None:
    bench = flooded(LONE)
    first = next(i for i in bench.tell(ends(bench)) if isinstance(i, Skip))
    assert not jobs_in(bench.woke(SECOND + 200 * MS)), "one skip after the other"
    [job] = bench.tell(Skipped(first.skip, recorded=False))
    assert isinstance(job, StartJob)
    bench.tell(SegmentArrived(bench.segment("s", 200)))
    again = next(i for i in bench.tell(ends(bench)) if isinstance(i, Skip))
    assert sum(w.tuples for w in again.given[0][1]) == sum(w.tuples for w in first.given[0][1])


def test_queries_that_are_spared_lose_nothing() -> None:
    bench = flooded(replace(LONE, spared=True))
    [_, job] = bench.tell(ends(bench))
    assert isinstance(job, StartJob)
    assert job.groups[0].tuples == 300


def test_a_query_does_not_lose_what_its_predecessor_at_the_same_index_was_to_lose() -> None:
    bench = flooded(LONE)
    assert Finished(1) in bench.tell(Drop(0, command=1), ends(bench))
    bench.tell(AddQuery(0, LONE, bench.network, inbox_of(LONE)))
    bench.tell(SegmentArrived(bench.segment("s", 50)))
    bench.tell(SegmentArrived(bench.segment("s", 50)))
    assert bench.woke(SECOND + 200 * MS) == []
    [_, job] = bench.tell(ends(bench))
    assert isinstance(job, StartJob)
    assert job.groups[0].tuples == 50
