"""Weights that follow subscribers: declared, derived, and changed at run time."""

import numpy as np
import pytest

from daybreak.engine.state import SystemState
from daybreak.model import ConfigError, Network, Query, Stream, chain
from daybreak.model.pipeline import Pipeline
from daybreak.model.weights import weights_by_subscribers
from daybreak.policies.base import Change
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.loop import SimulationLoop
from daybreak.simulation.simulate import NO_OVERHEADS


def test_weights_follow_the_number_of_subscribers() -> None:
    assert weights_by_subscribers({"a": 50, "b": 5, "c": 0}) == {"a": 1.0, "b": 0.1, "c": 0.02}
    assert weights_by_subscribers({}) == {}


def network(*queries: Query) -> Network:
    return Network(
        streams=[Stream(name="s")],
        boxes=[b for q in queries for b in chain(q.name, "s", [10])],
        queries=queries,
    )


def query(name: str, **given: float | int) -> Query:
    return Query(name=name, output=f"{name}.1", **given)  # type: ignore[arg-type]


def test_a_network_derives_weights_and_keeps_those_that_are_given() -> None:
    declared = network(
        query("a", subscribers=8), query("b", subscribers=2), query("c", weight=0.3), query("d")
    )
    assert [q.weight for q in declared.queries] == [1.0, 0.25, 0.3, 1.0]
    with pytest.raises(ConfigError, match="subscribers -1"):
        query("e", subscribers=-1)


TEXT = """
[streams.s.arrivals]
rate_per_s = 10
[queries.a]
from = "s"
chain = [{ cost_us = 10 }]
subscribers = 10
[queries.b]
from = "s"
chain = [{ cost_us = 10 }]
"""


@pytest.mark.parametrize(
    ("more", "finding"),
    [
        ("subscribers = 5\nweight = 0.5", "has a weight and subscribers"),
        ("subscribers = 2.5", "subscribers is 2.5"),
        ("subscribers = -2", "subscribers -2"),
    ],
)
def test_pipelines_declare_subscribers(more: str, finding: str) -> None:
    pipeline = Pipeline.parse(TEXT + "subscribers = 4\n")
    assert [q.weight for q in pipeline.network.queries] == [1.0, 0.4]
    assert [q.subscribers for q in pipeline.queries] == [10, 4]
    with pytest.raises(ConfigError, match=finding):
        Pipeline.parse(TEXT + more)


def test_a_change_of_one_may_change_the_shares_of_all() -> None:
    state = SystemState(network(query("a", subscribers=8), query("b", subscribers=2), query("c")))
    assert state.subscribed(1, 4) == [1]
    assert state.query_weight == [1.0, 0.5, 1.0]
    assert state.subscribed(1, 16) == [0, 1]
    assert state.query_weight == [0.5, 1.0, 1.0]
    assert state.subscribed(1, 16) == []
    assert state.subscribed(2, 16) == []  # 16 of 16: as before, but it follows from now on
    assert state.subscribed(2, 32) == [0, 1]
    assert state.query_weight == [0.25, 0.5, 1.0]


def test_a_running_simulation_follows_the_subscribers() -> None:
    """Two equal queries: the one with more subscribers goes first, also once that changes."""
    declared = network(query("a", subscribers=9), query("b", subscribers=1))
    at = np.arange(0, 2000, 100)
    monitor, state = Monitor(declared), SystemState(declared)
    schedule = ArrivalSchedule(at, np.zeros(len(at), np.int32))
    executor = VirtualExecutor(state, schedule, monitor, NO_OVERHEADS)
    loop = SimulationLoop(state, make_policy_with("fas-mcq"), executor, seed=1)
    moved = False
    while True:
        loop.dispatch()
        if not executor.advance(loop):
            break
        if executor.now_ns >= 950 and not moved:
            moved = True
            for subject in state.subscribed(1, 90):
                loop.changed(Change("weight", subject), executor.now_ns)
    report = monitor.report(state, executor.now_ns, 1, {})
    left = report.outputs.departure_ns.reshape(2, -1)
    assert (left[0] < left[1]).tolist() == [True] * 10 + [False] * 10
    assert report.weights == (0.1, 1.0)
