"""Memory, load shedding and boxes that wait, together: exact runs, and what is conserved."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.drawn import OVERHEADS, arrivals, networks, waiting

from daybreak.model import Arrivals, Box, Network, Overheads, Query, Stream, chain
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.laws import assert_same
from daybreak.simulation.simulate import simulate

MS = 1_000_000
#: Drops all that comes once there is more than nothing to do: what is dropped is no matter of luck.
ALL = SheddingParams(window_s=0.003, patience_s=0.0, recover_s=1e-4)
POLICIES: list[Callable[[], BasePolicy]] = [
    partial(make_policy_with, "fcfs"),
    partial(make_policy_with, "round-robin", train=2),
    partial(make_policy_with, "aaat", traversal="mc"),
    partial(make_policy_with, "stride"),
]


def asking(cost_ms: int, wait_ms: int, *after_ms: int) -> Network:
    """A box that asks a service, whose tuples have 10 bytes, and maybe one of 4 bytes after it."""
    boxes = [
        Box(name="ask", inputs=("s",), cost_ns=cost_ms * MS, wait_ns=wait_ms * MS, tuple_bytes=10)
    ]
    for cost in after_ms:
        boxes.append(Box(name="after", inputs=("ask",), cost_ns=cost * MS, tuple_bytes=4))
    return Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=1))],
        boxes=boxes,
        queries=[Query(name="q", output=boxes[-1].name)],
    )


def run(network: Network, at_ms: list[int], *, yields: bool, shed: bool = False) -> RunReport:
    schedule = ArrivalSchedule(np.array(at_ms, np.int64) * MS, np.zeros(len(at_ms), np.int32))
    return simulate(
        network,
        make_policy_with("fcfs", train=1),
        schedule,
        memory=True,
        yields=yields,
        shedding=ALL if shed else None,
    )


def held(report: RunReport) -> list[tuple[int, int]]:
    memory = report.memory
    assert memory is not None
    return list(zip((memory.at_ns // MS).tolist(), memory.held_bytes.tolist(), strict=True))


def left_ms(report: RunReport) -> list[int]:
    return [at_ns // MS for at_ns in report.outputs.departure_ns.tolist()]


def test_a_tuple_is_held_until_what_it_waits_for_is_there() -> None:
    network = asking(1, 10, 2)
    yielding = run(network, [0, 3], yields=True)
    # ask from 0 to 1 and 3 to 4, answers at 11 and 14, after from 11 to 13 and 14 to 16.
    assert left_ms(yielding) == [13, 16]
    assert held(yielding) == [(0, 10), (3, 20), (11, 14), (13, 10), (14, 4), (16, 0)]
    blocked = run(network, [0, 3], yields=False)
    # ask from 0 to 11, after until 13, ask until 24, after until 26.
    assert left_ms(blocked) == [13, 26]
    assert held(blocked) == [(0, 10), (3, 20), (11, 14), (13, 10), (24, 4), (26, 0)]


@pytest.mark.parametrize(("yields", "left"), [(True, [7, 11, 15]), (False, [7, 14, 21])])
def test_what_is_dropped_is_not_held_and_waits_for_nothing(yields: bool, left: list[int]) -> None:
    report = run(asking(4, 3), [0, 1, 2, 3, 4, 5], yields=yields, shed=True)
    # At 3 ms, three tuples of 4 ms each have come in 3 ms: all that comes from then on goes.
    assert report.dropped == (3,)
    assert left_ms(report) == left
    came = [(0, 10), (1, 20), (2, 30), (3, 30), (4, 30), (5, 30)]
    assert held(report) == [*came, *zip(left, [20, 10, 0], strict=True)]


def test_memory_and_shedding_without_a_wait() -> None:
    report = run(asking(4, 0), [0, 1, 2, 3, 4, 5], yields=True, shed=True)
    assert (report.dropped, left_ms(report)) == ((3,), [4, 8, 12])
    # At 4 ms the arrival that is dropped comes before the end of the call.
    came = [(0, 10), (1, 20), (2, 30), (3, 30), (4, 30), (4, 20), (5, 20)]
    assert held(report) == [*came, (8, 10), (12, 0)]


def test_shedding_counts_results_that_are_to_come_at_the_boxes_they_go_to() -> None:
    """At 3 ms nothing is queued, and yet two tuples are on their way to a box of 9 ms."""
    report = run(asking(1, 5, 9), [0, 1, 3, 4], yields=True, shed=True)
    assert report.dropped == (2,)
    assert left_ms(report) == [15, 24]


def test_time_that_workers_are_blocked_is_shed_for() -> None:
    """A call takes 1 ms of CPU and 9 of waiting, and one tuple comes every 5 ms."""
    network, at_ms = asking(1, 9), list(range(0, 20_000, 5))
    shedding = SheddingParams(patience_s=0.5)
    schedule = ArrivalSchedule(np.array(at_ms, np.int64) * MS, np.zeros(len(at_ms), np.int32))
    blocking, yielding = (
        simulate(
            network, make_policy_with("fcfs", train=1), schedule, shedding=shedding, yields=yields
        )
        for yields in (False, True)
    )
    assert blocking.dropped[0] / len(at_ms) == pytest.approx(1 - 0.95 / 2, abs=0.07)
    assert (blocking.response_s < 2).all()
    assert yielding.dropped == (0,)
    assert (yielding.response_s == 0.010).all()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    network=networks(),
    policy=st.sampled_from(POLICIES),
    seed=st.integers(0, 10**6),
    load=st.floats(0.3, 4.0),
    workers=st.integers(1, 3),
    wait_ns=st.sampled_from([0, 200_000, 5 * MS]),
    yields=st.booleans(),
    shed=st.booleans(),
    overheads=OVERHEADS,
)
def test_tuples_bytes_and_time_are_conserved(
    network: Network,
    policy: Callable[[], BasePolicy],
    seed: int,
    load: float,
    workers: int,
    wait_ns: int,
    yields: bool,
    shed: bool,
    overheads: Overheads,
) -> None:
    network = waiting(network, wait_ns)
    schedule = arrivals(network, seed, load, workers)
    shedding = SheddingParams(window_s=0.01, patience_s=0.005) if shed else None
    simulated = partial(
        simulate, network, schedule=schedule, overheads=overheads, workers=workers, seed=seed,
        yields=yields,
    )  # fmt: skip
    report = simulated(policy=policy(), shedding=shedding, memory=True)
    # Weighing changes nothing, and shows an empty house at the end.
    assert_same(report, simulated(policy=policy(), shedding=shedding))
    if len(schedule):
        assert report.memory is not None
        assert report.memory.held_bytes[-1] == 0
        assert (report.memory.held_bytes >= 0).all()
        assert (np.diff(report.memory.at_ns) >= 0).all()
    # Every tuple that came to a box was worked on, or dropped where it came in.
    fed = np.zeros(len(network.boxes), np.int64)
    streams = np.bincount(schedule.stream, minlength=len(network.streams))
    for stream, boxes in enumerate(network.stream_boxes):
        for b in boxes:
            fed[b] += streams[stream]
    inside = np.zeros_like(fed)
    for b, emitted in enumerate(report.boxes["tuples_out"]):
        for d in network.downstream[b]:
            inside[d] += emitted
    dropped = fed + inside - report.boxes["tuples_in"]
    assert (dropped >= 0).all()
    assert (dropped <= fed).all()
    for q, boxes in enumerate(network.query_boxes):
        assert dropped[list(boxes)].sum() == report.dropped[q]
    assert sum(report.boxes["pending"]) == 0
    assert report.spent.work_ns == sum(report.boxes["work_ns"])
    assert report.spent.idle_ns >= 0
    # What is kept has the fate that it has when nothing is dropped.
    whole = report if shedding is None else simulated(policy=policy())
    kept, all_of_them = (
        Counter(zip(r.outputs.query.tolist(), r.outputs.arrival_ns.tolist(), strict=True))
        for r in (report, whole)
    )
    assert kept <= all_of_them


def test_a_review_counts_the_train_of_a_list_where_it_is() -> None:
    """In the middle of a list, what a step works on is at its box, for a lone worker too."""
    network = Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=1))],
        boxes=chain("q", "s", [2 * MS, 2 * MS, 2 * MS]),
        queries=[Query(name="q", output="q.3")],
    )
    schedule = ArrivalSchedule(np.arange(200) * MS * 3 // 2, np.zeros(200, np.int32))
    plain, weighed = (
        simulate(
            network,
            make_policy_with("aaat", traversal="mc"),
            schedule,
            shedding=SheddingParams(window_s=0.003, patience_s=0.0, recover_s=0.1),
            memory=memory,
        )
        for memory in (False, True)
    )
    assert_same(plain, weighed)
    assert plain.dropped == weighed.dropped


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    network=networks(),
    policy=st.sampled_from(POLICIES),
    seed=st.integers(0, 10**6),
    workers=st.integers(1, 3),
    overheads=OVERHEADS,
)
def test_hooks_that_find_nothing_to_do_change_nothing(
    network: Network,
    policy: Callable[[], BasePolicy],
    seed: int,
    workers: int,
    overheads: Overheads,
) -> None:
    schedule = arrivals(network, seed, 0.8, workers)
    simulated = partial(
        simulate, network, schedule=schedule, overheads=overheads, workers=workers, seed=seed
    )
    plain = simulated(policy=policy())
    hooked = simulated(policy=policy(), memory=True, shedding=SheddingParams(patience_s=1e6))
    assert_same(plain, hooked)
    assert plain.boxes == hooked.boxes
