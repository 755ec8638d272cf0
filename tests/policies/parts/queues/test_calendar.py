"""The calendar queues, each against an exact scan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.queues.calendar_queue import CalendarQueue, RankedLists
from daybreak.policies.parts.queues.timer_queue import TimerQueue

ITEMS = 12
PRIORITY = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    st.floats(1e-300, 1e300),
    st.floats(0.9, 1.1),
)


class Scan:
    """The oracle: a dictionary, searched from end to end."""

    def __init__(self) -> None:
        self.held: dict[int, float] = {}

    def best(self) -> int | None:
        return min(self.held, key=lambda i: (-self.held[i], i)) if self.held else None


@given(
    events=st.lists(st.tuples(st.integers(0, ITEMS - 1), st.one_of(st.none(), PRIORITY))),
    buckets_per_octave=st.sampled_from([1, 3, 16]),
)
def test_it_answers_as_a_scan_does(
    events: list[tuple[int, float | None]], buckets_per_octave: int
) -> None:
    calendar, scan = CalendarQueue(ITEMS, buckets_per_octave), Scan()
    for item, priority in events:
        if priority is None:
            calendar.remove(item)
            scan.held.pop(item, None)
        else:
            calendar.put(item, priority)
            scan.held[item] = priority
        assert calendar.best() == scan.best()
        assert len(calendar) == len(scan.held)
        assert all((i in calendar) == (i in scan.held) for i in range(ITEMS))


@pytest.mark.parametrize("priority", [0.0, 5e-324, 1e-30, 1.0, 1e30, 1.7e308])
def test_any_magnitude_has_a_bucket(priority: float) -> None:
    calendar = CalendarQueue(2)
    calendar.put(1, priority)
    assert calendar.best() == 1


@given(
    events=st.lists(
        st.tuples(
            st.integers(0, ITEMS - 1),
            st.one_of(st.none(), st.integers(0, 5000)),
            st.integers(0, 400),
        )
    ),
    day_ns=st.sampled_from([1, 100, 1000, 100_000]),
)
def test_a_timer_queue_gives_what_has_fallen_due_and_nothing_else(
    events: list[tuple[int, int | None, int]], day_ns: int
) -> None:
    """Items are put ahead or taken out, time goes on by leaps that may be longer than a year."""
    timers = TimerQueue(TimerQueue.no_instants(ITEMS), day_ns)
    held: dict[int, int] = {}
    now = 0
    for item, ahead, step in events:
        if ahead is None:
            timers.remove(item)
            held.pop(item, None)
        else:
            timers.put(item, now + ahead)
            held[item] = now + ahead
        now += step
        due = {i for i, at in held.items() if at <= now}
        found = timers.due(now)
        assert set(found) == due
        assert [held[i] for i in found] == sorted(held[i] for i in due)
        held = {i: at for i, at in held.items() if i not in due}
        assert len(timers) == len(held)


@given(st.lists(st.tuples(st.integers(0, ITEMS - 1), st.integers(-1, 6))))
def test_ranked_lists_give_the_highest_bucket_first_in_order_of_entry(
    events: list[tuple[int, int]],
) -> None:
    lists, held = RankedLists(ITEMS), dict[int, tuple[int, int]]()
    for turn, (item, at) in enumerate(events):
        if at < 0:
            lists.remove(item)
            held.pop(item, None)
        else:
            lists.enter(item, at)
            if held.get(item, (-1, 0))[0] != at:
                held[item] = (at, turn)
    expected = sorted(held, key=lambda i: (-held[i][0], held[i][1]))
    assert [lists.pop() for _ in range(len(lists))] == [(i, held[i][0]) for i in expected]
    assert lists.first() == -1
