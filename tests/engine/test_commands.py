"""What operators ask for, as events and instructions: a later command always has the last word."""

from __future__ import annotations

import pytest
from tests.engine.inside import inside
from tests.engine.made import MS, SECOND, Bench, First, Learner, Segment, inbox_of, ran, start

from daybreak.engine.core import Settings
from daybreak.engine.events import (
    AddQuery,
    AssignClass,
    Delivered,
    Done,
    Drop,
    Failure,
    JobEnded,
    Pause,
    Resume,
    SegmentArrived,
    SetPriority,
    SetSubscribers,
    SetWeight,
    Skipped,
    SwitchPolicy,
    Woke,
)
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import (
    WARNING,
    Account,
    Finished,
    Group,
    Instruction,
    Notice,
    Redeliver,
    Skip,
    StartJob,
)
from daybreak.engine.queries import Owner, QueryFacts
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Query
from daybreak.policies.base import Plan, Step

LONE = QueryFacts("lone", ("s",), "job")
PAIR = [QueryFacts("q0", ("s",), share_key="s"), QueryFacts("q1", ("s",), share_key="s")]
ITEM = Waiting(0, "s", 5, 0)
GROUP = Group((0,), (ITEM,), (0,))


def arriving(bench: Bench, rows: int = 5) -> StartJob:
    """The job that a segment starts."""
    [job] = bench.tell(SegmentArrived(bench.segment("s", rows)))
    assert isinstance(job, StartJob)
    return job


def parked() -> Bench:
    """A query that has failed on its only range of 5, with another behind it."""
    bench = Bench([LONE], settings=Settings(limits=Limits(retries=0)))
    job = arriving(bench)
    bench.tell(SegmentArrived(bench.segment("s", 3)))
    bench.tell(JobEnded(job.order, (), Failure("boom"), MS))
    assert bench.status(0).state == "parked"
    return bench


def heard(bench: Bench) -> list[tuple[object, ...]]:
    policy = inside(bench.engine).policy
    assert isinstance(policy, First)
    return policy.heard


# Pause and resume


def test_a_query_that_is_paused_between_jobs_waits_until_it_is_resumed() -> None:
    bench = Bench([LONE])
    assert bench.tell(Pause(0)) == []
    assert bench.tell(SegmentArrived(bench.segment("s", 5))) == []
    assert (bench.owner(0), bench.waiting(0)) == (Owner.HELD, [ITEM])
    assert (inside(bench.engine).state.pending, bench.engine.quiet) == ([0], True)
    assert bench.tell(Resume(0, command=7)) == [Finished(7), start(1, [GROUP])]
    assert heard(bench) == [("withdrawn", 0), ("paused", 0), ("returned", 0), ("resumed", 0)]


def test_a_job_of_a_paused_query_ends_and_none_follows() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    assert bench.tell(Pause(0), SegmentArrived(bench.segment("s", 3))) == []
    [account] = bench.tell(bench.well(job))
    assert isinstance(account, Account)
    assert (bench.owner(0), bench.waiting(0)) == (Owner.HELD, [Waiting(0, "s", 3, 1)])


def test_a_resume_during_a_job_is_answered_when_the_job_has_ended() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    assert bench.tell(Pause(0), Resume(0, command=7)) == []
    assert bench.tell(bench.well(job))[1:] == [Finished(7)]
    assert (bench.status(0).state, bench.owner(0)) == ("running", Owner.IDLE)


def test_a_pause_after_a_resume_that_waits_has_the_last_word() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    bench.tell(Pause(0), Resume(0, command=7), Pause(0), SegmentArrived(bench.segment("s", 3)))
    assert bench.tell(bench.well(job))[1:] == [Finished(7)]
    assert (bench.status(0).state, bench.owner(0)) == ("paused", Owner.HELD)


def test_a_pause_while_rows_are_given_up_has_the_last_word() -> None:
    bench = parked()
    bench.tell(Resume(0, skip=True, command=7))
    assert bench.tell(Pause(0)) == []
    assert bench.tell(Skipped(1)) == [Finished(7, 5)]
    assert (bench.status(0).state, bench.owner(0)) == ("paused", Owner.HELD)


# Resume with skip


