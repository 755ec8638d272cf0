"""Memory in queues over time: exact on a small run, and no other run than without it."""

import numpy as np
import pytest

from daybreak.model import Arrivals, Box, Network, Overheads, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule
from daybreak.simulation.laws import assert_same, busy_network
from daybreak.simulation.simulate import simulate


def two_boxes() -> Network:
    """Tuples of 10 bytes into a box that passes them on as 4 bytes."""
    return Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=1))],
        boxes=[
            Box(name="b1", inputs=("s",), cost_ns=100, tuple_bytes=10),
            Box(name="b2", inputs=("b1",), cost_ns=50, tuple_bytes=4),
        ],
        queries=[Query(name="q", output="b2")],
    )


def run(memory: bool = True) -> RunReport:
    schedule = ArrivalSchedule(np.array([0, 0, 150], np.int64), np.zeros(3, np.int32))
    policy = make_policy_with("aaat", traversal="mc")
    overheads = Overheads(box_call_ns=5)
    return simulate(two_boxes(), policy, schedule, overheads=overheads, memory=memory)


def test_bytes_are_let_go_when_a_call_ends() -> None:
    memory = run().memory
    assert memory is not None
    # b1 works on two tuples until 205, b2 until 310; the third arrives at 150, goes on to 415
    # and leaves at 470.
    recorded = list(zip(memory.at_ns.tolist(), memory.held_bytes.tolist(), strict=True))
    assert recorded == [(0, 10), (0, 20), (150, 30), (205, 18), (310, 10), (415, 4), (470, 0)]
    assert memory.peak_bytes == 30
    spans = 150 * 20 + 55 * 30 + 105 * 18 + 105 * 10 + 55 * 4
    assert memory.mean_bytes == pytest.approx(spans / 470)
    assert memory.at(np.array([-1, 0, 149, 150, 500])).tolist() == [0, 20, 20, 30, 0]


def test_nothing_is_weighed_unless_asked() -> None:
    assert run(memory=False).memory is None


@pytest.mark.parametrize("workers", [1, 3])
def test_weighing_changes_nothing_and_ends_empty(workers: int) -> None:
    network = busy_network()
    schedule = draw_schedule(network, 1.0, seed=3)
    plain, weighed = (
        simulate(network, make_policy_with("aaat"), schedule, workers=workers, memory=memory)
        for memory in (False, True)
    )
    assert_same(plain, weighed)
    assert weighed.memory is not None
    assert weighed.memory.held_bytes[-1] == 0
    assert (weighed.memory.held_bytes >= 0).all()
    assert (np.diff(weighed.memory.at_ns) >= 0).all()


def test_memory_survives_saving(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("report")
    report = run()
    loaded = RunReport.load(report.save(folder))
    assert report.memory is not None
    assert loaded.memory is not None
    assert loaded.memory.at_ns.tolist() == report.memory.at_ns.tolist()
    assert loaded.memory.held_bytes.tolist() == report.memory.held_bytes.tolist()
    # A later run without memory into the same folder leaves none behind.
    assert RunReport.load(run(memory=False).save(folder)).memory is None
