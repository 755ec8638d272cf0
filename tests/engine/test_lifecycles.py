"""The life of a query as events and instructions: arrivals, jobs, riders, failures, time limits."""

from __future__ import annotations

from tests.engine.inside import inside
from tests.engine.made import MS, SECOND, Bench, First, ran, start

from daybreak.engine.core import Settings
from daybreak.engine.events import (
    Done,
    Failure,
    JobBegan,
    JobEnded,
    RangeArrived,
    SegmentArrived,
    Started,
    Stop,
    WatermarkRaised,
    Woke,
)
from daybreak.engine.inbox import Tick, Waiting, closing
from daybreak.engine.instructions import (
    ERROR,
    WARNING,
    AbandonJob,
    Account,
    AccountFailure,
    CancelJob,
    Group,
    Instruction,
    Notice,
    StartJob,
    WakeAt,
)
from daybreak.engine.queries import Owner, QueryFacts
from daybreak.model.limits import Limits
from daybreak.policies.base import Plan, Step, Wait

LONE = QueryFacts("lone", ("s",), "job")
PAIR = [QueryFacts("q0", ("s",), share_key="s"), QueryFacts("q1", ("s",), share_key="s")]
WINDOW = QueryFacts("windows", ("s",), "window", "w", "windows", spared=True)


def job_in(out: list[Instruction]) -> StartJob:
    [job] = [i for i in out if isinstance(i, StartJob)]
    return job


def failed(box: int, failures: int, tuples: int, then: str = "retrying") -> Notice:
    fields = {"failures": failures, "tuples": tuples, "next": then}
    return Notice("job-failed", "boom", box, WARNING, fields)


# Arrival, job, end


def test_a_segment_becomes_a_job_and_its_end_is_accounted_for() -> None:
    bench = Bench([LONE])
    assert bench.tell(Started()) == []
    item = Waiting(0, "s", 5, 0)
    group = Group((0,), (item,), (0,))
    assert bench.tell(SegmentArrived(bench.segment("s", 5))) == [start(1, [group])]
    assert bench.owner(0) is Owner.PLANNED
    report = ran(2, ms=10)
    assert bench.tell(JobEnded(1, (Done((0,), report),), None, 10 * MS)) == [
        Account(0, (0,), (item,), report, (10 * MS,))
    ]
    assert (bench.owner(0), bench.engine.quiet) == (Owner.IDLE, True)
    assert isinstance(bench.policy, First)
    plan = Plan((Step(0),))
    assert bench.policy.heard == [("arrival", 0, 5), ("completion", plan, 10 * MS)]


def test_what_waits_already_is_pending_once_the_engine_is_started() -> None:
    bench = Bench([LONE], now_ns=5)
    item = Waiting(3, "s", 2, 0)
    inside(bench.engine).queries.inboxes[0].put(item)
    inside(bench.engine).queries.show(0)
    assert bench.tell(Started()) == [start(1, [Group((0,), (item,), (0,))])]


def test_what_an_earlier_process_stamped_ahead_of_the_clock_has_arrived_by_the_start() -> None:
    bench = Bench([QueryFacts("q", ("s",), "job")], now_ns=5, policy=Idle())
    for arrival_ns in (3, SECOND, 4):
        inside(bench.engine).queries.inboxes[0].put(Waiting(arrival_ns, "s", 2, 0))
    bench.tell(Started())
    assert [w.arrival_ns for w in bench.waiting(0)] == [3, 5, 4]
    assert inside(bench.engine).state.arrival_sum_ns == [2 * (3 + 5 + 4)]


def test_policies_are_never_told_an_earlier_time_than_before() -> None:
    idle, seen = Idle(), []
    bench = Bench([LONE], policy=idle)
    for now_ns in (5, 9, 2, 10):
        bench.woke(now_ns)
        seen.append(idle.now_ns)
    assert seen == [5, 9, 9, 10]


class Idle(First):
    """Plans nothing, and remembers when it was asked."""

    name = "idle"
    now_ns = 0

    def decide(self, now_ns: int, worker: int) -> None:
        self.now_ns = now_ns


def test_what_arrives_during_a_job_is_the_next_one() -> None:
    bench = Bench([LONE])
    first = job_in(bench.tell(SegmentArrived(bench.segment("s", 5))))
    assert bench.tell(SegmentArrived(bench.segment("s", 3))) == []
    assert bench.tell(SegmentArrived(bench.segment("s", 4))) == []
    second = job_in(bench.tell(bench.well(first)))
    assert second.groups[0].taken == (Waiting(0, "s", 3, 1), Waiting(0, "s", 4, 2))


