"""The FAS testbed: what section 6 of the paper says of it, and small figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daybreak_experiments.core import Context
from daybreak_experiments.fas import testbed
from daybreak_experiments.fas.real import figure_10
from daybreak_experiments.fas.testbed import Setting, arrivals, measure

SMALL = Setting(queries=20, streams=4, bursty=2, tuples=200)


def test_queries_are_as_the_paper_says() -> None:
    network = testbed.testbed(Setting())
    assert len(network.queries) == 250
    for boxes in network.query_boxes:
        first, second, last = (network.boxes[b] for b in boxes)
        assert first.selectivity == second.selectivity
        assert 0.1 <= first.selectivity <= 1.0
        assert last.selectivity == 1.0
        assert first.cost_ns == second.cost_ns == last.cost_ns
        assert first.cost_ns in (1000, 2000, 4000)
    assert {len(boxes) for boxes in network.stream_boxes} == {25}


def test_skew_is_towards_one() -> None:
    def mean(zipf: float) -> float:
        boxes = testbed.testbed(Setting(zipf=zipf)).boxes
        return float(np.mean([b.selectivity for b in boxes if b.name.endswith(".1")]))

    assert mean(0.0) == pytest.approx(0.55, abs=0.06)
    assert mean(0.0) < mean(1.0) < mean(2.0)


def test_arrivals_have_the_number_the_bursts_and_the_load() -> None:
    setting = replace(SMALL, tuples=5_000)
    network = testbed.testbed(setting)
    schedule = arrivals(setting, network)
    assert np.bincount(schedule.stream).tolist() == [5_000] * 4
    for stream in range(4):
        at = schedule.at_ns[schedule.stream == stream]
        assert len(np.unique(at)) == (500 if stream < 2 else pytest.approx(5_000, abs=20))
    offered = sum(5_000 * network.total_cost_ns(s) for s in range(4)) / int(schedule.at_ns[-1])
    assert offered == pytest.approx(0.95, rel=0.05)


def test_policies_keep_the_papers_order_on_a_small_testbed() -> None:
    stale = {
        policy: np.mean([measure(replace(SMALL, policy=policy, seed=s)).staleness for s in (1, 2)])
        for policy in ("fas-mcq", "rb-mcq", "round-robin")
    }
    assert stale["fas-mcq"] < stale["rb-mcq"] < stale["round-robin"]


def test_the_calendar_is_paid_by_fas_alone() -> None:
    fas, rb = (testbed.run(replace(SMALL, policy=p, beta=0.0)) for p in ("fas-mcq", "rb-mcq"))
    assert rb.spent.scheduling_ns == 0
    assert (
        0
        < fas.spent.scheduling_ns
        <= 1000 * len(np.unique(arrivals(SMALL, testbed.testbed(SMALL)).at_ns))
    )


def test_figure_10_without_traces_says_what_it_lacks() -> None:
    outcome = figure_10(Context(seeds=[1]))
    assert [c.kind for c in outcome.claims] == ["skipped"]
    assert "tcp=FILE" in outcome.claims[0].ours


def test_a_trace_may_open_with_an_absolute_instant(tmp_path: Path) -> None:
    """As those of the Internet Traffic Archive do; a window of it has the utilisation."""
    random = np.random.default_rng(1)
    files = []
    for name in ("tcp", "udp"):
        gaps = random.exponential(0.1, size=3_000)
        rows = [f"{t:.6f} 1 2 3" for t in 0.25 + np.cumsum(gaps)]
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(["759189600.250000 1 2 3", *rows]) + "\n")
    setting = Setting(queries=10, streams=2, tuples=500, traces=tuple(files), utilisation=0.8)
    network = testbed.testbed(setting)
    schedule = arrivals(setting, network)
    assert len(schedule) == pytest.approx(500, abs=120)
    counts = np.bincount(schedule.stream)
    work = sum(n * network.total_cost_ns(s) for s, n in enumerate(counts.tolist()))
    assert work / int(schedule.at_ns[-1]) == pytest.approx(0.8, rel=0.03)
