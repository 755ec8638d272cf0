"""The calendar queue against an exact scan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.calendar import CalendarQueue

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
