"""How the experiments of chapter 6 judge, on made-up runs; and one short real one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from daybreak.runtime.classes import LEVELS, ClassesOverTime, ClassFigures
from daybreak_experiments.classes.beyond import _break_even
from daybreak_experiments.classes.changing import (
    inversion_over_time,
    means_between,
    priorities_at,
    tail_inversion,
    total_inversion,
)
from daybreak_experiments.classes.low_input import level_claims
from daybreak_experiments.classes.measures import Seen, Setting, measure
from daybreak_experiments.classes.scale import knee_per_s, mean_curve
from daybreak_experiments.core import Context
from daybreak_experiments.registry import all_experiments


def seen(response_ms: Sequence[Sequence[float]], updates: int = 0, slot_s: float = 0.1) -> Seen:
    """A run with these mean response times by slot and class, a hundred results each."""
    rows = np.array(response_ms) / 1e3
    slots, classes = rows.shape
    mean = rows.mean(axis=0)
    figures = ClassFigures(
        tuple(str(c + 1) for c in range(classes)),
        tuple(float(50 - 10 * c) for c in range(classes)),
        (100 * slots,) * classes,
        np.tile(mean, (len(LEVELS), 1)),
    )
    hundred = np.full(rows.shape, 100)
    time_s = np.arange(1, slots + 1) * slot_s
    over = ClassesOverTime(time_s, rows, hundred, hundred)
    return Seen(figures, over, 0.0, tuple(range(updates)))


def test_priorities_and_inversion_follow_the_workload_file() -> None:
    assert priorities_at("Pr-Change", 0.5) == [40, 40, 30, 20, 20]
    assert priorities_at("Pr-Change", 1.0) == [50, 40, 30, 20, 20]
    assert priorities_at("Pr-Change", 3.0) == [50, 40, 30, 20, 15]
    # Class 1 is twice as slow as class 2 throughout: from 1 s on that is inversion.
    run = seen([[2, 1, 3, 4, 5]] * 20)
    found = inversion_over_time("Pr-Change", run.over)
    assert found[:9].sum() == 0
    assert found[9:] == pytest.approx(50 / 40)
    assert total_inversion("Pr-Change", run) == pytest.approx(11 * 0.1 * 50 / 40)


def test_the_end_of_a_run_is_judged_by_itself() -> None:
    run = seen([[2, 1, 3, 4, 5]] * 30 + [[1, 2, 3, 4, 5]] * 10)
    assert tail_inversion("Pr-Change", run) == 0
    assert means_between(run, 0.0, 3.0) == pytest.approx(np.array([2, 1, 3, 4, 5]) / 1e3)
    assert tail_inversion("Pr-Change", seen([[2, 1, 3, 4, 5]] * 40)) > 0


def test_levelling_is_held_to_what_was_asked() -> None:
    plain = seen([[2, 1, 3, 4, 5]])
    good, dear, inverted, busy = (
        seen([[2, 2.1, 3, 4, 5]], updates=2),
        seen([[2, 5, 9, 9, 9]], updates=2),
        seen([[2, 1.9, 3, 4, 5]], updates=2),
        seen([[2, 2.1, 3, 4, 5]], updates=9),
    )
    dsp = seen([[2, 3, 6, 8, 9]], updates=5)
    for ours, verdict in (
        (good, [True, True, True]),
        (dear, [True, True, False]),
        (inverted, [False, True, True]),
        (busy, [True, False, True]),
    ):
        claims = level_claims("", [ours.figures.inversion()], [ours], [plain], [dsp])
        assert [c.holds for c in claims] == verdict


def test_the_knee_is_where_response_times_take_off() -> None:
    flat = [[2.0] * 5] * 36
    early, late = (seen([*flat[:n], *[[9.0] * 5] * (46 - n)]) for n in (33, 36))
    time_s = late.over.time_s
    assert knee_per_s(time_s, mean_curve([late])) == pytest.approx(1600, abs=60)
    assert knee_per_s(time_s, mean_curve([seen(flat)])) == np.inf
    # A seed that takes off before the others does not move what is read off their mean.
    assert mean_curve([early, late, late])[34] == pytest.approx((9 + 2 + 2) / 3)
    assert knee_per_s(time_s, mean_curve([early, late, late])) == pytest.approx(1600, abs=60)


def test_the_break_even_is_interpolated() -> None:
    assert _break_even([1.1, 1.05, 0.95, 0.9, 0.8]) == "about 3.5 µs per cold call"
    assert _break_even([0.9] * 5) == "at no penalty at all"
    assert _break_even([1.1] * 5) == "not up to 20 µs"


@pytest.mark.slow
def test_levelling_removes_an_inversion_that_plain_mbd_has() -> None:
    """A short run of the real thing: class 1 of 5G_4 at 500 tuples/s."""
    base = {"warm_up_s": 0.2, "patience_s": 0.2}
    low = Setting.of("LowInput_1", "mbd", **base).lasting(0.8)
    plain = measure((low, 1))
    ours = measure((low._replace(params=(("module", "level"), *low.params)), 1))
    assert plain.mean_ms[0] > plain.mean_ms[1]
    late = means_between(ours, 0.6, 0.8)
    assert late[0] < late[1]
    assert 1 <= len(ours.updates_s) <= 3
    assert ours.weighted_ms < 1.2 * plain.weighted_ms


@pytest.mark.slow
def test_a_whole_experiment_runs_judges_and_draws() -> None:
    from matplotlib.figure import Figure

    from daybreak_experiments.classes import sources

    experiment = all_experiments()["classes/sources"]
    before, sources.SECONDS = sources.SECONDS, 0.05
    try:
        outcome = experiment.run(Context(seeds=[1], workers=1))
    finally:
        sources.SECONDS = before
    assert len(outcome.claims) == 3
    assert len(outcome.table) == 4
    assert outcome.draw is not None
    outcome.draw(Figure())
