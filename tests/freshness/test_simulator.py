"""The event simulator against the formula and against a plain loop; the timetable it runs."""

import numpy as np
import pytest

from daybreak.freshness import Mirror, plan
from daybreak.freshness.mirror_simulator import Events, fresh_accesses, simulate
from daybreak.freshness.timetable import Timetable
from daybreak.model import ConfigError
from daybreak_experiments.freshening.mirrors import ALIGNMENTS, thesis_mirror


@pytest.mark.slow
@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_simulated_freshness_agrees_with_the_formula(alignment: str, jitter: float) -> None:
    mirror = thesis_mirror(1, objects=300, theta=0.8, alignment=alignment)
    made = plan(mirror, 150)
    seen = simulate(
        mirror, made.frequency, periods=60, accesses_per_period=2000, seed=4, runs=16, jitter=jitter
    )
    assert seen.standard_error < 0.004
    assert abs(seen.perceived_freshness - made.perceived_freshness) < 3 * seen.standard_error
    assert seen.refreshes == pytest.approx(150 * 60 * 16, rel=0.01)


def test_the_same_seed_gives_the_same_run() -> None:
    mirror = thesis_mirror(1, objects=50)
    f = plan(mirror, 25).frequency
    first, again, other = (
        simulate(mirror, f, periods=5, accesses_per_period=100, seed=s, runs=2) for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_fresh_accesses_by_hand_and_against_a_loop() -> None:
    changed = Events(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1]))
    visited = Events(np.array([2.0]), np.array([0]))
    read = Events(np.array([0.5, 1.5, 2.5, 3.5, 1.0, 2.0]), np.array([0, 0, 0, 0, 1, 1]))
    assert fresh_accesses(changed, visited, read).tolist() == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    rng = np.random.default_rng(1)
    changes, refreshes, accesses = (
        Events(rng.uniform(0, 10, n), rng.integers(0, 5, n)) for n in (40, 30, 200)
    )

    def last(events: Events, item: int, before: float) -> float:
        mine = events.time[(events.item == item) & (events.time <= before)]
        return float(mine.max(initial=-1.0))

    expected = [
        last(changes, i, t) == -1 or last(refreshes, i, t) > last(changes, i, t)
        for t, i in zip(accesses.time, accesses.item, strict=True)
    ]
    assert fresh_accesses(changes, refreshes, accesses).tolist() == expected


def test_the_timetable_keeps_frequencies_and_a_constant_load() -> None:
    frequency = plan(thesis_mirror(2, objects=3000), 1500).frequency
    times, items = Timetable(frequency).between(0, 40)
    counts = np.bincount(items, minlength=3000)
    assert (np.abs(counts - 40 * frequency) <= 1).all()
    assert (np.diff(times) >= 0).all()
    load = np.histogram(times, bins=np.arange(0, 40.1, 0.1))[0]
    # 150 per tenth of a period; a Poisson stream would vary by 12, equal phases pile up 1500.
    assert load.mean() == pytest.approx(150, rel=0.01)
    assert load.std() < 10
    assert load.max() < 1.25 * 150


def test_a_restart_continues_the_same_timetable() -> None:
    for jitter in (0.0, 0.6):
        timetable = Timetable(np.array([3.0, 0.5, 0.0, 1.7]), jitter, seed=9)
        whole = timetable.between(0, 20)
        pieces = [timetable.between(a, a + 5) for a in (0, 5, 10, 15)]
        assert np.concatenate([p[0] for p in pieces]).tolist() == whole[0].tolist()
        events = timetable.events(5.0)
        listed = [next(events) for _ in range(12)]
        later = whole[0] >= 5
        assert [t for t, _ in listed] == pytest.approx(whole[0][later][:12])
        assert [i for _, i in listed] == whole[1][later][:12].tolist()


def test_after_names_the_next_refresh_of_each_object() -> None:
    timetable = Timetable(np.array([1.0, 0.0, 0.25]), jitter=0.3, seed=1)
    for moment in (0.0, 7.3, 100.0):
        times, items = timetable.between(moment, moment + 10)
        due = timetable.after(moment)
        assert due[1] == np.inf
        assert due[[0, 2]] == pytest.approx([times[items == 0][0], times[items == 2][0]])


def test_jitter_beyond_the_interval_is_refused() -> None:
    with pytest.raises(ConfigError, match="jitter"):
        Timetable(np.ones(2), jitter=1.0)


def test_objects_never_refreshed_are_stale_and_unchanging_ones_fresh() -> None:
    mirror = Mirror.of([1.0, 0.0])
    seen = simulate(mirror, np.zeros(2), periods=20, accesses_per_period=500, seed=1, runs=4)
    assert seen.perceived_freshness == pytest.approx(0.5, abs=0.02)
