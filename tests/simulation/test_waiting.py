"""Boxes that wait for I/O: exact times, blocking and yielding."""

import numpy as np

from daybreak.model import Arrivals, Box, Network, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate

UNIT = 1_000


def network(wait: int) -> Network:
    """``slow`` asks a database and is followed by ``after``; ``quick`` needs the CPU only."""
    boxes = [
        Box(name="slow", inputs=("a",), cost_ns=1 * UNIT, wait_ns=wait * UNIT),
        Box(name="after", inputs=("slow",), cost_ns=2 * UNIT),
        Box(name="quick", inputs=("b",), cost_ns=3 * UNIT),
    ]
    return Network(
        streams=[Stream(name=n, arrivals=Arrivals(rate_per_s=1)) for n in ("a", "b")],
        boxes=boxes,
        queries=[Query(name="asks", output="after"), Query(name="works", output="quick")],
    )


def run(wait: int, *, yields: bool, tuples: int = 1, **options: object) -> RunReport:
    """``tuples`` of the first stream at the start, and of the second just after that."""
    stream = np.repeat(np.arange(2, dtype=np.int32), tuples)
    schedule = ArrivalSchedule(stream.astype(np.int64), stream)
    policy = make_policy_with("fcfs", train=1)
    return simulate(network(wait), policy, schedule, yields=yields, **options)  # type: ignore[arg-type]


def departures(report: RunReport, query: str) -> list[float]:
    mine = report.outputs.query == report.queries.index(query)
    return sorted((report.outputs.departure_ns[mine] / UNIT).tolist())


def test_a_worker_that_blocks_waits_with_the_box() -> None:
    report = run(10, yields=False)
    # slow until 1, its answer at 11, after until 13, quick until 16.
    assert departures(report, "asks") == [13]
    assert departures(report, "works") == [16]


def test_a_worker_that_yields_runs_other_boxes_meanwhile() -> None:
    report = run(10, yields=True)
    assert departures(report, "works") == [4]
    assert departures(report, "asks") == [13]


def test_calls_that_wait_overlap_where_workers_yield() -> None:
    report = run(10, yields=True, tuples=3)
    assert report.outputs.tuples.sum() == 6
    # Three calls of one unit, three of three: the CPU is busy until the first answer is there.
    assert departures(report, "asks")[-1] <= 10 + 1 + 3 * (1 + 2 + 3)
    blocked = run(10, yields=False, tuples=3)
    assert departures(blocked, "asks")[-1] >= 3 * 10


def test_without_a_wait_yielding_changes_nothing() -> None:
    one, other = run(0, yields=True, tuples=5), run(0, yields=False, tuples=5)
    assert np.array_equal(one.outputs.departure_ns, other.outputs.departure_ns)