def test_a_parked_query_is_resumed_on_what_it_failed_on() -> None:
    bench = parked()
    assert bench.tell(Resume(0, command=7)) == [
        Finished(7),
        start(2, [Group((0,), (ITEM, Waiting(0, "s", 3, 1)), (0,))]),
    ]


def test_a_resume_with_skip_gives_up_what_the_query_failed_on_first() -> None:
    bench = parked()
    assert bench.tell(Resume(0, skip=True, command=7)) == [Skip(1, ((0, (ITEM,)),), "skipped")]
    assert (bench.owner(0), bench.engine.quiet) == (Owner.HELD, False)
    assert bench.tell(Skipped(1)) == [
        Finished(7, 5),
        start(2, [Group((0,), (Waiting(0, "s", 3, 1),), (0,))]),
    ]


def test_a_skip_that_cannot_be_recorded_refuses_the_resume() -> None:
    bench = parked()
    bench.tell(Resume(0, skip=True, command=7))
    assert bench.tell(Skipped(1, recorded=False)) == [Finished(7, refused=True)]
    assert bench.status(0).state == "parked"
    assert bench.waiting(0) == [ITEM, Waiting(0, "s", 3, 1)]


def test_rows_that_are_given_up_are_no_longer_those_it_failed_on() -> None:
    """Else a second resume with skip would lose rows that nothing is wrong with."""
    bench = parked()
    bench.tell(Resume(0, skip=True, command=7), Pause(0))
    bench.tell(Skipped(1))
    out = bench.tell(Resume(0, skip=True, command=8))
    assert out == [Finished(8), start(2, [Group((0,), (Waiting(0, "s", 3, 1),), (0,))])]


# Drop


def test_a_query_is_dropped_at_once_between_jobs() -> None:
    bench = Bench([LONE])
    assert bench.tell(Pause(0), SegmentArrived(bench.segment("s", 5))) == []
    assert bench.tell(Drop(0, command=7)) == [Finished(7)]
    assert (bench.status(0).state, bench.waiting(0)) == ("dropped", [])
    assert bench.tell(SegmentArrived(bench.segment("s", 3))) == []
    assert (bench.waiting(0), heard(bench)[-1]) == ([], ("removed", 0))


def test_a_query_that_is_dropped_during_a_job_goes_when_the_job_has_ended() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    assert bench.tell(Drop(0, command=7), SegmentArrived(bench.segment("s", 3))) == []
    assert bench.status(0).held, "no other job of it begins"
    assert bench.tell(bench.well(job))[1:] == [Finished(7)]
    assert bench.status(0).state == "dropped"


def test_a_query_that_waits_for_a_retry_is_dropped_and_not_tried_again() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    bench.tell(JobEnded(job.order, (), Failure("boom"), MS))
    assert bench.tell(Drop(0, command=7)) == [Finished(7)]
    assert bench.woke(100 * SECOND) == []


@pytest.mark.parametrize("recorded", [True, False])
def test_a_query_that_is_dropped_while_rows_are_given_up_goes_after_that(recorded: bool) -> None:
    bench = parked()
    bench.tell(Resume(0, skip=True, command=7))
    assert bench.tell(Drop(0, command=8)) == []
    first = Finished(7, 5) if recorded else Finished(7, refused=True)
    assert bench.tell(Skipped(1, recorded)) == [first, Finished(8)]
    assert (bench.status(0).state, bench.waiting(0)) == ("dropped", [])


def test_commands_that_waited_for_a_job_are_carried_out_one_after_the_other() -> None:
    """The drop waits until the resume's skip is recorded, and is not undone by it."""
    bench = Bench([LONE])
    job = arriving(bench)
    assert bench.tell(Resume(0, skip=True, command=7), Drop(0, command=8)) == []
    out = bench.tell(JobEnded(job.order, (), Failure("boom"), MS))
    assert out[2:] == [Skip(1, ((0, (ITEM,)),), "skipped")]
    assert bench.tell(Skipped(1)) == [Finished(7, 5), Finished(8)]
    assert bench.status(0).state == "dropped"


def test_a_dropped_query_is_not_brought_back_by_commands_that_come_too_late() -> None:
    bench = Bench([LONE])
    job = arriving(bench)
    assert bench.tell(Drop(0, command=7), Resume(0, command=8), Drop(0, command=9)) == []
    out = bench.tell(bench.well(job))
    assert out[1:] == [Finished(7), Finished(8, refused=True), Finished(9)]
    assert bench.tell(Pause(0), Resume(0, command=10)) == [Finished(10, refused=True)]
    assert bench.status(0).state == "dropped"
    assert [h for h in heard(bench) if h[0] in ("removed", "paused")] == [("removed", 0)]


