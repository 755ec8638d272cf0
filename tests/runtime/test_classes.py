"""The metrics of class-based scheduling, on numbers small enough to check by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from daybreak.runtime.classes import (
    LEVELS,
    ClassesOverTime,
    ClassFigures,
    class_metrics,
    inversion_ratios,
    inverted,
    starvation_alarms,
)
from daybreak.runtime.report import Backlog, Outputs, RunReport, TimeSpent

MS = 1_000_000


def report(
    results: Sequence[tuple[int, float, float]],
    priorities: Sequence[float] = (60.0, 30.0, 10.0),
    tuples: int = 1,
    **manifest: object,
) -> RunReport:
    """Of (class, arrival in ms, response in ms); one query per class."""
    results = sorted(results, key=lambda r: r[0])
    query = np.array([c for c, _, _ in results], dtype=np.int32)
    arrival = np.array([round(a * MS) for _, a, _ in results], dtype=np.int64)
    departure = np.array([round((a + r) * MS) for _, a, r in results], dtype=np.int64)
    n = len(priorities)
    end = int(departure.max(initial=0))
    return RunReport(
        manifest={"policy": "test", **manifest},
        classes=tuple("ABCDE"[:n]),
        priorities=tuple(priorities),
        queries=tuple(f"q{c}" for c in range(n)),
        query_class=tuple(range(n)),
        qos=(None,) * n,
        weights=(1.0,) * n,
        spent=TimeSpent(end, end, 0, 0, 0, 0, 0),
        outputs=Outputs(query, arrival, departure, np.full(len(results), tuples)),
        backlog=Backlog(np.zeros(1, np.int64), np.zeros((1, n), np.int64), *[np.zeros(1)] * 3),
        boxes={},
        dropped=(0,) * n,
    )


def test_the_inversion_ratio_by_hand() -> None:
    """Class 1 takes 3 ms, class 2 takes 2: 60/30 x |1 - 3/2| = 1; class 2 is faster than 3."""
    found = inversion_ratios((60, 30, 10), np.array([3.0, 2.0, 8.0]))
    assert found.tolist() == [1.0, 0.0]


def test_inversion_needs_a_difference_in_priority_and_results() -> None:
    assert inversion_ratios((30, 30), np.array([9.0, 1.0])).tolist() == [0.0]
    assert inversion_ratios((30, 20, 10), np.array([9.0, math.nan, 1.0])).tolist() == [0.0, 0.0]


def test_equal_response_times_invert_only_if_asked() -> None:
    times = np.array([2.0, 2.0, 5.0])
    assert inverted((3, 2, 1), times).tolist() == [False, False]
    assert inverted((3, 2, 1), times, equal_inverts=True).tolist() == [True, False]
    assert inverted((3, 3, 1), times, equal_inverts=True).tolist() == [False, False]


def test_figures_of_ten_results_per_class_by_hand() -> None:
    """Class A answers in 1..10 ms, B in 2, 4, .. 20, C not at all."""
    results = [(0, 100.0 * i, float(i)) for i in range(1, 11)]
    results += [(1, 100.0 * i, 2.0 * i) for i in range(1, 11)]
    figures = ClassFigures.of(report(results))
    assert figures.counts == (10, 10, 0)
    # The smallest value that p % do not exceed: of 1..10 at 10, 25, 50, 75, 90, 95 %.
    assert (figures.response_s[:, 0] * 1e3).tolist() == pytest.approx([5.5, 1, 3, 5, 8, 9, 10])
    assert (figures.response_s[:, 1] * 1e3).tolist() == pytest.approx([11, 2, 6, 10, 16, 18, 20])
    assert np.isnan(figures.response_s[:, 2]).all()
    # Over the classes that had results: (60 x 5.5 + 30 x 11) / 90.
    assert figures.weighted_s() == pytest.approx((60 * 5.5 + 30 * 11) / 90 / 1e3)
    assert figures.weighted_s("p90") == pytest.approx((60 * 9 + 30 * 18) / 90 / 1e3)
    assert figures.inverts() == ()
    assert math.isnan(figures.starvation_ratio)


def test_inversion_at_some_percentile_only() -> None:
    """A is faster at the mean but its worst results are slower than B's."""
    results = [(0, 0.0, 1.0)] * 9 + [(0, 0.0, 50.0)] + [(1, 0.0, 10.0)] * 10
    figures = ClassFigures.of(report(results, priorities=(20, 10)))
    assert figures.mean_s[0] < figures.mean_s[1]
    assert figures.inverts() == ("p95",)
    assert figures.inversion("p95") == pytest.approx(2 * (50 / 10 - 1))
    assert figures.inversion() == 0
    assert figures.starvation_ratio == pytest.approx(10 / 5.9)


