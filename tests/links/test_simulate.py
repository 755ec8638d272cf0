"""The simulator against theory, chains against single links, and the search for needs."""

import math
from dataclasses import replace

import pytest

from daybreak.links.chain import Hop, run_chain
from daybreak.links.link_classes import (
    SECTION_4,
    LinkClass,
    least_bytes_per_s,
    ranked,
    threshold_bytes_per_s,
)
from daybreak.links.link_simulator import counts, run_link
from daybreak.links.link_tuples import windows_met
from daybreak.links.needs import Need, need_of_all, needs
from daybreak.links.registry import SCHEDULERS, make_scheduler
from daybreak.links.scenario import LinkScenario, simulate
from daybreak.links.traffic import draw_traffic
from daybreak.model import ConfigError

ONE = LinkClass(name="only", value=1, deadline_s=1e5, size_bytes=100, rate_per_s=8)


@pytest.mark.slow
def test_mean_wait_matches_the_md1_queue() -> None:
    """Pollaczek-Khinchine: rho / (2 mu (1 - rho)) for a constant service time."""
    arrivals = draw_traffic((ONE,), 40_000, 7)
    log = run_link(arrivals, make_scheduler("fifo", (ONE,), 1000), 40_000)
    waits = [b - i.arrived_ns for i, b in zip(log.sent, log.began_ns, strict=True)]
    assert sum(waits) / len(waits) / 1e9 == pytest.approx(0.8 / (2 * 10 * 0.2), rel=0.06)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_with_ample_bandwidth_everything_is_delivered(name: str) -> None:
    log = simulate(LinkScenario(scheduler=name, bandwidth_bytes_per_s=1e6, duration_s=200), 1)
    assert not log.dropped
    assert not log.queued


@pytest.mark.parametrize("name", ["fifo", "min-slack", "conveyor-belt", "due", "due-window"])
def test_a_saturated_link_is_never_idle(name: str) -> None:
    log = simulate(LinkScenario(scheduler=name, bandwidth_bytes_per_s=1500, duration_s=400), 1)
    busy_s = sum(e - b for b, e in zip(log.began_ns, log.ended_ns, strict=True)) / 1e9
    assert busy_s / 400 > 0.99


def test_thresholds_of_section_4() -> None:
    assert threshold_bytes_per_s(SECTION_4) == pytest.approx(2500)
    assert least_bytes_per_s(SECTION_4) == pytest.approx(2500)
    uneven = (replace(SECTION_4[0], m=9), replace(SECTION_4[1], m=3))
    assert threshold_bytes_per_s(uneven) == pytest.approx(3750)
    assert least_bytes_per_s(uneven) == pytest.approx(2750)


def test_hybrid_switches_at_the_threshold_plus_margin() -> None:
    names = [
        type(
            make_scheduler("hybrid", SECTION_4, bandwidth, {"static_below_bytes_per_s": 1800}).inner  # type: ignore[attr-defined]
        ).__name__
        for bandwidth in (1799, 1800, 2599, 2600)
    ]
    assert names == ["StaticPriority", "ConveyorBelt", "ConveyorBelt", "MinSlack"]


def test_hybrid_follows_a_changing_bandwidth_and_keeps_what_waits() -> None:
    arrivals = draw_traffic(SECTION_4, 100, 1)
    scheduler = make_scheduler("hybrid", SECTION_4, 3000)
    log = run_link(arrivals, scheduler, 100, ((30.0, 0.6), (60.0, 1.0)))
    assert sum(c.arrived for c in counts(log, SECTION_4)) == len(arrivals)


def test_a_chain_of_one_link_is_that_link() -> None:
    arrivals = draw_traffic(SECTION_4, 200, 1)
    alone = run_link(arrivals, make_scheduler("due", SECTION_4, 2500), 200)
    hops = (Hop(bandwidth_bytes_per_s=2500),)
    for rule in ("none", "even", "cost"):
        chained = run_chain(arrivals, SECTION_4, hops, "due", 200, rule=rule)
        assert chained.ended_ns == alone.ended_ns


def test_deadline_rules_hand_each_node_what_they_say() -> None:
    """The first link cannot make it, so its drops tell the deadline it went by."""
    cls = LinkClass(name="a", value=1, deadline_s=4, size_bytes=100, rate_per_s=1)
    hops = (Hop(bandwidth_bytes_per_s=10), Hop(bandwidth_bytes_per_s=100))
    arrivals = draw_traffic((cls,), 20, 1)
    handed_s = {
        rule: {
            (item.deadline_ns - item.created_ns) / 1e9
            for item, _ in run_chain(arrivals, (cls,), hops, "fifo", 40, rule=rule).dropped
        }
        for rule in ("none", "even", "cost")
    }
    assert handed_s == {"none": {4}, "even": {2}, "cost": {3}}


