"""Grants of ingest: a source reads when its class's turn has come, and never for too long."""

from __future__ import annotations

from tests.engine.made import MS, SECOND, Bench, First

from daybreak.engine.core import Settings
from daybreak.engine.events import Ingested, SegmentArrived, SourceShows, Woke
from daybreak.engine.ingest import LEAST_STEP_NS, OVERDUE_NS, STEP_NS
from daybreak.engine.instructions import Ingest, Instruction, Notice, StartJob
from daybreak.engine.queries import QueryFacts
from daybreak.model.limits import Limits
from daybreak.policies.base import Wait

HIGH = QueryFacts("high", ("urgent",))
LOW = QueryFacts("low", ("archive",))
LOWER = QueryFacts("lower", ("history",))


def shows(stream: str, *, amount: int = 10**9, since_ns: int = 0) -> SourceShows:
    """A source whose rows cost a nanosecond each."""
    return SourceShows(stream, amount, since_ns, per_unit_ns=1.0)


def granted(out: list[Instruction]) -> list[tuple[str, int]]:
    return [(i.stream, i.most) for i in out if isinstance(i, Ingest)]


def jobs(out: list[Instruction]) -> list[int]:
    return [i.groups[0].boxes[0] for i in out if isinstance(i, StartJob)]


def bench(workers: int = 1, limits: Limits | None = None) -> Bench:
    settings = Settings(limits=limits or Limits())
    made = Bench([HIGH, LOW, LOWER], "hll", workers=workers, settings=settings)
    made.now_ns = 5 * SECOND
    return made


def test_an_idle_worker_reads_at_once_and_no_longer_than_a_step() -> None:
    b = bench()
    assert granted(b.tell(shows("archive"))) == [("archive", STEP_NS)]


def test_a_step_takes_no_more_than_there_is() -> None:
    b = bench()
    assert granted(b.tell(shows("archive", amount=7))) == [("archive", 7)]


def test_what_a_step_costs_by_itself_is_part_of_its_time() -> None:
    b = bench()
    asked = SourceShows("archive", 10**9, 0, fixed_ns=STEP_NS / 4, per_unit_ns=2.0)
    assert granted(b.tell(asked)) == [("archive", STEP_NS * 3 // 8)]


def test_a_job_of_a_higher_class_goes_first() -> None:
    b = bench()
    b.tell(shows("archive"))  # has the worker
    b.tell(shows("history"))
    out = b.tell(SegmentArrived(b.segment("urgent", 5)), Ingested("archive", 1, 50 * MS))
    assert (jobs(out), granted(out)) == ([0], [])


def test_it_goes_before_a_job_of_a_lower_class() -> None:
    b = bench()
    out = b.tell(SegmentArrived(b.segment("archive", 5)), shows("urgent"))
    assert (jobs(out), granted(out)) == ([], [("urgent", STEP_NS)])


def test_within_a_class_the_oldest_is_first_job_or_source() -> None:
    b = bench()
    job_first = b.tell(
        SegmentArrived(b.segment("archive", 5)), shows("history", since_ns=b.now_ns + 1)
    )
    assert (jobs(job_first), granted(job_first)) == ([1], [])
    b = bench()
    source_first = b.tell(SegmentArrived(b.segment("archive", 5)), shows("history", since_ns=1))
    assert (jobs(source_first), granted(source_first)) == ([], [("history", STEP_NS)])


def test_one_step_at_a_time() -> None:
    b = bench(workers=3)
    assert granted(b.tell(shows("archive", since_ns=2), shows("history", since_ns=1))) == [
        ("history", STEP_NS)
    ]
    assert granted(b.tell(Woke())) == []
    assert granted(b.tell(Ingested("history", 1, MS))) == [("archive", STEP_NS)]


def test_between_two_steps_a_job_starts() -> None:
    b = bench()
    b.tell(shows("urgent"))
    b.tell(SegmentArrived(b.segment("archive", 5)), shows("urgent"))
    out = b.tell(Ingested("urgent", 1, 200 * MS))
    assert (jobs(out), granted(out)) == ([1], []), "else a source could keep the only worker"


def test_a_stream_that_asks_gets_a_step_a_second_whatever_else_waits() -> None:
    b = bench()
    out = b.tell(SegmentArrived(b.segment("urgent", 5)))
    b.tell(shows("archive"))
    [job] = [i for i in out if isinstance(i, StartJob)]
    b.now_ns += OVERDUE_NS
    out = b.tell(SegmentArrived(b.segment("urgent", 5)), b.well(job))
    assert (jobs(out), granted(out)) == ([], [("archive", STEP_NS)])


def test_the_policys_last_worker_is_back_when_it_wants_it() -> None:
    b = bench(workers=2)
    assert isinstance(b.policy, First)
    b.tell(SegmentArrived(b.segment("urgent", 5)))  # one worker has a job
    b.policy.plans = [Wait(b.now_ns + 70 * MS)]
    b.now_ns += 1
    assert granted(b.tell(shows("archive"))) == [("archive", 70 * MS - 1)]


def test_a_step_is_not_cut_to_nothing() -> None:
    b = bench()
    assert isinstance(b.policy, First)
    b.policy.plans = [Wait(b.now_ns + 1)]
    assert granted(b.tell(shows("archive"))) == [("archive", LEAST_STEP_NS)]


def test_a_source_that_asks_no_more_gets_nothing() -> None:
    b = bench()
    b.tell(shows("urgent"))
    b.tell(shows("archive"), shows("archive", amount=0))
    assert granted(b.tell(Ingested("urgent", 1, MS))) == []


def test_an_end_that_comes_twice_frees_one_worker() -> None:
    b = bench()
    b.tell(shows("urgent"))
    b.tell(Ingested("urgent", 1, MS), Ingested("urgent", 1, MS))
    assert granted(b.tell(shows("urgent"), shows("archive"))) == [("urgent", STEP_NS)]


def test_a_step_that_never_ends_gives_its_worker_back() -> None:
    b = bench(limits=Limits(job_timeout_s=10.0))
    b.tell(shows("urgent"))
    b.tell(SegmentArrived(b.segment("archive", 5)))
    out = b.woke(b.now_ns + 11 * SECOND)
    assert jobs(out) == [1]
    assert [i.event for i in out if isinstance(i, Notice)] == ["ingest-stuck"]
    assert b.tell(Ingested("urgent", 1, 12 * SECOND)) == [], "its late end changes nothing"


def test_jobs_run_beside_a_step_where_there_are_workers() -> None:
    b = bench(workers=2)
    b.tell(shows("archive"))
    assert jobs(b.tell(SegmentArrived(b.segment("urgent", 5)))) == [0]


def small(stream: str, ns: int = 30 * MS) -> SourceShows:
    return SourceShows(stream, 100, 0, fixed_ns=float(ns))


def test_a_short_step_of_the_most_important_class_waits_for_nothing() -> None:
    b = bench()
    b.tell(shows("archive"))  # has the only worker
    [step] = b.tell(small("urgent"))
    assert isinstance(step, Ingest)
    assert (step.stream, step.worker, step.most) == ("urgent", None, 100)
    assert b.tell(Ingested("urgent", step.grant, 30 * MS)) == [], "no worker comes free by it"
    assert granted(b.tell(shows("history"), Ingested("archive", 1, MS))) == [("history", STEP_NS)]


def test_short_steps_of_other_classes_and_long_ones_wait_for_their_turn() -> None:
    b = bench()
    b.tell(shows("archive"))
    assert granted(b.tell(small("history"), small("urgent", 51 * MS))) == []
