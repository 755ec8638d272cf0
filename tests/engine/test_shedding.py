"""What to drop: the least utility per CPU time saved, and only under overload."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from daybreak.engine.shedding import (
    Input,
    Shedder,
    demand,
    drop_fractions,
    same_fractions,
    work_ahead_ns,
    worth,
)
from daybreak.engine.state import SystemState
from daybreak.model import Box, ConfigError, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.model.shedding import SheddingParams

INPUTS = st.lists(
    st.builds(
        Input,
        rate_per_s=st.integers(0, 100),
        cost_s=st.integers(0, 100).map(lambda ms: ms / 1000),
        worth=st.integers(0, 10),
    ),
    min_size=1,
    max_size=6,
)


def test_the_least_worth_per_cost_is_dropped_first() -> None:
    inputs = [
        Input(rate_per_s=10, cost_s=0.1, worth=1.0),  # asks for 1.0, worth 10 per second
        Input(rate_per_s=10, cost_s=0.05, worth=0.2),  # asks for 0.5, worth 4
        Input(rate_per_s=100, cost_s=0.01, worth=1.0),  # asks for 1.0, worth 100
    ]
    assert demand(inputs) == pytest.approx(2.5)
    assert drop_fractions(inputs, 2.5) == [0, 0, 0]
    assert drop_fractions(inputs, 2.25) == pytest.approx([0, 0.5, 0])
    assert drop_fractions(inputs, 1.5) == pytest.approx([0.5, 1, 0])
    assert drop_fractions(inputs, 0.0) == pytest.approx([1, 1, 1])
    assert drop_fractions(inputs, 1.5, keep=0.2) == pytest.approx([0.6, 0.8, 0])
    assert same_fractions(inputs, 1.5) == pytest.approx([0.4] * 3)


def test_what_costs_nothing_is_never_dropped() -> None:
    inputs = [Input(10, 0.0, 0.0), Input(10, 1.0, 5.0), Input(0.0, 1.0, 0.0)]
    assert drop_fractions(inputs, 5.0) == pytest.approx([0, 0.5, 0])


@settings(deadline=None, max_examples=40)
@given(INPUTS, st.integers(0, 40))
def test_no_other_shares_lose_less(inputs: list[Input], capacity: float) -> None:
    """Against a linear program: least utility lost, subject to what fits."""
    asked = np.array([i.rate_per_s * i.cost_s for i in inputs])
    lost = np.array([i.rate_per_s * i.worth for i in inputs])
    found = np.array(drop_fractions(inputs, capacity))
    assert ((found >= 0) & (found <= 1)).all()
    assert asked @ (1 - found) <= capacity + 1e-6
    best = linprog(lost, A_ub=[-asked], b_ub=[capacity - asked.sum()], bounds=(0, 1))
    assert best.fun is not None
    assert lost @ found <= best.fun + 1e-6 * max(1.0, best.fun)


def shared_network() -> Network:
    """s1 -> a -> {x (qx), y (qy)}; s2 -> b -> z (qz, whose result is late whatever is done)."""
    return Network(
        streams=[Stream(name="s1"), Stream(name="s2")],
        boxes=[
            Box(name="a", inputs=("s1",), cost_ns=1000, selectivity=0.5),
            Box(name="b", inputs=("s2",), cost_ns=2_000_000),
            Box(name="x", inputs=("a",), cost_ns=4000),
            Box(name="y", inputs=("a",), cost_ns=6000, selectivity=0.2),
            Box(name="z", inputs=("b",), cost_ns=2_000_000),
        ],
        queries=[
            Query(name="qx", output="x", cls="high"),
            Query(name="qy", output="y", cls="low", qos=QoSGraph.deadline(1.0)),
            Query(name="qz", output="z", cls="high", qos=QoSGraph.deadline(0.001, 0.002)),
        ],
        classes=[QueryClass(name="high", priority=3), QueryClass(name="low", priority=1)],
    )


def test_a_tuple_costs_and_is_worth_what_it_does_for_all_it_reaches() -> None:
    state = SystemState(shared_network())
    assert work_ahead_ns(state) == pytest.approx([6000, 4_000_000, 4000, 6000, 2_000_000])
    # Half of a's tuples pass: one result for qx (priority 3), 0.2 for qy.
    assert worth(state, 0) == pytest.approx(0.5 * 3 + 0.5 * 0.2)
    assert worth(state, 1) == 0.0


def one_box(deadline_s: float | None = 0.2) -> SystemState:
    qos = None if deadline_s is None else QoSGraph.deadline(deadline_s)
    return SystemState(
        Network(
            streams=[Stream(name="s")],
            boxes=[Box(name="b", inputs=("s",), cost_ns=10_000_000)],
            queries=[Query(name="q", output="b", qos=qos)],
        )
    )


def test_overload_is_a_demand_beyond_capacity_and_a_backlog_beyond_patience() -> None:
    # 10 ms a tuple: 95 a second fit, and half of the deadline of 0.2 s is 10 tuples of backlog.
    shedder = Shedder(one_box(), SheddingParams())
    assert shedder.review(1.0, {0: 150}, [10]) == {}
    assert shedder.review(1.0, {0: 150}, [11]) == pytest.approx({0: 1 - (0.95 - 0.01) / 1.5})
    # It goes on while demand exceeds capacity, with no backlog left too ...
    assert shedder.review(1.0, {0: 150}, [0]) == pytest.approx({0: 1 - 0.95 / 1.5})
    # ... and ends with it: rates follow by half each time.
    assert shedder.review(1.0, {0: 40}, [50]) == {}
    assert not shedder.overloaded


def test_a_backlog_alone_is_no_overload() -> None:
    shedder = Shedder(one_box(deadline_s=None), SheddingParams())
    assert shedder.review(1.0, {0: 90}, [100_000]) == {}
    # Without deadlines, a second's work may wait.
    assert shedder.review(1.0, {0: 200}, [99]) == {}
    assert shedder.review(1.0, {0: 200}, [101]) != {}


@pytest.mark.parametrize(("busy", "sheds"), [("urgent", False), ("later", True)])
def test_express_workers_are_room_for_the_highest_class_alone(busy: str, sheds: bool) -> None:
    """1.5 threads' worth of work of one class, for a worker and an express one."""
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), cost_ns=10_000_000) for n in ("urgent", "later")],
        queries=[Query(name=n, output=n, cls=n) for n in ("urgent", "later")],
        classes=[QueryClass(name="urgent", priority=60), QueryClass(name="later", priority=10)],
    )
    box = network.query_index[busy]
    shedder = Shedder(SystemState(network, 1, express=1), SheddingParams())
    waiting = [1000 if b == box else 0 for b in range(2)]
    assert set(shedder.review(1.0, {box: 150}, waiting)) == ({box} if sheds else set())


@pytest.mark.parametrize(
    "params",
    [
        {"window_s": 0.0}, {"headroom": 0.0}, {"headroom": 1.5}, {"patience_s": -1.0},
        {"recover_s": float("nan")}, {"keep": 2.0}, {"by": "luck"},
    ],
)  # fmt: skip
def test_parameters_without_sense_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(params))):
        SheddingParams(**params)  # type: ignore[arg-type]
