"""Drawing by tickets, and the shares that follow from it."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import Arrivals, Box, Network, Query, QueryClass, Stream
from daybreak.policies.base import Work
from daybreak.policies.lottery import Lottery
from daybreak.policies.parts.classes.tickets import Tickets
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate

LENGTHS = {"a": 10_000, "b": 50_000, "c": 20_000}
PRIORITIES = {"a": 3.0, "b": 2.0, "c": 1.0}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.one_of(st.just(0.0), st.floats(1e-9, 1e9))),
        max_size=40,
    ),
    st.integers(0, 2**32),
)
def test_whoever_is_drawn_holds_tickets(gifts: list[tuple[int, float]], seed: int) -> None:
    tickets, held = Tickets(13), dict.fromkeys(range(13), 0.0)
    for holder, count in gifts:
        tickets.give(holder, count)
        held[holder] = count
        assert tickets.total == pytest.approx(sum(held.values()), rel=1e-12)
    drawn = tickets.draw(Random(seed))
    assert (drawn is None) == (not any(held.values()))
    assert drawn is None or held[drawn] > 0


def test_draws_follow_the_tickets() -> None:
    tickets, shares = Tickets(5), (4.0, 0.0, 1.5, 0.5, 2.0)
    for holder, count in enumerate(shares):
        tickets.give(holder, count)
    random, draws = Random(3), 20_000
    drawn = Counter(tickets.draw(random) for _ in range(draws))
    for holder, count in enumerate(shares):
        p = count / sum(shares)
        # Four standard errors of a binomial count.
        assert drawn[holder] / draws == pytest.approx(p, abs=4 * (p * (1 - p) / draws) ** 0.5)


def overloaded(level: str, **params: object) -> dict[str, tuple[float, float]]:
    """Everything waits from the start; shares of runs and of time while all still wait."""
    network = Network(
        streams=[Stream(name=f"s{c}", arrivals=Arrivals(rate_per_s=1)) for c in LENGTHS],
        boxes=[Box(name=c, inputs=(f"s{c}",), cost_ns=ns) for c, ns in LENGTHS.items()],
        queries=[Query(name=c, output=c, cls=c) for c in LENGTHS],
        classes=[QueryClass(name=c, priority=p) for c, p in PRIORITIES.items()],
    )
    each = 8000
    schedule = ArrivalSchedule(
        np.zeros(3 * each, np.int64), np.arange(3 * each, dtype=np.int32) % 3
    )
    policy = make_policy_with("lottery", level=level, train=1, **params)
    report = simulate(network, policy, schedule, seed=5)
    left = {c: report.outputs.departure_ns[report.outputs.query == i]
            for i, c in enumerate(report.queries)}  # fmt: skip
    until = min(int(v.max()) for v in left.values())
    runs = {c: int((v <= until).sum()) for c, v in left.items()}
    time = {c: n * LENGTHS[c] for c, n in runs.items()}
    return {c: (runs[c] / sum(runs.values()), time[c] / sum(time.values())) for c in LENGTHS}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["class", "query", "box"])
@pytest.mark.parametrize("compensate", [True, False])
def test_runs_or_time_are_shared_by_priority(level: str, compensate: bool) -> None:
    shares = overloaded(level, compensate=compensate)
    for c, priority in PRIORITIES.items():
        wanted = priority / sum(PRIORITIES.values())
        assert shares[c][1 if compensate else 0] == pytest.approx(wanted, abs=0.025)


def test_a_shared_box_holds_the_tickets_of_all_it_serves() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[
            Box(name="shared", inputs=("s",)),
            Box(name="x", inputs=("shared",)),
            Box(name="y", inputs=("shared",)),
        ],
        queries=[Query(name="qx", output="x", cls="a"), Query(name="qy", output="y", cls="b")],
        classes=[QueryClass(name=c, priority=p) for c, p in PRIORITIES.items()],
    )
    policy = make_policy_with("lottery", level="box")
    assert isinstance(policy, Lottery)
    policy.attach(SystemState(network), Work(), 1)
    held = {b.name: policy.tickets(i) for i, b in enumerate(network.boxes)}
    assert held == {"shared": 5.0, "x": 3.0, "y": 2.0}
