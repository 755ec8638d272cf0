"""Virtual time: conservation, trains, fates of tuples, overheads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.model import Arrivals, Box, Network, Overheads, Query, Stream, chain
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule
from daybreak.simulation.laws import busy_network
from daybreak.simulation.simulate import simulate


def one_chain(*costs_ns: int, selectivities: tuple[float, ...] = ()) -> Network:
    boxes = chain("q", "s", costs_ns, selectivities)
    return Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=10))],
        boxes=boxes,
        queries=[Query(name="q", output=boxes[-1].name)],
    )


def at(*times_ns: int) -> ArrivalSchedule:
    return ArrivalSchedule(np.array(times_ns, np.int64), np.zeros(len(times_ns), np.int32))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(["round-robin", "fcfs", "fixed-priority"]),
    level=st.sampled_from(["box", "query"]),
    workers=st.integers(1, 3),
    train=st.integers(0, 5),
    overheads=st.builds(
        Overheads,
        fixed_ns=st.integers(0, 50_000),
        scan_ns=st.integers(0, 500),
        box_call_ns=st.integers(0, 20_000),
        superbox_ns=st.integers(0, 20_000),
        storage_ns=st.integers(0, 5_000),
    ),
)
def test_time_and_tuples_are_conserved(
    seed: int, policy: str, level: str, workers: int, train: int, overheads: Overheads
) -> None:
    """Time = scheduling + calls + storage + work + idle, and idle is never negative."""
    network = busy_network(seed % 50)
    schedule = draw_schedule(network, 0.3, seed)
    chosen = make_policy_with(policy, level=level, train=train)
    report = simulate(network, chosen, schedule, overheads=overheads, workers=workers, seed=seed)
    spent = report.spent
    assert spent.idle_ns >= 0
    assert spent.work_ns == sum(report.boxes["work_ns"])
    calls = sum(report.boxes["calls"])
    assert spent.call_ns == calls * overheads.box_call_ns
    assert spent.storage_ns == calls * overheads.storage_ns
    assert sum(report.boxes["pending"]) == 0
    fed = dict.fromkeys(range(len(network.boxes)), 0)
    for stream in schedule.stream.tolist():
        for b in network.stream_boxes[stream]:
            fed[b] += 1
    for b, emitted in enumerate(report.boxes["tuples_out"]):
        for d in network.downstream[b]:
            fed[d] += emitted
    assert report.boxes["tuples_in"] == [fed[b] for b in range(len(network.boxes))]
    assert (report.response_s >= 0).all()


def test_every_policy_lets_the_same_tuples_pass() -> None:
    """Fates are drawn with the arrivals, so policies are compared on the same tuples."""
    network = one_chain(1000, 1000, 1000, selectivities=(0.5, 0.3, 0.9))
    schedule = draw_schedule(network, 100.0, 1)
    survivors = [
        np.sort(simulate(network, make_policy_with(p), schedule).outputs.arrival_ns).tolist()
        for p in ("round-robin", "fcfs")
    ]
    assert survivors[0] == survivors[1]
    assert 0 < len(survivors[0]) < len(schedule)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.7, 1.0, 1.6, 3.0])
def test_selectivity_is_met_on_average(share: float) -> None:
    network = one_chain(10, 10, selectivities=(share, 0.5))
    schedule = draw_schedule(network, 2000.0, 1)
    report = simulate(network, make_policy_with("fcfs"), schedule)
    first, second = report.boxes["tuples_out"]
    n = len(schedule)
    assert first == pytest.approx(share * n, abs=4 * n**0.5)
    assert second == pytest.approx(first / 2, abs=4 * first**0.5)


def test_outputs_leave_one_tuple_cost_apart() -> None:
    report = simulate(
        one_chain(100), make_policy_with("fcfs"), at(0, 0, 0), overheads=Overheads(box_call_ns=7)
    )
    assert report.outputs.departure_ns.tolist() == [107, 207, 307]


def test_a_box_takes_what_is_queued_when_it_starts() -> None:
    """The second tuple comes during the first call and waits for the next."""
    report = simulate(one_chain(100), make_policy_with("fcfs"), at(0, 50, 99))
    assert report.outputs.departure_ns.tolist() == [100, 200, 300]
    assert report.boxes["calls"] == [2]


def test_arrivals_go_before_completions_of_the_same_instant() -> None:
    report = simulate(one_chain(100), make_policy_with("fcfs"), at(0, 100, 100))
    assert report.boxes["calls"] == [2]


@pytest.mark.parametrize(
    ("params", "calls"), [({"train": 2}, 3), ({"fraction": 0.5}, 4), ({"train": 0}, 1)]
)
def test_trains_by_count_and_fraction(params: dict[str, float], calls: int) -> None:
    """Six queued: trains of 2; or halves of what is left: 3, 2, 1... then the last."""
    report = simulate(one_chain(100), make_policy_with("round-robin", **params), at(*[0] * 6))
    assert report.boxes["calls"] == [calls - 1] if params.get("fraction") else [calls]
    assert len(report.outputs) == 6


def test_deciding_takes_the_time_that_was_charged() -> None:
    overheads = Overheads(fixed_ns=1000, scan_ns=10)
    report = simulate(one_chain(100), make_policy_with("fcfs"), at(0), overheads=overheads)
    assert report.outputs.departure_ns.tolist() == [1110]
    assert report.spent.scheduling_ns == 1010


def test_measured_costs_follow_what_boxes_really_take() -> None:
    network = Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=100))],
        boxes=[Box(name="b", inputs=("s",), cost_ns=1_000_000, service="exponential")],
        queries=[Query(name="q", output="b")],
    )
    report = simulate(network, make_policy_with("fcfs"), draw_schedule(network, 300.0, 1))
    assert report.boxes["cost_ns"][0] == pytest.approx(1_000_000, rel=0.1)