def test_a_segment_that_comes_again_is_ignored() -> None:
    bench = Bench([LONE])
    segment = bench.segment("s", 5)
    bench.tell(SegmentArrived(segment))
    assert bench.tell(SegmentArrived(segment)) == []
    assert (bench.waiting(0), bench.engine.look().arrived_rows) == ([], {"s": 5})


def test_a_range_comes_to_the_queries_that_it_names() -> None:
    bench = Bench([LONE, QueryFacts("other", ("s",), "job")], workers=2)
    item = Waiting(7, "s", 4, 9)
    assert bench.tell(RangeArrived((1,), item)) == [
        start(1, [Group((1,), (item,), (1,))], worker=1)
    ]


def test_a_watermark_closes_windows_without_a_row() -> None:
    bench = Bench([WINDOW])
    assert bench.tell(SegmentArrived(bench.segment("s", 3, after_us=8))) == [], "still open"
    windows = closing(2 * MS, "s", 1, 0, 20)
    assert bench.tell(WatermarkRaised(Tick(2 * MS, "s", 0, 25))) == [
        start(1, [Group((0,), (windows,), (0,))])
    ]


def test_a_policy_that_waits_is_asked_again() -> None:
    bench = Bench([LONE])
    assert isinstance(bench.policy, First)
    bench.policy.plans = [Wait(50 * MS), Wait(0)]
    assert bench.tell(SegmentArrived(bench.segment("s", 5))) == [WakeAt(50 * MS)]
    bench.now_ns = 50 * MS
    assert bench.woke(50 * MS) == [WakeAt(51 * MS)], "not at once, and without end"
    bench.now_ns = 51 * MS
    assert job_in(bench.woke(51 * MS)).plan == Plan((Step(0),))


def test_after_a_stop_jobs_end_and_no_other_is_started() -> None:
    bench = Bench([LONE])
    job = job_in(bench.tell(SegmentArrived(bench.segment("s", 5))))
    assert bench.tell(Stop(), SegmentArrived(bench.segment("s", 3))) == []
    [account] = bench.tell(bench.well(job))
    assert isinstance(account, Account)
    assert (bench.engine.busy, bench.engine.quiet) == (False, False)


# Queries that run along, and express workers


def test_queries_at_the_same_place_run_as_one_job() -> None:
    bench = Bench(PAIR)
    item = Waiting(0, "s", 5, 0)
    group = Group((0, 1), (item,), (0, 1))
    assert bench.tell(SegmentArrived(bench.segment("s", 5))) == [start(1, [group])]
    assert (bench.owner(0), bench.owner(1)) == (Owner.PLANNED, Owner.RIDING)
    report = ran(2, 3, ms=10)
    [account] = bench.tell(JobEnded(1, (Done((0, 1), report),), None, 10 * MS))
    assert isinstance(account, Account)
    assert account == Account(0, (0, 1), (item,), report, account.shares)
    assert sum(account.shares) == 10 * MS
    assert isinstance(bench.policy, First)
    told = [h[0] for h in bench.policy.heard]
    assert told == ["arrival", "arrival", "withdrawn", "completion", "returned"]


def test_a_query_at_another_place_does_not_run_along() -> None:
    """Also where as much waits for it: what each takes is compared, not only how much."""
    bench = Bench(PAIR)
    bench.tell(RangeArrived((0,), Waiting(0, "s", 5, 3)))
    bench.tell(RangeArrived((1,), Waiting(0, "s", 5, 4)))
    bench.tell(RangeArrived((0,), Waiting(0, "s", 5, 5)))
    [_, second] = bench.tell(bench.well(bench_job(bench)))
    assert second == start(2, [Group((0,), (Waiting(0, "s", 5, 5),), (0, 1))])
    assert bench.waiting(1) == [Waiting(0, "s", 5, 4)]


def bench_job(bench: Bench) -> StartJob:
    """The only job under way."""
    [order] = bench.engine.orders.values()
    return StartJob(order.number, order.worker, order.plan, order.groups)


def test_with_a_rider_bound_of_0_none_runs_along() -> None:
    bench = Bench(PAIR, workers=2, settings=Settings(rider_bound_ns=0))
    out = bench.tell(SegmentArrived(bench.segment("s", 5)))
    item = Waiting(0, "s", 5, 0)
    assert out == [
        start(1, [Group((0,), (item,), (0,))], worker=1),
        start(2, [Group((1,), (item,), (1,))], worker=0),
    ]


