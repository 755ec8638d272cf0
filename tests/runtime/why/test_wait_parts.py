"""A wait is divided without a gap or an overlap, and each part is named for what took it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.reasons import Reason
from daybreak.runtime.why.answers import WaitPart
from daybreak.runtime.why.jobs_seen import JobSeen, JobsSeen, crowded, cut
from daybreak.runtime.why.wait_parts import Held, Waited, wait_parts

S = 10**9
NAMES = ["fire", "hourly", "daily"]


def waited(
    until_s: float, *, held: tuple[Held, ...] = (), reason: Reason | None = None, workers: int = 1
) -> Waited:
    until_ns = round(until_s * S)
    return Waited(0, 0, until_ns, held, reason, "stride", workers, NAMES.__getitem__)


def job(
    box: int, begin_s: float, end_s: float, expected_s: float = 0.0, *, worker: int = 0,
    cold_s: float = 0.0, commit_s: float = 0.0,
) -> JobSeen:  # fmt: skip
    begin, end, expected, cold, commit = (
        round(s * S) for s in (begin_s, end_s, expected_s, cold_s, commit_s)
    )
    return JobSeen(worker, (box,), 1, begin, end, expected, cold, commit)


def seen(*jobs: JobSeen) -> JobsSeen:
    found = JobsSeen()
    for one in jobs:
        found.ended(one)
    return found


def brief(parts: list[WaitPart]) -> list[tuple[str, float]]:
    return [(part.cause, part.ns / S) for part in parts]


def test_a_neighbour_that_takes_far_longer_than_expected_has_overrun() -> None:
    parts = wait_parts(waited(1.5), seen(job(1, 0.2, 1.5, 0.2)))
    assert brief(parts) == [("overrun", 1.3), ("turn", 0.2)]
    assert parts[0].text == "no worker was free: hourly ran 1.3 s, 0.2 s were expected"
    assert parts[1].text == "for its turn under stride; served before: hourly"


def test_a_neighbour_that_takes_what_was_expected_is_only_in_the_way() -> None:
    parts = wait_parts(waited(1.0), seen(job(1, -0.5, 1.0, 1.4)))
    assert brief(parts) == [("busy", 1.0)]


def test_while_a_worker_is_free_the_policy_lets_it_wait() -> None:
    parts = wait_parts(waited(1.0, workers=2), seen(job(1, 0.0, 1.0, worker=0)))
    assert brief(parts) == [("turn", 1.0)]


def test_a_neighbour_is_named_for_its_compilation_or_its_commit() -> None:
    assert brief(wait_parts(waited(1.0), seen(job(1, 0, 1, 0.1, cold_s=0.8)))) == [("compile", 1)]
    assert brief(wait_parts(waited(1.0), seen(job(1, 0, 1, 0.1, commit_s=0.8)))) == [("disk", 1)]


def test_its_own_previous_job_and_a_pause_come_before_whatever_neighbours_do() -> None:
    held = (Held("paused", 0, 2 * S), Held("retrying", 3 * S, 4 * S))
    parts = wait_parts(waited(6.0, held=held), seen(job(1, 0, 5, worker=0), job(0, 4, 5)))
    assert {p.cause: p.ns / S for p in parts} == {
        "paused": 2.0, "retrying": 1.0, "own-job": 1.0, "busy": 1.0, "turn": 1.0,
    }  # fmt: skip


def test_the_parts_that_a_policy_names_count_as_it_names_them() -> None:
    turn = Reason("turn", "planned every 0.4 s", {"period_s": 0.4}, (), "turn", (0, S // 2))
    holder = Reason("workers", "no worker was free", {}, (), "busy", (S // 2, S), (0, S // 2))
    tree = Reason("planned", "late", {}, (turn, holder))
    parts = wait_parts(waited(1.0, reason=tree), seen(job(1, 0.5, 1.0, 0.1)))
    assert brief(parts) == [("turn", 0.5), ("overrun", 0.5)]
    assert Reason.from_json(tree.as_json()).because[0].figures == {"period_s": 0.4}


spans = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda p: (min(p), max(p)))


@given(st.lists(spans, max_size=6), spans)
def test_cutting_loses_nothing_and_counts_nothing_twice(
    taken: list[tuple[int, int]], whole: tuple[int, int]
) -> None:
    left, total = [whole], 0
    for span in taken:
        ns, left = cut(left, span)
        total += ns
    assert total + sum(b - a for a, b in left) == whole[1] - whole[0]
    covered = {t for a, b in taken for t in range(a, b)} & set(range(*whole))
    assert total == len(covered)


@given(st.lists(st.tuples(st.integers(0, 2), spans), max_size=8), spans, st.integers(1, 3))
def test_workers_are_crowded_exactly_while_enough_jobs_run(
    jobs: list[tuple[int, tuple[int, int]]], whole: tuple[int, int], workers: int
) -> None:
    made = [JobSeen(w, (1,), 1, a, b, 0.0) for w, (a, b) in jobs]
    found = {t for a, b in crowded([whole], made, workers) for t in range(a, b)}
    expected = {
        t for t in range(*whole) if sum(a <= t < b for _, (a, b) in jobs) >= workers
    }  # fmt: skip
    assert found == expected


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), spans), max_size=8),
    st.lists(spans, max_size=2), st.integers(1, 60), st.integers(1, 2),
)  # fmt: skip
def test_the_parts_of_any_wait_add_up_to_it(
    jobs: list[tuple[int, int, tuple[int, int]]], held: list[tuple[int, int]], until: int,
    workers: int,
) -> None:  # fmt: skip
    made = [JobSeen(w, (box,), 1, a, b, 1.0) for w, box, (a, b) in jobs]
    one = Waited(0, 0, until, [Held("paused", *h) for h in held], None, "p", workers,
                 NAMES.__getitem__)  # fmt: skip
    assert sum(part.ns for part in wait_parts(one, seen(*made))) == until