def test_results_that_stand_for_many_tuples_count_so_often() -> None:
    figures = ClassFigures.of(report([(0, 0, 1), (1, 0, 2), (2, 0, 3)], tuples=7))
    assert figures.counts == (7, 7, 7)


def test_a_warm_up_can_be_left_out() -> None:
    results = [(0, 0.0, 900.0), (0, 1000.0, 4.0), (1, 1000.0, 5.0)]
    figures = ClassFigures.of(report(results, priorities=(2, 1)), since_s=1.0)
    assert figures.counts == (1, 1)
    assert figures.mean_s[0] == pytest.approx(0.004)


def test_over_time_every_tenth_of_a_second() -> None:
    """In the first slot A (3 ms) is slower than B (2 ms), in the second it is not."""
    results = [(0, 10.0, 3.0), (1, 20.0, 2.0), (0, 110.0, 1.0), (1, 120.0, 4.0), (2, 95.0, 10.0)]
    run = report(results)
    over = ClassesOverTime.of(run)
    assert over.time_s.tolist() == pytest.approx([0.1, 0.2])
    assert over.left.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert over.arrived.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert (over.response_s[1] * 1e3).tolist() == pytest.approx([1, 4, 10])
    assert over.inversion(run.priorities).tolist() == pytest.approx([1.0, 0.0])
    assert over.inverted_share(run.priorities) == 0.5


def _rising(rate_of: Sequence[int], factor: float = 1.5) -> RunReport:
    """Class B's response times grow by a factor every half second; A's do not."""
    results: list[tuple[int, float, float]] = []
    for step, rate in enumerate(rate_of):
        for i in range(rate):
            at = 500.0 * step + 400.0 * i / rate
            results += [(0, at, 2.0), (1, at, 2.0 * factor**step)]
    return report([*results, (0, 500.0 * len(rate_of) + 5, 2.0)], priorities=(2, 1))


def test_rising_response_times_under_steady_input_raise_the_alarm() -> None:
    (alarm,) = starvation_alarms(_rising([20] * 8))
    assert alarm.cls == "B"
    assert (alarm.from_s, alarm.to_s) == pytest.approx((0.5, 4.0))
    assert alarm.factor == pytest.approx(1.5**7)


def test_rising_input_explains_rising_response_times() -> None:
    assert starvation_alarms(_rising([20, 22, 24, 26, 28, 30, 32, 34])) == []


def test_a_burst_explains_what_rises_after_it_began() -> None:
    assert starvation_alarms(_rising([20, 20, 40, 40, 40, 40, 40, 40, 40])) == []


def test_a_slight_rise_is_no_alarm() -> None:
    assert starvation_alarms(_rising([20] * 8, factor=1.05)) == []


def test_metrics_for_a_script() -> None:
    run = report([(0, 0, 3), (1, 0, 2), (2, 0, 6)], schedule_updates_s=[0.5, 1.25])
    found = class_metrics(run)
    assert found["results"] == {"A": 1, "B": 1, "C": 1}
    assert found["inversion"]["mean"] == pytest.approx(1.0)
    assert found["inverted_levels"] == list(LEVELS)
    assert found["starvation_ratio"] == pytest.approx(2.0)
    assert found["schedule_updates"] == 2
    assert found["convergence_s"] == 1.25
    assert class_metrics(report([]))["weighted_response_s"]["mean"] is None
