"""Laws every registered scheduler obeys, on any traffic."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.links.link_classes import LinkClass, ranked
from daybreak.links.link_simulator import LinkLog, counts, run_link
from daybreak.links.link_tuples import LinkTuple, is_mandatory
from daybreak.links.registry import SCHEDULERS, make_scheduler
from daybreak.links.traffic import draw_traffic
from daybreak.model.qos import NS_PER_S

VARIANTS = [
    *((name, {}) for name in SCHEDULERS),
    ("static-priority", {"best_effort": True}),
    ("conveyor-belt", {"marks": "dynamic"}),
    ("hybrid", {"static_below_bytes_per_s": 1500.0}),
]


@st.composite
def link_classes(draw: st.DrawFn) -> tuple[LinkClass, ...]:
    made = []
    for rank in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 10))
        made.append(
            LinkClass(
                name=f"c{rank}",
                value=10 - rank,
                deadline_s=draw(st.floats(0.05, 3)),
                m=draw(st.integers(0, n)),
                n=n,
                size_bytes=draw(st.integers(1, 40)) * draw(st.sampled_from([1, 50])),
                rate_per_s=draw(st.floats(0.5, 10)),
            )
        )
    return tuple(made)


def traffic(classes: tuple[LinkClass, ...], seed: int, jitter: int) -> list[LinkTuple]:
    """Drawn tuples whose sizes differ from their class's usual one."""
    drawn = draw_traffic(classes, 20, seed)
    for i, item in enumerate(drawn):
        item.size_bytes += (i * 7919) % (jitter + 1)
    return drawn


@pytest.mark.parametrize(("name", "params"), VARIANTS)
@given(
    classes=link_classes(),
    bandwidth=st.floats(200, 8000),
    seed=st.integers(0, 9999),
    jitter=st.integers(0, 300),
    factor=st.sampled_from([None, 0.3, 3.0]),
)
@settings(max_examples=25, deadline=None)
def test_a_link_keeps_its_promises(
    name: str,
    params: dict[str, object],
    classes: tuple[LinkClass, ...],
    bandwidth: float,
    seed: int,
    jitter: int,
    factor: float | None,
) -> None:
    arrivals = traffic(classes, seed, jitter)
    scheduler = make_scheduler(name, classes, bandwidth, params)
    log = run_link(arrivals, scheduler, 20, ((7.0, factor),) if factor else ())
    nothing_is_sent_late(log)
    the_bandwidth_is_kept(log, bandwidth, factor)
    nothing_is_lost(log, arrivals, classes)


def nothing_is_sent_late(log: LinkLog) -> None:
    for item, began, ended in zip(log.sent, log.began_ns, log.ended_ns, strict=True):
        assert item.arrived_ns <= began < ended <= item.deadline_ns


def the_bandwidth_is_kept(log: LinkLog, bandwidth: float, factor: float | None) -> None:
    """Transfers never overlap and none is faster than the link: true of any window, then."""
    transfers = zip(log.began_ns, log.ended_ns, strict=True)
    for before, after in pairwise(instant for transfer in transfers for instant in transfer):
        assert before <= after
    for item, began, ended in zip(log.sent, log.began_ns, log.ended_ns, strict=True):
        now = bandwidth * factor if factor and began >= 7 * NS_PER_S else bandwidth
        assert ended - began >= item.size_bytes * NS_PER_S / now - 1  # whole ns


def nothing_is_lost(
    log: LinkLog, arrivals: list[LinkTuple], classes: tuple[LinkClass, ...]
) -> None:
    """Arrived = delivered + expired + evicted + queued, tuple by tuple."""
    left = [*log.sent, *(item for item, _ in log.dropped), *log.queued]
    assert Counter((i.cls, i.number) for i in left) == Counter((i.cls, i.number) for i in arrivals)
    for cls, account in enumerate(counts(log, ranked(classes))):
        assert account.arrived == sum(i.cls == cls for i in arrivals)
        assert account.arrived == (
            account.delivered + account.expired + account.evicted + account.queued
        )


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_the_same_seed_gives_the_same_run(name: str, params: dict[str, object]) -> None:
    classes = (
        LinkClass(name="a", value=2, deadline_s=1.4, m=6, n=10, rate_per_s=5),
        LinkClass(name="b", value=1, deadline_s=1.9, m=6, n=10, rate_per_s=3),
    )
    logs = [
        run_link(draw_traffic(classes, 60, 3), make_scheduler(name, classes, 2500, params), 60)
        for _ in range(2)
    ]
    assert logs[0] == logs[1]


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_what_is_given_back_is_sent_again_before_its_deadline(
    name: str, params: dict[str, object]
) -> None:
    cls = LinkClass(name="a", value=1, deadline_s=10, m=1, n=1, size_bytes=100, rate_per_s=1)
    scheduler = make_scheduler(name, (cls,), 1000, params)
    for number in range(5):
        scheduler.arrive(LinkTuple(0, number, 0, 10 * NS_PER_S, 100), 0)
    first = [scheduler.pick(0), scheduler.pick(NS_PER_S)]
    scheduler.give_back([item for item in first if item], 2 * NS_PER_S)
    sent = {item.number for t in range(2, 9) if (item := scheduler.pick(t * NS_PER_S))}
    assert sent == {0, 1, 2, 3, 4}
    assert not scheduler.dropped


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_expire_drops_what_is_late_and_nothing_else(name: str, params: dict[str, object]) -> None:
    cls = LinkClass(name="a", value=1, deadline_s=10, m=1, n=1, size_bytes=100, rate_per_s=1)
    scheduler = make_scheduler(name, (cls,), 1000, params)
    for number in range(6):
        scheduler.arrive(LinkTuple(0, number, 0, (number + 1) * NS_PER_S, 100), 0)
    scheduler.expire(3 * NS_PER_S)
    assert sorted(item.number for item, _ in scheduler.dropped) == [0, 1, 2]
    assert sorted(item.number for item in scheduler.clear()) == [3, 4, 5]


@pytest.mark.parametrize("name", ["static-priority", "due", "due-window"])
def test_a_starved_class_does_not_pile_up(name: str) -> None:
    classes = (
        LinkClass(name="a", value=2, deadline_s=1, size_bytes=100, rate_per_s=1),
        LinkClass(name="b", value=1, deadline_s=1, size_bytes=100, rate_per_s=1),
    )
    scheduler = make_scheduler(name, classes, 100)
    for second in range(100):
        now = second * NS_PER_S
        for cls in (0, 1):
            scheduler.arrive(LinkTuple(cls, second, now, now + NS_PER_S, 100), now)
        assert scheduler.pick(now) is not None
    assert len(scheduler.clear()) <= 2


@given(n=st.integers(1, 50), data=st.data())
def test_every_window_has_exactly_m_mandatory_tuples(n: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(0, n))
    cls = LinkClass(name="a", value=1, deadline_s=1, m=m, n=n)
    for marks in ("last", "first", "spread"):
        assert sum(is_mandatory(i, cls, marks) for i in range(n)) == m
        assert sum(is_mandatory(i, cls, marks) for i in range(n, 2 * n)) == m
