"""Box migration: what crosses a link, and which move relieves it."""

from dataclasses import replace

import pytest

from daybreak.links.box_migration import Placement, advise, link_classes
from daybreak.links.link_classes import LinkClass
from daybreak.model import Arrivals, Box, ConfigError, Network, Query, Stream


def network(first: float = 1.0, second: float = 0.1) -> Network:
    """A stream, a cleaning box and a filter, then two readers of what is left."""
    return Network(
        streams=[Stream(name="sensor", arrivals=Arrivals(rate_per_s=100))],
        boxes=[
            Box(name="clean", inputs=("sensor",), selectivity=first, cost_ns=1_000_000),
            Box(name="pick", inputs=("clean",), selectivity=second, cost_ns=1_000_000),
            Box(name="alarm", inputs=("pick",)),
            Box(name="average", inputs=("pick",)),
        ],
        queries=[Query(name="alarms", output="alarm"), Query(name="averages", output="average")],
    )


def placement(net: Network, edge: tuple[str, ...] = (), bandwidth: float = 5000) -> Placement:
    return Placement(
        network=net,
        streams_at={"sensor": "edge"},
        boxes_at={b.name: "edge" if b.name in edge else "centre" for b in net.boxes},
        clients_at={"alarms": "centre", "averages": "centre"},
        links={("edge", "centre"): bandwidth, ("centre", "edge"): bandwidth},
    )


def test_loads_follow_rates_and_selectivities_and_count_a_shared_output_once() -> None:
    net = network()
    link = ("edge", "centre")
    assert placement(net).loads()[link] == pytest.approx(100 * 100)
    assert placement(net, ("clean", "pick")).loads()[link] == pytest.approx(10 * 100)
    both_apart = placement(net, ("clean", "pick", "alarm"))
    assert both_apart.loads()[link] == pytest.approx(10 * 100 + 10 * 100)


def test_the_filter_moves_before_the_link_with_all_that_feeds_it() -> None:
    moves = advise(placement(network()))
    assert [(m.boxes, m.source, m.target) for m in moves] == [(("clean", "pick"), "centre", "edge")]
    assert moves[0].saved_bytes_per_s == pytest.approx(9000)


def test_a_box_that_multiplies_moves_behind_the_link() -> None:
    net = network(first=3.0, second=1.0)
    moves = advise(placement(net, ("clean",), bandwidth=15_000))
    assert [(m.boxes, m.target) for m in moves] == [(("clean",), "centre")]


def test_no_advice_where_no_link_is_saturated_or_no_move_helps() -> None:
    assert advise(placement(network(), bandwidth=20_000)) == []
    assert advise(placement(network(1.0, 1.0))) == []


def test_a_node_without_cpu_to_spare_takes_nothing() -> None:
    at = placement(network())
    assert advise(replace(at, cpus={"edge": 0.15})) == []
    assert len(advise(replace(at, cpus={"edge": 0.25}))) == 1


def test_a_move_that_needs_a_missing_link_is_not_proposed() -> None:
    net = network()
    at = placement(net)
    far = replace(at, clients_at={"alarms": "centre", "averages": "office"})
    far = replace(far, links={**at.links, ("centre", "office"): 1e6})
    for move in advise(far):
        assert "average" not in move.boxes


def test_flows_become_classes_with_the_needs_of_their_best_query() -> None:
    needs = {
        "alarms": LinkClass(name="alarms", value=2, deadline_s=1, m=9, n=10),
        "averages": LinkClass(name="averages", value=1, deadline_s=5, m=1, n=10),
    }
    (cls,) = link_classes(placement(network(), ("clean", "pick")), ("edge", "centre"), needs)
    assert (cls.name, cls.m, cls.deadline_s) == ("pick", 9, 1)
    assert cls.rate_per_s == pytest.approx(10)


def test_what_is_not_placed_is_refused() -> None:
    at = placement(network())
    with pytest.raises(ConfigError, match="has no node"):
        replace(at, boxes_at={"pick": "edge"})
    with pytest.raises(ConfigError, match="not declared"):
        replace(at, boxes_at={**at.boxes_at, "clena": "edge"})
