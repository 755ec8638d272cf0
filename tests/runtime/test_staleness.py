"""Freshness is exact: stale from the first satisfying arrival to the last one processed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.model import Network, Query, Stream, chain
from daybreak.policies.registry import make_policy_with
from daybreak.report.run import as_json, query_table
from daybreak.runtime.report import RunReport
from daybreak.runtime.staleness import Stale, covered_ns
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.randomness import random_for
from daybreak.simulation.simulate import simulate


def run(at_ns: list[int], selectivity: float = 1.0, drain: str = "one", seed: int = 1) -> RunReport:
    """Two boxes of 10 ns each; a second query of one box of 5 ns and weight 0.25."""
    network = Network(
        streams=[Stream(name="s")],
        boxes=[*chain("q1", "s", [10, 10], [selectivity, 1.0]), *chain("q2", "s", [5])],
        queries=[
            Query(name="q1", output="q1.2"),
            Query(name="q2", output="q2.1", weight=0.25),
        ],
    )
    schedule = ArrivalSchedule(np.array(at_ns), np.zeros(len(at_ns), np.int32))
    return simulate(network, make_policy_with("fas-mcq", drain=drain), schedule, seed=seed)


def test_stale_intervals_by_hand() -> None:
    """Two updates at 0: q2 (weight 0.25) has V = 0.25/5, q1 1/20, so a tie goes to q1.

    q1 0-20, then each has priority by its single or double backlog: q1 20-40, q2 40-50.
    One more at 100: q1 100-120, q2 120-125.
    """
    report = run([0, 0, 100])
    assert report.spent.wall_ns == 125
    assert report.staleness.tolist() == pytest.approx([60 / 125, 75 / 125])
    assert report.overall_staleness == pytest.approx((60 / 125 + 0.25 * 75 / 125) / 1.25)


def test_an_update_that_will_not_pass_makes_nothing_stale() -> None:
    report = run([0, 50, 100], selectivity=0.0)
    assert report.staleness[0] == 0.0
    assert report.staleness[1] > 0.0


@pytest.mark.parametrize("drain", ["one", "all"])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_the_fates_known_at_arrival_say(drain: str, seed: int) -> None:
    """The same accounting forwards in time: luck decides on arrival who will satisfy q1."""
    at_ns = np.sort(np.random.default_rng(seed).integers(0, 3000, 60)).tolist()
    report = run(at_ns, selectivity=0.4, drain=drain, seed=seed)
    luck = random_for(seed, "luck").random
    opens = [at for at in at_ns if luck() < 0.4]
    closes = sorted(report.outputs.departure_ns[report.outputs.query == 0].tolist())
    assert len(opens) == len(closes) > 10
    events = sorted([(at, 1) for at in opens] + [(at, -1) for at in closes])
    stale, waiting, since = 0, 0, 0
    for at, change in events:
        stale += (at - since) * (waiting > 0)
        waiting, since = waiting + change, at
    assert report.staleness[0] == pytest.approx(stale / report.spent.wall_ns)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_covered_time_is_counted_once(spans: list[tuple[int, int]]) -> None:
    begin = np.array([b for b, _ in spans], dtype=np.int64)
    end = begin + np.array([length for _, length in spans], dtype=np.int64)
    instants = {t for b, e in zip(begin.tolist(), end.tolist(), strict=True) for t in range(b, e)}
    assert covered_ns(begin, end) == len(instants)


def test_a_report_keeps_weights(tmp_path: Path) -> None:

    report = run([0, 0, 100])
    loaded = RunReport.load(report.save(tmp_path / "run"))
    assert loaded.weights == (1.0, 0.25)
    assert loaded.overall_staleness == report.overall_staleness


def test_tables_and_json_show_it() -> None:
    report = run([0, 0, 100])
    shown = as_json(report)
    assert shown["staleness"] == report.overall_staleness
    assert shown["queries"]["q2"]["staleness"] == pytest.approx(75 / 125)
    assert {row[0]: row[-1] for row in query_table(report)} == {
        "query": "stale",
        "q1": "48.0%",
        "q2": "60.0%",
    }


def test_intervals_of_jobs_stand_for_results_where_there_are_any(tmp_path: Path) -> None:
    """On Spark: overlapping jobs count once, what came before the run from its start."""
    stale = Stale.of([(1, 90, 100), (1, -50, 10), (1, 5, 20), (0, 30, 30)])
    assert stale.by_query(3).tolist() == [0, 30, 0]
    report = replace(run([0, 0, 100]), stale=stale)
    assert report.staleness.tolist() == [0.0, 30 / 125]
    loaded = RunReport.load(report.save(tmp_path / "run"))
    assert loaded.staleness.tolist() == report.staleness.tolist()
    assert not Stale.of([]).by_query(2).any()
