"""Queries whose source decides what they read: the engine hears of it when the job has ended."""

from __future__ import annotations

from tests.engine.inside import inside
from tests.engine.made import MS, Bench, ran

from daybreak.engine.events import Done, JobEnded, RangeArrived
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import Account, StartJob
from daybreak.engine.queries import QueryFacts

ONE = [QueryFacts("q", ("s",), kind="job")]


def started(bench: Bench, *items: Waiting) -> StartJob:
    (job,) = bench.tell(*(RangeArrived((0,), item) for item in items))
    assert isinstance(job, StartJob)
    return job


def test_what_was_read_is_accounted_for_and_the_rest_waits_again() -> None:
    bench = Bench(ONE)
    job = started(bench, Waiting(1, "s", 10, 0))
    read, left = Waiting(1, "s", 7, 0), Waiting(1, "s", 4, 0)
    done = Done((0,), ran(2), (read,), (left,))
    out = bench.tell(JobEnded(job.order, (done,), None, 10 * MS))
    (account,) = (i for i in out if isinstance(i, Account))
    assert account.taken == (read,)
    (again,) = (i for i in out if isinstance(i, StartJob))
    assert again.groups[0].taken == (left,)
    state = inside(bench.engine).state
    assert state.tuples_in[0] == 7
    assert state.arrived[0] == 11, "ten were announced, seven and four there were"


def test_a_grant_that_found_nothing_leaves_no_trace() -> None:
    bench = Bench(ONE)
    job = started(bench, Waiting(1, "s", 1, 0))
    assert bench.tell(JobEnded(job.order, (Done((), None, ()),), None, 0)) == []
    state = inside(bench.engine).state
    assert (state.calls[0], state.arrived[0], state.pending[0]) == (0, 0, 0)


def test_a_batch_without_data_has_a_cost_and_no_tuples() -> None:
    bench = Bench(ONE)
    job = started(bench, Waiting(1, "s", 1, 0))
    cost_ns = inside(bench.engine).state.cost_ns[0]
    bench.tell(JobEnded(job.order, (Done((0,), ran(3), ()),), None, 10 * MS))
    state = inside(bench.engine).state
    assert (state.calls[0], state.tuples_in[0], state.tuples_out[0]) == (1, 0, 3)
    assert state.cost_ns[0] == cost_ns, "nothing to divide its cost by"
