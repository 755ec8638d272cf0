"""When more is expected, from when it came before."""

from __future__ import annotations

from daybreak.policies.parts.arrival_gaps import ArrivalGaps


def test_the_next_file_is_expected_after_the_usual_gap() -> None:
    gaps = ArrivalGaps()
    for at_ns in (0, 100, 100, 200, 300):
        gaps.arrived(7, at_ns)
    assert gaps.next_ns([7], 50) == 400


def test_nothing_is_expected_where_nothing_is_known_or_tuples_come_one_by_one() -> None:
    gaps = ArrivalGaps()
    gaps.arrived(7, 100)
    assert gaps.next_ns([7, 8], 0) is None
    gaps.arrived(7, 103)
    assert gaps.next_ns([7], 50) is None


def test_of_several_boxes_the_first_arrival_counts() -> None:
    gaps = ArrivalGaps()
    for box, at_ns in ((1, 0), (2, 0), (1, 100), (2, 300)):
        gaps.arrived(box, at_ns)
    assert gaps.next_ns([1, 2], 10) == 200