def test_an_express_worker_takes_the_highest_class_alone() -> None:
    low, high = QueryFacts("low", ("s",), "job"), QueryFacts("high", ("s",), "job")
    bench = Bench([low, high], "lh", express=1)
    item = Waiting(0, "s", 5, 0)
    assert bench.tell(SegmentArrived(bench.segment("s", 5))) == [
        start(1, [Group((1,), (item,), (1,))], worker=1),
        start(2, [Group((0,), (item,), (0,))], worker=0),
    ]
    assert (bench.owner(1), bench.owner(0)) == (Owner.EXPRESS, Owner.PLANNED)
    express = bench.engine.orders[1]
    assert bench.tell(SegmentArrived(bench.segment("s", 2))) == []
    out = bench.tell(bench.well(StartJob(1, 1, express.plan, express.groups)))
    assert job_in(out).worker == 1, "the other worker is the policy's, and busy"
    assert isinstance(bench.policy, First)
    assert [h for h in bench.policy.heard if h[1] == 1][1:] == [
        ("withdrawn", 1), ("arrival", 1, 2), ("returned", 1), ("withdrawn", 1),
    ]  # fmt: skip


def test_a_plan_whose_query_runs_along_already_is_overtaken() -> None:
    """The policy hears that it ended, at no cost, and is asked again."""
    bench = Bench([*PAIR, LONE], workers=2)
    assert isinstance(bench.policy, First)
    bench.policy.plans = [Plan((Step(0),)), Plan((Step(1),))]
    out = bench.tell(SegmentArrived(bench.segment("s", 5)))
    item = Waiting(0, "s", 5, 0)
    assert out == [
        start(1, [Group((0, 1), (item,), (0, 1))], worker=1),
        start(2, [Group((2,), (item,), (2,))], worker=0),
    ]
    assert ("completion", Plan((Step(1),)), 0) in bench.policy.heard


# Failures


def test_a_query_that_fails_is_tried_again_on_half_then_parked() -> None:
    limits = Limits(retries=2, retry_s=0.5)
    bench = Bench([LONE], settings=Settings(limits=limits))
    bench.woke(0)
    bench.tell(SegmentArrived(bench.segment("s", 8)))
    failure = Failure("boom")
    assert bench.tell(JobEnded(1, (), failure, 3 * MS)) == [
        failed(0, 1, 8), AccountFailure(0, (0,), 8, 3 * MS),
    ]  # fmt: skip
    assert (bench.status(0).state, bench.owner(0)) == ("retrying", Owner.HELD)
    bench.now_ns = 900 * SECOND  # somebody sets the clock: nothing comes of it
    assert bench.woke(499 * MS) == []
    half = Waiting(0, "s", 4, 0)
    assert bench.woke(500 * MS) == [start(2, [Group((0,), (half,), (0,))])]
    assert bench.tell(JobEnded(2, (), failure, 3 * MS))[0] == failed(0, 2, 4)
    assert bench.woke(1499 * MS) == [], "after twice as long"
    quarter = Waiting(0, "s", 2, 0)
    assert bench.woke(1500 * MS) == [start(3, [Group((0,), (quarter,), (0,))])]
    assert bench.tell(JobEnded(3, (), failure, 3 * MS)) == [
        failed(0, 3, 2, "parked"),
        Notice(
            "parked",
            "failed 3 times; correct the cause, then resume it",
            0,
            ERROR,
            {"error": "boom"},
        ),
        AccountFailure(0, (0,), 2, 3 * MS),
    ]
    assert bench.woke(900 * SECOND) == []
    assert (bench.engine.quiet, bench.waiting(0)[0]) == (True, quarter)


def test_a_query_that_works_again_takes_more_each_time() -> None:
    bench = Bench([LONE])
    bench.tell(SegmentArrived(bench.segment("s", 8)))
    bench.tell(JobEnded(1, (), Failure("boom"), 1))
    job = job_in(bench.woke(SECOND))
    assert job.groups[0].tuples == 4
    out = bench.tell(bench.well(job), SegmentArrived(bench.segment("s", 9)))
    assert Notice("well-again", "works again", 0) in out
    assert job_in(out).groups[0].tuples == 8
    assert bench.status(0).failures == 0


def test_our_own_disk_is_no_fault_of_the_querys() -> None:
    """It is tried without end, and on all that waits."""
    bench = Bench([LONE], settings=Settings(limits=Limits(retries=1)))
    bench.tell(SegmentArrived(bench.segment("s", 8)))
    group = Group((0,), (Waiting(0, "s", 8, 0),), (0,))
    for n in range(1, 6):
        bench.tell(JobEnded(n, (), Failure("disk full", ours=True), 1))
        assert bench.woke(n * 100 * SECOND) == [start(n + 1, [group])]


