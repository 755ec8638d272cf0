"""How many workers the cores keep busy: learned where they are busy, believed only then."""

from __future__ import annotations

import pytest

from daybreak.policies.base import ProcessorUse
from daybreak.policies.parts.planned.usable_workers import ALONE, UsableWorkers

S = 1_000_000_000


class Machine:
    """Two cores and some workers, as time passes."""

    def __init__(self, workers: int) -> None:
        self.usable = UsableWorkers(workers)
        self._at_ns = self._working_ns = self._busy_ns = self._idle_ns = 0

    def passes(self, seconds: int, *, working: float, busy: float) -> float:
        """So many workers at work, on average, while this share of the cores is in use."""
        for _ in range(10 * seconds):
            self._at_ns += S // 10
            self._working_ns += round(working * S / 10)
            self._busy_ns += round(2 * busy * S / 10)
            self._idle_ns += round(2 * (1 - busy) * S / 10)
            use = ProcessorUse(2, self._busy_ns, self._idle_ns)
            self.usable.note(self._at_ns, self._working_ns, use)
        return self.usable.count


def test_workers_beyond_what_busy_cores_bear_do_not_count() -> None:
    assert Machine(3).passes(5, working=2.4, busy=1.0) == pytest.approx(2.4)
    assert Machine(3).passes(5, working=2.4, busy=0.96) == pytest.approx(2.5)


def test_idle_cores_show_no_limit() -> None:
    assert Machine(3).passes(5, working=0.2, busy=0.5) == 3.0


def test_there_are_no_fewer_than_cores_and_no_more_than_workers() -> None:
    assert Machine(3).passes(5, working=0.5, busy=1.0) == 2.0
    assert Machine(3).passes(5, working=3.0, busy=0.95) == 3.0
    assert Machine(1).passes(5, working=1.0, busy=1.0) == 1.0


def test_a_limit_that_was_too_low_is_raised_by_what_is_seen_later() -> None:
    machine = Machine(3)
    assert machine.passes(5, working=2.2, busy=1.0) == pytest.approx(2.2)
    assert machine.passes(5, working=2.0, busy=0.8) == pytest.approx(2.5)
    assert machine.passes(5, working=0.3, busy=0.6) == pytest.approx(2.5), "stays"


def test_while_cores_are_busy_as_many_jobs_are_enough() -> None:
    machine = Machine(3)
    machine.passes(5, working=2.2, busy=0.8)
    assert machine.usable.enough_jobs == 3
    machine.passes(5, working=2.2, busy=1.0)
    assert machine.usable.enough_jobs == 2
    machine.passes(5, working=2.0, busy=0.7)
    assert machine.usable.enough_jobs == 3
    alone = Machine(1)
    alone.passes(5, working=1.0, busy=1.0)
    assert alone.usable.enough_jobs == 1


def test_jobs_share_busy_cores() -> None:
    machine = Machine(3)
    machine.passes(5, working=2.0, busy=0.8)
    assert machine.usable.share(2.0) == machine.usable.alone == 1.0
    machine.passes(5, working=2.0, busy=1.0)
    assert [machine.usable.share(others) for others in (0.0, 1.0, 2.0)] == [1.0, 1.0, 2 / 3]
    assert machine.usable.alone == ALONE


def test_a_machine_that_does_not_list_its_cores_has_one() -> None:
    usable = UsableWorkers(3)
    for second in range(5):
        usable.note(second * S, second * S, ProcessorUse(0, second * S, 0))
    assert usable.enough_jobs == 1


def test_without_a_processor_all_workers_count() -> None:
    usable = UsableWorkers(4)
    usable.note(0, 0, None)
    usable.note(5 * S, 0, None)
    assert usable.count == 4.0
    assert usable.enough_jobs == 4
