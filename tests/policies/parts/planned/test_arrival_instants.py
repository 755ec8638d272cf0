"""When more is expected and how much, from what came before."""

from __future__ import annotations

from daybreak.policies.parts.planned.arrival_instants import ArrivalInstants


def test_the_next_file_is_expected_after_the_usual_gap() -> None:
    instants = ArrivalInstants()
    for at_ns in (0, 100, 100, 200, 300):
        instants.arrived(7, 1, at_ns)
    assert instants.next_ns([7], 50) == 400


def test_nothing_is_expected_where_nothing_is_known_or_tuples_come_one_by_one() -> None:
    instants = ArrivalInstants()
    instants.arrived(7, 1, 100)
    assert instants.next_ns([7, 8], 0) is None
    instants.arrived(7, 1, 103)
    assert instants.next_ns([7], 50) is None


def test_a_pause_does_not_count_as_a_gap() -> None:
    instants = ArrivalInstants()
    for at_ns in (0, 100, 200, 300, 1_000_300):
        instants.arrived(7, 1, at_ns)
    assert instants.gap_ns([7]) < 150


def test_of_several_boxes_the_first_arrival_counts() -> None:
    instants = ArrivalInstants()
    for box, at_ns in ((1, 0), (2, 0), (1, 100), (2, 300)):
        instants.arrived(box, 1, at_ns)
    assert instants.next_ns([1, 2], 10) == 200
    assert instants.gap_ns([1, 2]) == 100
    assert instants.gap_ns([3]) == 0


def test_what_comes_at_one_instant_is_one_arrival_and_a_backlog_is_an_exception() -> None:
    instants = ArrivalInstants()
    assert instants.together(7) == 1
    for at_ns, count in ((0, 30_000), (100, 1_000), (200, 600), (200, 400), (300, 1_000)):
        instants.arrived(7, count, at_ns)
    assert instants.together(7) == 1_000