def test_after_a_group_failed_suspects_run_alone_and_come_back() -> None:
    """The query that was asked ran by itself, and well: one of the others failed the group."""
    bench = Bench([*PAIR, QueryFacts("q2", ("s",), share_key="s")])
    job = job_in(bench.tell(SegmentArrived(bench.segment("s", 5))))
    assert job.groups[0].boxes == (0, 1, 2)
    alone = Done((0,), ran(1))
    out = bench.tell(JobEnded(job.order, (alone,), None, 10 * MS))
    item = Waiting(0, "s", 5, 0)
    assert out[1:] == [start(2, [Group((1,), (item,), (1,))])], "what it took went back"
    out = bench.tell(bench.well(bench_job(bench)))
    assert out[1:] == [start(3, [Group((2,), (item,), (2,))])]
    bench.tell(bench.well(bench_job(bench)))
    again = job_in(bench.tell(SegmentArrived(bench.segment("s", 5))))
    assert again.groups[0].boxes == (0, 1, 2)


def test_of_several_groups_one_fails_and_ranges_go_back_in_order() -> None:
    bench = Bench([LONE, QueryFacts("other", ("s",), "job"), QueryFacts("third", ("s",), "job")])
    assert isinstance(bench.policy, First)
    plan = Plan((Step(0, 2), Step(1), Step(2, 3), Step(2)))
    bench.policy.plans = [plan]
    job = job_in(bench.tell(SegmentArrived(bench.segment("s", 5))))
    assert [(g.boxes, g.tuples) for g in job.groups] == [((0,), 2), ((1,), 5), ((2,), 3), ((2,), 2)]
    report = ran(1)
    out = bench.tell(JobEnded(1, (Done((0,), report),), Failure("boom"), 20 * MS))
    assert out[:3] == [
        Account(0, (0,), (Waiting(0, "s", 2, 0),), report, (10 * MS,)),
        failed(1, 1, 5),
        AccountFailure(0, (1,), 5, 20 * MS),
    ]
    assert out[3] == start(2, [Group((0,), (Waiting(0, "s", 3, 0, 2),), (0,))])
    assert bench.waiting(1) == [Waiting(0, "s", 5, 0)]
    assert bench.waiting(2) == [Waiting(0, "s", 3, 0), Waiting(0, "s", 2, 0, 3)]
    assert [bench.status(b).state for b in range(3)] == ["running", "retrying", "running"]


# Time limits


def test_a_job_past_its_time_is_cancelled_every_second_then_abandoned() -> None:
    bench = Bench(PAIR, settings=Settings(limits=Limits(job_timeout_s=2.0)))
    bench.tell(Woke(), SegmentArrived(bench.segment("s", 5)))
    cancel, abandon = CancelJob(0, 1), AbandonJob(0, 1)
    seen = {ms: bench.woke(ms * MS) for ms in (2000, 2001, 2500, 3001, 4001, 5001, 6001)}
    assert seen == {
        2000: [], 2001: [cancel], 2500: [], 3001: [cancel], 4001: [cancel], 5001: [cancel],
        6001: [cancel],
    }  # fmt: skip
    assert bench.woke(7001 * MS) == [cancel, abandon]
    assert bench.woke(8001 * MS) == [cancel], "once; it may be committing"
    timed_out = Failure("boom", timeout=True)
    out = bench.tell(JobEnded(1, (), timed_out, 8 * SECOND))
    item = Waiting(0, "s", 5, 0)
    assert out == [
        failed(0, 1, 5),
        AccountFailure(0, (0, 1), 5, 8 * SECOND),
        start(2, [Group((1,), (item,), (1,))]),
    ], "any of them may be the slow one: each runs alone"


def test_each_group_of_an_order_has_the_time_limit() -> None:
    """Also where a commit kept the first from being abandoned."""
    other = QueryFacts("other", ("s",), "job")
    bench = Bench([LONE, other], settings=Settings(limits=Limits(job_timeout_s=2.0)))
    assert isinstance(bench.policy, First)
    bench.policy.plans = [Plan((Step(0), Step(1)))]
    bench.tell(Woke(), SegmentArrived(bench.segment("s", 5)))
    cancel, abandon = CancelJob(0, 1), AbandonJob(0, 1)
    assert bench.woke(8 * SECOND) == [cancel, abandon]
    assert bench.tell(JobBegan(1, 1)) == []
    cancel, abandon = CancelJob(0, 1, group=1), AbandonJob(0, 1, group=1)
    assert bench.woke(10 * SECOND) == []
    assert bench.woke(11 * SECOND) == [cancel]
    assert bench.woke(16 * SECOND) == [cancel, abandon]