def test_latency_over_a_chain_counts_from_the_creation() -> None:
    cls = LinkClass(name="a", value=1, deadline_s=4, size_bytes=100, rate_per_s=0.1)
    hops = (Hop(bandwidth_bytes_per_s=100), Hop(bandwidth_bytes_per_s=50))
    log = run_chain(draw_traffic((cls,), 20, 1)[:1], (cls,), hops, "fifo", 40, rule="cost")
    latencies = [e - i.created_ns for i, e in zip(log.sent, log.ended_ns, strict=True)]
    assert latencies == [3 * 10**9]


def test_the_cost_rule_spares_the_first_link_what_the_second_cannot_deliver() -> None:
    scenario = LinkScenario(scheduler="min-slack", hops=(1.0, 1.0), bandwidth_bytes_per_s=2500)
    shares = {
        rule: sum(c.delivered for c in counts(simulate(replace(scenario, rule=rule), 1), SECTION_4))
        for rule in ("none", "even", "cost")
    }
    assert shares["cost"] > shares["none"] * 1.5
    assert shares["even"] > shares["none"] * 1.5


def test_cross_traffic_takes_its_share_of_its_hop_only() -> None:
    foreign = LinkClass(name="foreign", value=9, deadline_s=1, size_bytes=500, rate_per_s=3)
    plain = LinkScenario(
        scheduler="static-priority", hops=(1.0, 1.0), bandwidth_bytes_per_s=3000, duration_s=200
    )
    crossed = replace(plain, cross=(foreign,))
    without, with_it = (counts(simulate(s, 1), SECTION_4) for s in (plain, crossed))
    assert [c.arrived for c in with_it] == [c.arrived for c in without]
    assert with_it[0].delivered < without[0].delivered


def test_windows_count_only_when_complete() -> None:
    cls = LinkClass(name="a", value=1, deadline_s=1, m=2, n=3)
    assert windows_met([0, 1, 3, 6, 7], 8, cls) == (1, 2)


@pytest.mark.slow
def test_needs_find_the_last_upward_crossing() -> None:
    """Static priority: class 1 alone needs hardly more than its minimum, 1.5 KB/s."""
    first, second = needs(LinkScenario(scheduler="static-priority"), range(1, 7))
    assert first.kb_per_s == pytest.approx(1.52, abs=0.02)
    assert second.kb_per_s == pytest.approx(3.55, abs=0.1)
    assert need_of_all([first, second]) is second


def test_needs_are_nan_where_no_bandwidth_is_enough() -> None:
    tight = tuple(replace(c, deadline_s=0.01) for c in SECTION_4)
    found = needs(LinkScenario(scheduler="fifo", classes=tight, duration_s=100), [1, 2])
    assert math.isnan(found[0].bytes_per_s)
    assert math.isnan(need_of_all([*found, Need(1, 0)]).bytes_per_s)


def test_a_changing_rate_changes_the_arrivals_and_not_their_number_per_work() -> None:
    steady = draw_traffic((ONE,), 100, 5)
    doubled = draw_traffic((ONE,), 50, 5, rates=((0.0, 2.0),))
    assert [round(i.arrived_ns / 2) for i in steady] == pytest.approx(
        [i.arrived_ns for i in doubled], abs=2
    )
    pulsed = draw_traffic((ONE,), 100, 5, rates=((50.0, 0.0),))
    assert max(i.arrived_ns for i in pulsed) <= 50e9


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"deadline_s": 0}, "deadline"),
        ({"m": 3, "n": 2}, "minimum 3/2"),
        ({"size_bytes": 0}, "size"),
        ({"rate_per_s": -1}, "rate_per_s"),
        ({"value": math.nan}, "value"),
    ],
)
def test_a_class_that_makes_no_sense_is_refused(changes: dict[str, float], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        replace(ONE, **changes)  # type: ignore[arg-type]


def test_names_and_values_of_classes_must_differ() -> None:
    with pytest.raises(ConfigError, match="same value"):
        ranked([ONE, replace(ONE, name="other")])
    with pytest.raises(ConfigError, match="same name"):
        ranked([ONE, replace(ONE, value=2)])


def test_an_unknown_scheduler_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fifo'"):
        make_scheduler("fifi", SECTION_4, 2500)


@pytest.mark.parametrize(
    ("name", "params", "finding"),
    [
        ("due", {"margin": -0.1}, "margin -0.1"),
        ("hybrid", {"margin": math.nan}, "margin nan"),
        ("conveyor-belt", {"marks": "dynamik"}, "did you mean 'dynamic'"),
        ("conveyor-belt", {"slot_bytes": -1}, "slot_bytes -1"),
        ("fifo", {"margin": 0.1}, "no parameter 'margin'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    name: str, params: dict[str, object], finding: str
) -> None:
    with pytest.raises(ConfigError, match=finding):
        make_scheduler(name, SECTION_4, 2500, params)
