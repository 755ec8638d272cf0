"""The clock of a run: the wall clock when it begins, and steady from then on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daybreak.runtime.clock import STEP_NS, Clock

S = 10**9


class Clocks:
    """Two clocks, of which one may be set."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = 1_790_000_000 * S, 7 * S
        self.clock = Clock(lambda: self.wall_ns, lambda: self.steady_ns)

    def wait(self, ns: int) -> None:
        self.wall_ns, self.steady_ns = self.wall_ns + ns, self.steady_ns + ns


@given(st.lists(st.tuples(st.integers(0, 10 * S), st.integers(-(10**14), 10**14))))
def test_it_never_goes_back_and_goes_as_time_does(happens: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    with clocks.clock.held():
        began_ns = clocks.clock.now_ns()
        assert began_ns == clocks.wall_ns
        passed_ns = 0
        for waits_ns, steps_ns in happens:
            clocks.wait(waits_ns)
            clocks.wall_ns += steps_ns
            passed_ns += waits_ns
            assert clocks.clock.now_ns() == began_ns + passed_ns


def test_the_first_of_several_runs_reads_the_wall_clock() -> None:
    clocks = Clocks()
    with clocks.clock.held():
        clocks.wall_ns += 3600 * S
        before_ns = clocks.clock.now_ns()
        with clocks.clock.held():
            assert clocks.clock.now_ns() == before_ns, "another run goes by it"
    with clocks.clock.held():
        assert clocks.clock.now_ns() == clocks.wall_ns


def test_stamps_of_others_on_this_machine_are_moved_by_as_much_as_the_wall_clock_was() -> None:
    clocks = Clocks()
    with clocks.clock.held():
        stamp_ns = clocks.wall_ns - 3 * S
        assert clocks.clock.of_wall(stamp_ns) == stamp_ns
        clocks.wall_ns += STEP_NS // 2  # what is read at two moments is no step
        assert clocks.clock.of_wall(stamp_ns) == stamp_ns
        clocks.wall_ns -= 3600 * S
        age_ns = 2 * S
        found = clocks.clock.of_wall(clocks.wall_ns - age_ns)
        assert clocks.clock.now_ns() - found == age_ns
        assert clocks.clock.of_wall(clocks.wall_ns + S) == clocks.clock.now_ns(), "not yet"
