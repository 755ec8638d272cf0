"""Which replica gets a call, and when one that failed is asked again."""

from collections.abc import Sequence
from typing import Any

import pytest

from daybreak.filters import Replica, Service
from daybreak.filters.replica_health import ServiceState


class Somewhere(Replica):
    def __init__(self, address: str) -> None:
        self.address = address

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError


def state(threads: int = 2) -> ServiceState:
    service = Service(name="s", replicas=[Somewhere("one"), Somewhere("two")], threads=threads)
    return ServiceState.of(service, probing=False)


def test_calls_go_where_the_largest_part_is_free() -> None:
    s = state()
    chosen = []
    for _ in range(4):
        replica = s.choose(0.0)
        replica.started(0.0)
        chosen.append(replica.replica.address)
    assert chosen == ["one", "two", "one", "two"]
    assert s.free(0.0) == 0


def test_pauses_grow_and_one_call_at_a_time_finds_out() -> None:
    s = state()
    one = s.replicas[0]
    pauses = []
    now_s = 10.0
    for _ in range(8):
        ticket = one.started(now_s)
        one.failed(ticket, now_s, "refused")
        assert one.free(now_s) == 0
        at_s = s.next_retry_s(now_s)
        assert at_s is not None
        pauses.append(round(at_s - now_s, 3))
        now_s = at_s
        assert one.free(now_s) == 1
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    one.finished(one.started(now_s), now_s + 0.1, [True])
    assert one.up
    assert one.free(now_s) == 2


def test_calls_that_fail_together_are_one_failure() -> None:
    one = state().replicas[0]
    tickets = [one.started(0.0), one.started(0.0)]
    for ticket in tickets:
        one.failed(ticket, 1.0, "reset")
    assert one.failures == 1
    assert one.in_flight == 0


def test_a_replica_that_is_up_goes_before_one_to_be_tried() -> None:
    s = state()
    one, two = s.replicas
    one.failed(one.started(0.0), 0.0, "refused")
    assert s.choose(100.0) is two


def test_the_service_is_dead_while_none_is_up_and_capacities_of_those_up_add_up() -> None:
    s = state()
    one, two = s.replicas
    both = s.estimate.capacity_per_s

    def dead_since_s(now_s: float) -> float | None:
        s.observe(now_s)
        return s.dead_since_s

    one.failed(one.started(0.0), 1.0, "refused")
    assert dead_since_s(1.0) is None
    assert s.estimate.capacity_per_s == pytest.approx(both / 2)
    two.failed(two.started(0.0), 2.0, "refused")
    assert dead_since_s(2.0) == 2.0
    two.failed(two.started(5.0), 5.0, "refused")
    assert dead_since_s(5.0) == 2.0
    two.finished(two.started(6.0), 6.1, [True])
    assert dead_since_s(6.1) is None
