"""The benchmark of policies at and beyond capacity: its search, its policy and its criteria."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.loads.capacity import GATHER_NS, TRAIN, Gathering, capacity_per_s, steady
from benchmarks.loads.judging import contends, judge
from benchmarks.loads.neighbours import neighbours
from benchmarks.loads.pace import DISTURBED, TRIES, paced
from benchmarks.loads.results import Case, OtherSettings, Results
from benchmarks.loads.scoring import Outcome, Span, span
from benchmarks.loads.tracing import others
from benchmarks.mixed import undisturbed

from daybreak.engine.state import SystemState
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.base import Plan, Step, Wait, Work

GOOD = Outcome("mixed", "planned", 2.0, 1000.0, 0.9, 0.9, 0.6, 0.8, 0.01, 100, bound=0.95)


@pytest.mark.parametrize("true", [150.0, 7_000.0, 80_000.0, 333_000.0])
def test_the_capacity_is_found_to_a_tenth(true: float) -> None:
    tried: list[float] = []

    def keeps(rate: float) -> bool:
        tried.append(rate)
        return rate <= true

    assert 0.89 * true <= capacity_per_s(keeps) <= true
    assert len(tried) < 16


def test_cells_gather_for_five_seconds_and_run_whole() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in "ab"],
        queries=[Query(name=n, output=n) for n in "ab"],
    )
    state, policy = SystemState(network), Gathering()
    policy.attach(state, Work(), 1)
    assert policy.decide(0, 0) is None
    state.pending[:], state.head_ns[:] = [3, 4], [20, 10]
    assert policy.decide(30, 0) == Wait(10 + GATHER_NS)
    assert policy.decide(GATHER_NS + 15, 0) == Plan((Step(1, TRAIN),))
    assert policy.started == [(GATHER_NS + 15, GATHER_NS + 5)]
    state.running[1] = True
    assert policy.decide(GATHER_NS + 15, 0) == Wait(20 + GATHER_NS)


def test_a_worker_that_never_waits_does_not_keep_up() -> None:
    s = 1_000_000_000
    early = (10 * s, 9 * s)  # compiled
    assert steady([early, (36 * s, GATHER_NS), (38 * s, 8 * s)], 0, 40 * s)
    assert not steady([early, (36 * s, 6 * s), (38 * s, 8 * s)], 0, 40 * s), "all of them late"
    assert not steady([early, (36 * s, GATHER_NS), (38 * s, 16 * s)], 0, 40 * s), "one grows"
    assert not steady([early], 0, 40 * s), "nothing ran at the end"
    late = [(22 * s, 9 * s), (28 * s, 10 * s)]
    assert steady([*late, (36 * s, 7 * s), (38 * s, 8 * s)], 0, 40 * s), "it catches up"
    assert not steady([*late, (36 * s, 9 * s), (38 * s, 10 * s)], 0, 40 * s), "it does not"


def test_criteria_hold_or_fail_by_their_rules() -> None:
    stride = replace(GOOD, policy="stride", utility=0.5, bound=None)
    assert all(v.holds for v in judge([GOOD, stride], 0.02))
    missed = {
        "best other policy": [GOOD, replace(stride, policy="fcfs", utility=0.93)],
        "of the upper bound": [replace(GOOD, bound=1.01), stride],
        "critical p95": [replace(GOOD, critical_p95_s=0.76), stride],
        "above stride": [replace(GOOD, utility=0.86), replace(stride, utility=0.77)],
    }
    for claim, outcomes in missed.items():
        failed = [v.claim for v in judge(outcomes, 0.02) if not v.holds]
        assert [claim in f for f in failed] == [True], (claim, failed)
    beyond = [replace(o, load=3.0, utility=0.1) for o in (GOOD, stride)]
    both = list(judge([GOOD, stride], 0.02))
    assert list(judge([GOOD, stride, *beyond], 0.02)) == both, "shown, not judged"
    close = replace(stride, utility=0.88)
    no_room = [replace(GOOD, utility=0.95), close]
    assert [v.holds for v in judge(no_room, 0.02) if "above" in v.claim] == [False]
    higher = [replace(o, load=3.0, utility=u) for o, u in ((GOOD, 0.9), (stride, 0.7))]
    ahead = [v for v in judge([*no_room, *higher], 0.02) if "above" in v.claim]
    assert [(v.claim, v.holds) for v in ahead] == [("mixed at 3: 0.1 above stride", True)]
    early = replace(GOOD, load=0.4, answered=0.9)
    judged = list(judge([early, replace(stride, load=0.4, answered=0.95)], 0.02))
    assert [v.holds for v in judged if "answered" in v.claim] == [False]
    no_bound = [replace(GOOD, bound=None), stride]
    assert any(not v.holds for v in judge(no_bound, 0.02)), "without a bound it is not reached"


def test_neighbours_compute_until_they_are_sent_away() -> None:
    with neighbours(2) as busy:
        assert [process.poll() for process in busy] == [None, None]
    assert all(process.returncode is not None for process in busy)


def test_the_pace_of_the_machine_is_taken_while_something_runs() -> None:
    with paced() as pace:
        sum(range(10**7))
    assert 0 < pace.piece_ms < 1_000


def test_a_run_is_repeated_while_the_machine_is_slower_than_before() -> None:
    """The least disturbed one counts, whatever it yields."""

    def counted(*slower: float | None) -> tuple[Outcome, int]:
        runs = [replace(GOOD, slower=s, utility=n / 10) for n, s in enumerate(slower)]
        left = list(runs)
        return undisturbed(lambda attempt: left.pop(0)), len(runs) - len(left)

    assert counted(None, 1.0) == (replace(GOOD, slower=None, utility=0.0), 1), "not known"
    assert counted(DISTURBED, 1.0)[1] == 1
    assert counted(1.5, 1.0, 1.0) == (replace(GOOD, slower=1.0, utility=0.1, tries=2), 2)
    best = replace(GOOD, slower=1.3, utility=0.1, tries=TRIES)
    assert counted(1.5, 1.3, 1.4, 1.0) == (best, TRIES)


def test_a_trace_counts_how_many_others_ran_beside_a_job() -> None:
    begun_s, ended_s = np.array([0.0, 0.0, 1.0, 5.0]), np.array([2.0, 1.0, 3.0, 6.0])
    assert others(begun_s, ended_s).tolist() == [1.0, 1.0, 0.5, 0.0]


def test_policies_out_of_reach_are_not_run_again() -> None:
    first = [
        replace(GOOD, policy=policy, utility=utility)
        for policy, utility in (("planned", 0.5), ("stride", 0.95), ("mbd", 0.86), ("fcfs", 0.84))
    ]
    contenders = [o.policy for o in first if contends(o.policy, first)]
    assert contenders == ["planned", "stride", "mbd"]


def test_an_interrupted_benchmark_continues_after_the_last_whole_outcome(tmp_path: Path) -> None:
    file, settings = tmp_path / "mixed.jsonl", {"seconds": 12.0}
    results = Results(file, settings)
    results.add_capacity("mixed", 1000.0)
    results.add(GOOD, 0)
    results.add(replace(GOOD, policy="stride"), 0)
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])  # killed while it wrote
    again = Results(file, settings)
    assert again.capacities == {"mixed": 1000.0}
    assert again.outcomes == again.first("mixed", 2.0) == [GOOD]
    assert again.has(Case("mixed", 2.0, "planned", 0))
    assert not again.has(Case("mixed", 2.0, "stride", 0)), "it is measured again"
    again.add(replace(GOOD, policy="stride"), 0)
    assert file.read_bytes() == whole
    with pytest.raises(OtherSettings, match="seconds"):
        Results(file, {"seconds": 30.0})


def test_without_a_file_outcomes_are_kept_in_memory() -> None:
    results = Results(None, {})
    results.add(GOOD, 0)
    assert results.outcomes == [GOOD]


@pytest.mark.parametrize("window_s", [2, 3, 4])
@pytest.mark.parametrize("started_ns", [0, 1_795_018_340_341_000_000, 7_654_321_000])
@pytest.mark.parametrize("late_s", [0.0, 0.2, 0.9])
def test_windows_count_if_their_rows_do(window_s: int, started_ns: int, late_s: float) -> None:
    s = 1_000_000_000
    counted = span(window_s, 10 * s, 22 * s, started_ns)
    ends = range(0, started_ns + 40 * s, window_s * s)[-60:]
    closed = [e for e in ends if _within(round(e + late_s * s) - started_ns, counted.pending_ns)]
    begin_ns, end_ns = (at + started_ns for at in counted.arrived_ns)
    assert closed == list(range(begin_ns + window_s * s, end_ns + 1, window_s * s))
    assert len(closed) >= 12 // window_s - 1
    assert 10 * s <= counted.pending_ns[0] < counted.pending_ns[1] <= 22 * s


def _within(at_ns: int, between_ns: tuple[int, int]) -> bool:
    return between_ns[0] <= at_ns < between_ns[1]


def test_rows_count_from_the_first_instant_to_the_last() -> None:
    assert span(0, 10, 22, 5) == Span((10, 22), (10, 22))
