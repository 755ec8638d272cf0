"""The last minutes of a run, second by second."""

from __future__ import annotations

import numpy as np
import pytest

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.runtime.history import History
from daybreak.runtime.report import summarise, weighted_percentiles
from daybreak.runtime.snapshot import HISTORY_S, MOST_JOBS

S = 1_000_000_000
START = 1_000 * S


def state() -> SystemState:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",)) for n in ("a", "b", "c")],
        queries=[
            Query(name="a", output="a", cls="high", weight=0.5),
            Query(name="b", output="b", cls="high"),
            Query(name="c", output="c", cls="low"),
        ],
        classes=[
            QueryClass(name="high", priority=60, qos=QoSGraph.deadline(0.5)),
            QueryClass(name="low", priority=10),
        ],
    )
    return SystemState(network, workers=2)


def history() -> History:
    figures = state()
    return History(lambda: figures, START)


def test_a_point_has_the_exact_percentiles_of_the_last_five_seconds() -> None:
    found = history()
    random = np.random.default_rng(7)
    latencies: list[tuple[int, int, int]] = []
    for second in range(8):
        for _ in range(50):
            query, latency = int(random.integers(2)), int(random.exponential(0.3) * S)
            tuples = int(random.integers(1, 9))
            latencies.append((second, latency, tuples))
            at_ns = START + second * S
            found.answered(query, at_ns - latency, at_ns, tuples)
        found.tick(START + (second + 1) * S, [0, 0, 0], 0, 0)
    recent = [(ns, n) for second, ns, n in latencies if second >= 3]
    values, tuples_ = (np.array(column) for column in zip(*recent, strict=True))
    expected = weighted_percentiles(values / S, tuples_)
    high, low = found.points[-1].classes
    assert (high.p50_s, high.p95_s, high.p99_s) == pytest.approx(
        [expected[p] for p in (50, 95, 99)], abs=1e-6
    )
    worth = QoSGraph.deadline(0.5).utility(values)
    assert high.utility == pytest.approx(summarise(values / S, worth, tuples_).utility, abs=1e-4)
    assert high.answered == tuples_.sum()
    assert low == (0, None, None, None, None, None, 0.0, 0)
    assert found.points[-1].starvation is None, "one class had no results"


def test_the_spread_of_a_minute_is_within_a_bin_of_the_exact_one() -> None:
    found = history()
    latency_ns = (np.random.default_rng(3).lognormal(-2, 1, 4000) * S).astype(np.int64)
    for second, part in enumerate(np.split(latency_ns, 40)):
        for ns in part.tolist():
            found.answered(2, START - ns, START, 1)
        found.tick(START + (second + 1) * S, [0, 0, 0], 0, 0)
    high, low = found.spreads()
    assert high is None
    exact = np.percentile(latency_ns / S, [10, 25, 50, 75, 90])
    assert low == pytest.approx(tuple(exact), rel=0.03)


def test_staleness_counts_overlapping_intervals_once_and_by_weight() -> None:
    found = history()
    found.was_stale(0, START - 5 * S, START + 2 * S)  # what was before the start does not count
    found.was_stale(0, START + 1 * S, START + 3 * S)
    found.was_stale(1, START + 9 * S, START + 10 * S)
    found.tick(START + 10 * S, [0, 0, 0], 0, 0)
    assert found.staleness().tolist() == pytest.approx([0.3, 0.1, 0.0])
    high, low = found.points[-1].classes
    assert high.staleness == pytest.approx((0.5 * 0.3 + 0.1) / 1.5, abs=1e-4)
    assert low.staleness == 0.0


def test_rates_shares_and_inversion_are_of_the_last_seconds() -> None:
    found = history()
    for second in range(1, 31):
        at_ns = START + second * S
        found.answered(0, at_ns - 2 * S, at_ns, 1)  # the high class is slower
        found.answered(2, at_ns - 1 * S, at_ns, 1)
        found.tick(at_ns, [10 * second, 0, 40 * second], second * S // 10, second * S)
    last = found.points[-1]
    assert found.arrived_per_s().tolist() == pytest.approx([10.0, 0.0, 40.0])
    assert last.scheduler_share == pytest.approx(0.1 / 3, abs=1e-5), "two workers and the loop"
    assert last.busy_share == pytest.approx(0.5)
    assert last.inversion == pytest.approx(6.0), "(60 / 10) x |1 - 2 / 1|"
    assert last.starvation == pytest.approx(0.5)


def test_a_class_starves_while_its_answers_get_slower_and_no_more_comes() -> None:
    found = history()
    for second in range(1, 21):
        at_ns = START + second * S
        found.answered(0, at_ns - S // 10, at_ns, 1)
        found.answered(2, at_ns - max(1, second - 10) * S, at_ns, 1)
        found.tick(at_ns, [second, second, second], 0, 0)
    assert found.starving() == {1}


def test_nothing_grows() -> None:
    found = history()
    for i in range(MOST_JOBS + 10):
        found.ran(i % 2, [0, 1], START + i, START + i + 1, tuples=5, rows=1)
    for second in range(1, HISTORY_S + 20):
        found.tick(START + second * S, [0, 0, 0], 0, 0)
    assert [found.jobs[0].seq, found.jobs[-1].seq] == [10, MOST_JOBS + 9]
    assert [found.points[0].seq, found.points[-1].seq] == [19, HISTORY_S + 18]
    assert len(found._totals) <= 62


def test_a_tick_within_the_second_does_nothing() -> None:
    found = history()
    found.tick(START + S - 1, [0, 0, 0], 0, 0)
    assert not found.points
