"""Bucketing's lists, against a table of who is where."""

from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.queues.sliding_lists import SlidingLists

UNITS, ROWS, COLUMNS = 6, 3, 4
EVENT = st.tuples(
    st.sampled_from(["enter", "slide", "remove"]),
    st.integers(0, UNITS - 1),
    st.integers(0, ROWS * COLUMNS - 1),
    st.integers(1, 300),
    st.integers(0, 40),
)


@given(st.lists(EVENT, max_size=60), st.sampled_from([8.0, 100.0, 1e6]))
def test_units_enter_lists_slide_and_arrive(
    events: list[tuple[str, int, int, int, int]], width_ns: float
) -> None:
    lists = SlidingLists(UNITS, COLUMNS, width_ns)
    entered: dict[int, tuple[int, int]] = {}  # by unit: its list, and when it entered
    sliding: dict[int, tuple[int, float]] = {}  # by unit: its row, and its critical instant
    now = 0
    for what, unit, at, ahead, step in events:
        if what == "enter":
            lists.enter(unit, at, now)
            if entered.get(unit, (-1, 0))[0] != at:
                entered[unit] = (at, now)
            sliding.pop(unit, None)
        elif what == "slide":
            lists.slide(unit, at // COLUMNS, now + ahead)
            sliding[unit] = (at // COLUMNS, now + ahead)
            entered.pop(unit, None)
        else:
            lists.remove(unit)
            entered.pop(unit, None)
            sliding.pop(unit, None)
        now += 1 + step
        there = {u for u, (_, critical) in sliding.items() if critical <= now}
        assert set(lists.arrived(now)) == there
        sliding = {u: s for u, s in sliding.items() if u not in there}
        first = max((at for at, _ in entered.values()), default=-1)
        assert lists.first_list() == first
        if first >= 0:
            members = [(since, u) for u, (at, since) in entered.items() if at == first]
            assert lists.first_in(first) == min(members)
        row = max((row for row, _ in sliding.values()), default=-1)
        assert lists.first_sliding_row() == row
        if row >= 0:
            soonest = min(critical for r, critical in sliding.values() if r == row)
            critical, front = lists.foremost(row)
            assert (critical, sliding[front]) == (soonest, (row, soonest))


def test_what_has_left_is_tidied_away() -> None:
    """A list that others wait in does not grow with what passes through it."""
    lists = SlidingLists(2, 1, 1.0)
    lists.enter(0, 0, 0)
    for now in range(1, 1000):
        lists.enter(1, 0, now)
        lists.remove(1)
    assert lists.first_in(0) == (0, 0)
    assert len(lists._queues[0]) < 50