# Queries that come


def added(bench: Bench, box: int, facts: QueryFacts) -> AddQuery:
    network = inside(bench.engine).state.network.with_query(
        Box(name=facts.name, inputs=facts.reads, kind="filter"),
        Query(name=facts.name, output=facts.name, cls="l"),
    )
    inbox = inbox_of(facts)
    inbox.arrive(Segment(0, "s", 0, 2))
    return AddQuery(box, facts, network, inbox)


def test_a_policy_that_keeps_learning_is_told_of_a_query_that_comes() -> None:
    bench = Bench([LONE], workers=2, policy=Learner())
    arriving(bench)
    new = QueryFacts("new", ("s",), "job")
    group = Group((1,), (Waiting(0, "s", 2, 0),), (1,))
    assert bench.tell(added(bench, 1, new)) == [start(2, [group], worker=0)]
    assert inside(bench.engine).policy is bench.policy
    assert heard(bench) == [("arrival", 0, 5), ("added", 1), ("arrival", 1, 2)]
    assert inside(bench.engine).state.query_class == [0, 1]


def test_another_policy_is_replaced_by_a_fresh_one() -> None:
    """It never hears of the job under way, only that somebody has that query."""
    bench = Bench([LONE], workers=2)
    job = arriving(bench)
    group = Group((1,), (Waiting(0, "s", 2, 0),), (1,))
    out = bench.tell(added(bench, 1, QueryFacts("new", ("s",), "job")))
    assert out == [start(2, [group], worker=0)]
    assert inside(bench.engine).policy is not bench.policy
    bench.tell(bench.well(job))
    assert heard(bench) == [("withdrawn", 0), ("arrival", 1, 2), ("returned", 0)]


@pytest.mark.parametrize("policy", [First, Learner])
def test_a_name_that_was_dropped_comes_back_at_its_index_and_knows_nothing(
    policy: type[First],
) -> None:
    bench = Bench([LONE, *PAIR], workers=3, policy=policy())
    bench.tell(Pause(0), Pause(1), Pause(2), SegmentArrived(bench.segment("s", 5)))
    bench.tell(Drop(0, command=7))
    group = Group((0,), (Waiting(0, "s", 2, 0),), (0,))
    assert bench.tell(added(bench, 0, LONE)) == [start(1, [group], worker=2)]
    assert bench.status(0).state == "running"
    bench.tell(SegmentArrived(bench.segment("s", 1)))
    assert bench.waiting(0) == [Waiting(0, "s", 1, 1)]


# Declarations and policies


def test_policies_hear_of_declarations_that_change_and_see_them() -> None:
    bench = Bench(PAIR, "hl")
    state = inside(bench.engine).state
    commands = (SetPriority(1, 90.0), AssignClass(1, 0), SetWeight(0, 0.5), SetSubscribers(1, 4))
    assert bench.tell(*commands) == []
    assert (state.class_priority, state.query_class) == ([60, 90.0], [0, 0])
    assert state.query_weight == [0.5, 1.0]
    assert bench.tell(SetSubscribers(0, 2)) == []
    assert state.query_weight == [0.5, 1.0], "as many as half of the most"
    bench.tell(SetWeight(0, 0.25), SetSubscribers(1, 8))
    assert state.query_weight == [0.25, 1.0], "its weight follows them no more"
    assert heard(bench)[:4] == [
        ("class-priority", 1), ("query-class", 1), ("weight", 0), ("weight", 1),
    ]  # fmt: skip


def test_a_policy_that_takes_over_never_hears_of_plans_it_did_not_make() -> None:
    bench = Bench([*PAIR, LONE, QueryFacts("held", ("s",), "job")])
    job = arriving(bench)
    bench.tell(Pause(3))
    fresh = First()
    assert bench.tell(SwitchPolicy(fresh, 2)) == []
    assert [bench.owner(b) for b in range(4)] == [
        Owner.RIDING, Owner.RIDING, Owner.IDLE, Owner.HELD,
    ]  # fmt: skip
    assert fresh.heard == [("withdrawn", 0), ("withdrawn", 1), ("arrival", 2, 5), ("withdrawn", 3)]
    out = bench.tell(bench.well(job))
    assert out[1:] == [start(2, [Group((2,), (ITEM,), (2,))])]
    assert fresh.heard[4:] == [("returned", 0), ("returned", 1)]
    [order] = bench.engine.orders.values()
    bench.tell(bench.well(StartJob(order.number, 0, order.plan, order.groups)))
    assert fresh.heard[6:] == [("completion", Plan((Step(2),)), 10 * MS)], "of its own it does"


