"""The class-based experiments judge what they see: claims fail where the figures say so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from daybreak.runtime.classes import LEVELS, ClassesOverTime, ClassFigures
from daybreak_experiments.classes import abd, compare
from daybreak_experiments.classes.measures import Seen, Setting, Sweep, every_seed, ranged
from daybreak_experiments.core import Context, Line
from daybreak_experiments.registry import all_experiments


def seen(*mean_ms: float, spread: float = 1.0, overrun: float = 0.0) -> Seen:
    """A run whose classes have these response times at every level but for their whiskers."""
    rows = np.tile(np.array(mean_ms) / 1e3, (len(LEVELS), 1))
    rows[LEVELS.index("p90"):] *= 1 + spread  # fmt: skip
    priorities = tuple(60.0 / (c + 1) for c in range(len(mean_ms)))
    names = tuple(str(c + 1) for c in range(len(mean_ms)))
    over = ClassesOverTime(
        time_s=np.array([0.1, 0.2]),
        response_s=np.tile(np.array(mean_ms) / 1e3, (2, 1)),
        left=np.ones((2, len(mean_ms)), np.int64),
        arrived=np.ones((2, len(mean_ms)), np.int64),
    )
    return Seen(ClassFigures(names, priorities, (1,) * len(mean_ms), rows), over, overrun, ())


def verdicts(claims: Sequence[Line]) -> list[bool | None]:
    return [c.holds for c in claims if c.kind == "robust"]


def test_compare_judges_a_world_as_in_the_text() -> None:
    world = {
        "mbd": [seen(1, 2, 4)],
        "mrr": [seen(2, 2, 2)],
        "morr": [seen(3, 3, 3)],
        "ml": [seen(2, 3, 5, spread=4)],
        "mol": [seen(6, 6, 7)],
        "mprr": [seen(1, 5, 30)],
        "pct": [seen(400, 400, 400, overrun=0.8)],
        "pct-s": [seen(9, 9, 9)],
    }
    good = [*compare._about_mbd("3d_6", world), *compare._about_others(world)]
    good += compare._about_threads("3d_6", world)
    assert verdicts(good) == [True] * 8
    world["mbd"] = [seen(3, 2, 20)]
    world["mrr"] = [seen(5, 5, 5)]
    world["ml"] = [seen(1, 1.5, 2)]
    world["mol"] = [seen(0.5, 0.6, 0.7)]
    world["pct"] = [seen(4, 4, 4)]
    world["pct-s"] = [seen(4, 4, 4, overrun=0.2)]
    bad = [*compare._about_mbd("3d_6", world), *compare._about_others(world)]
    bad += compare._about_threads("3d_6", world)
    assert verdicts(bad) == [False] * 8


def published(claims: Sequence[Line]) -> dict[str, bool | None]:
    return {c.claim: c.holds for c in claims if c.kind == "published"}


def test_published_numbers_are_judged_by_their_tolerance() -> None:
    """12 % in the text and 96 % here do not agree, nor does "none" with an inversion."""
    wehr = [seen(1, 100, 1000)]
    as_printed = abd._judge("D", [seen(6.34, 8, 12)], [seen(10, 10, 10)], wehr)
    assert published(as_printed)["D: class 1, ABD against CQC"]
    far_off = abd._judge("D", [seen(2, 3, 5)], [seen(6, 5, 300)], wehr)
    assert set(published(far_off).values()) == {False}
    assert list(published(far_off)) == [
        "D: weighted response, ABD against CQC",
        "D: class 1, ABD against CQC",
        "D: inversion under CQC",
    ]


def test_a_faster_scheduler_that_inverts_is_no_rival() -> None:
    world = {s: [seen(5, 6, 7)] for s in compare.SCHEDULERS}
    world["mbd"], world["ml"] = [seen(2, 3, 4)], [seen(1.5, 1, 2)]
    assert compare._about_mbd("5i", world)[1].holds
    world["ml"] = [seen(1, 1.5, 2)]
    assert not compare._about_mbd("5i", world)[1].holds


def test_abd_is_judged_against_cqc_and_weighted_hr() -> None:
    good = abd._judge("E", [seen(1, 2, 3)], [seen(3, 2, 9)], [seen(1, 2, 300)])
    assert verdicts(good) == [True] * 4
    bad = abd._judge("E", [seen(3, 2, 3)], [seen(1, 2, 9)], [seen(1, 2, 4)])
    assert verdicts(bad) == [False] * 4


def over_time(rows: Sequence[tuple[float, ...]]) -> Seen:
    """A run with these response times (ms) by tenth of a second and class, NaN for no results."""
    response = np.array(rows) / 1e3
    counts = np.where(np.isnan(response), 0, 10)
    time_s = np.arange(1, len(rows) + 1) / 10
    over = ClassesOverTime(time_s, response, counts, counts)
    return replace(seen(*rows[0]), over=over)


def test_how_long_class_1_was_not_the_fastest() -> None:
    fast, slow = (1.0, 2.0, 3.0), (2.0, 1.9, 3.0)
    run = over_time([slow] * 5 + [fast] * 5 + [slow, fast] * 5 + [slow] * 3)
    assert abd.not_lowest_s(run, slots=1) == pytest.approx(1.3)
    assert abd.longest_not_lowest_s(run) == pytest.approx(0.5)
    assert abd.not_lowest_s(run) == pytest.approx(0.5 + 0.3), "a tenth now and then is chance"
    assert abd.not_lowest_s(run, since_s=0.5) == pytest.approx(0.3)
    silent = over_time([(2.0, 1.0, math.nan)] * 5)
    assert abd.not_lowest_s(silent) == 0, "a slot in which a class is silent says nothing"


def test_a_claim_must_hold_with_every_seed() -> None:
    claim = every_seed("c", "p", "o", [True, False, True])
    assert not claim.holds
    assert claim.ours == "o (2 of 3 seeds)"
    assert ranged([1.0, 2.5]) == "1x to 2.5x"


def test_a_sweep_runs_every_setting_with_every_seed() -> None:
    settings = [Setting("5G", p, duration_s=0.1) for p in ("abd", "cqc", "mrr")]
    sweep = Sweep(Context(seeds=[1, 2], workers=1), settings)
    for setting in settings:
        runs = sweep.seen(setting)
        assert len(runs) == 2
        assert all(len(r.mean_ms) == 5 and not math.isnan(r.weighted_ms) for r in runs)
        assert runs[0].weighted_ms != runs[1].weighted_ms
        assert sweep.weighted_ms(setting) == pytest.approx(
            (runs[0].weighted_ms + runs[1].weighted_ms) / 2
        )
    again = Sweep(Context(seeds=[1], workers=1), settings[:1])
    assert again.seen(settings[0])[0].mean_ms == sweep.seen(settings[0])[0].mean_ms


@pytest.mark.parametrize(
    "policy", ["hr", "weighted-hr", "cqc", "abd", "mprr", "mol", "pct", "pct-s"]
)
def test_every_scheduler_works_off_what_the_polling_system_gives_it(policy: str) -> None:
    """Joins wait for each other's inputs there; nothing may be left behind, nor called for ever."""
    setting = Setting("E", policy, duration_s=0.05)
    run = Sweep(Context(seeds=[1], workers=1), [setting]).seen(setting)[0]
    plain = Setting("E", "mrr", duration_s=0.05)
    other = Sweep(Context(seeds=[1], workers=1), [plain]).seen(plain)[0]
    assert run.figures.counts == other.figures.counts


def test_the_experiments_are_found_by_name() -> None:
    names = {n for n in all_experiments() if n.startswith("classes/")}
    assert {"classes/cqc", "classes/abd", "classes/table6", "classes/adaptive"} <= names
    assert {f"classes/compare_{k}" for k in compare.WORKLOADS} <= names