# Sinks


def undelivered(failures: int, then: str = "retrying") -> Notice:
    fields = {"failures": failures, "tuples": None, "next": then}
    return Notice("delivery-failed", "full", 0, WARNING, fields)


def test_a_sink_that_refuses_is_tried_again_before_anything_runs() -> None:
    bench = Bench([LONE])
    bench.woke(0)
    job = arriving(bench)
    report = ran(1, undelivered={"lone": Failure("full")})
    out: list[Instruction] = bench.tell(JobEnded(job.order, (Done((0,), report),), None, MS))
    assert out == [Account(0, (0,), (ITEM,), report, (10 * MS,)), undelivered(1)]
    assert bench.tell(SegmentArrived(bench.segment("s", 3))) == []
    assert bench.woke(499 * MS) == []
    assert bench.woke(500 * MS) == [Redeliver(0, 1)]
    assert bench.woke(60 * SECOND) == [], "never two at once"
    assert bench.tell(Resume(0, command=7)) == [Finished(7)]
    assert bench.woke(61 * SECOND) == [], "whatever operators ask for"
    assert bench.tell(Delivered(0, Failure("full"), 1)) == [undelivered(1)]
    assert bench.woke(62 * SECOND) == [Redeliver(0, 2)]
    assert bench.tell(Delivered(0, None, 1)) == [], "an answer that nobody waits for"
    assert bench.tell(Delivered(0, None, 2)) == [
        Notice("well-again", "works again", 0),
        start(2, [Group((0,), (Waiting(0, "s", 3, 1),), (0,))]),
    ]


def test_a_delivery_does_not_resume_a_query_that_was_paused_meanwhile() -> None:
    bench = Bench([LONE])
    bench.tell(Woke(), Delivered(0, Failure("full")))
    assert bench.woke(SECOND) == [Redeliver(0, 1)]
    bench.tell(Pause(0))
    assert bench.tell(Delivered(0, None, 1)) == [Notice("well-again", "works again", 0)]
    assert (bench.status(0).state, bench.status(0).behind) == ("paused", False)
    assert bench.tell(Resume(0, command=1)) == [Finished(1)]
    assert bench.status(0).state == "running"


def test_one_result_that_a_sink_refuses_can_be_given_up() -> None:
    bench = Bench([LONE])
    bench.tell(Woke(), Delivered(0, Failure("no such value")))
    assert bench.tell(Resume(0, skip=True, command=1)) == [Redeliver(0, 1, skip=True)]
    assert bench.woke(60 * SECOND) == [], "never two at once"
    assert bench.tell(Drop(0, command=2)) == [], "it waits for the result to be given up"
    assert bench.tell(Delivered(0, None, 1, skipped=5)) == [Finished(1, 5), Finished(2)]


def test_what_a_delivery_under_way_brings_is_not_given_up() -> None:
    bench = Bench([LONE])
    bench.tell(Woke(), Delivered(0, Failure("full")))
    assert bench.woke(SECOND) == [Redeliver(0, 1)]
    assert bench.tell(Resume(0, skip=True, command=1)) == []
    assert bench.tell(Delivered(0, Failure("full"), 1))[1:] == [Redeliver(0, 2, skip=True)]
    fields = {"failures": 2, "tuples": None, "next": "retrying"}
    assert bench.tell(Delivered(0, Failure("full again"), 2, skipped=3)) == [
        Notice("delivery-failed", "full again", 0, WARNING, fields), Finished(1, 3),
    ]  # fmt: skip
    assert bench.status(0).state == "retrying"
    assert bench.woke(60 * SECOND) == [Redeliver(0, 3)]
    assert bench.tell(Resume(0, skip=True, command=2)) == []
    assert bench.tell(Delivered(0, None, 3)) == [Finished(2)]
    assert bench.status(0).state == "running"
