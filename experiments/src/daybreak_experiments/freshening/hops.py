"""Sections 6.2.5 and 6.2.7: copies of copies. Source -> mirror -> client or near cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daybreak.freshness import Mirror, RefreshLimits, plan
from daybreak.freshness.mirror import Bools, Floats, Ints
from daybreak.freshness.mirror_simulator import (
    Events,
    draw_accesses,
    fresh_accesses,
    poisson_events,
)
from daybreak.freshness.timetable import Timetable
from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Outcome
from daybreak_experiments.freshening.common import PF_AXIS, lines, mean_by, panels, robust
from daybreak_experiments.freshening.mirrors import thesis_mirror
from daybreak_experiments.rules import as_claimed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERIODS, ACCESSES = 60.0, 1000.0
Hop = tuple[Floats, Ints]


def fresh_behind(
    changes: Events, syncs: Hop, pushes: Hop, accesses: Events, after_sync: bool
) -> Bools:
    """Whether accesses to the far copy see the source's state.

    A push delivers what the mirror took at its last sync. ``after_sync`` delays each push to
    the object's next sync, so that it never delivers an old copy.
    """
    fresh = np.zeros(len(accesses.time), np.bool_)
    for item in np.unique(accesses.item):
        mine = np.flatnonzero(accesses.item == item)
        at = accesses.time[mine]
        changed = np.sort(changes.time[changes.item == item])
        synced = np.concatenate([[0.0], syncs[0][syncs[1] == item]])
        pushed = pushes[0][pushes[1] == item]
        if after_sync:
            place = np.searchsorted(synced, pushed)
            pushed = synced[np.unique(place[place < len(synced)])]
        # Everything starts as a fresh copy at time 0.
        pushed = np.concatenate([[0.0], pushed])
        arrived = pushed[np.searchsorted(pushed, at, side="right") - 1]
        taken = synced[np.searchsorted(synced, arrived, side="right") - 1]
        fresh[mine] = np.searchsorted(changed, taken, "right") == np.searchsorted(changed, at)
    return fresh


def _world(mirror: Mirror, seed: int) -> tuple[Events, Events]:
    changes = poisson_events(mirror.change_rate, 0, PERIODS, np.random.default_rng([seed, 11]))
    return changes, draw_accesses(mirror, ACCESSES, PERIODS, np.random.default_rng([seed, 12]))


SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
SYNCS, CLIENT = 200.0, 300.0


def _pushed(setting: tuple[int, float, bool]) -> float:
    """PF with this share of the client's bandwidth for pushing, the rest for pulling."""
    seed, share, after_sync = setting
    mirror = thesis_mirror(seed, objects=200)
    frequency = plan(mirror, SYNCS).frequency
    changes, accesses = _world(mirror, seed)
    syncs = Timetable(frequency).between(0, PERIODS)
    at_mirror = fresh_accesses(changes, Events(*syncs), accesses)
    pushes: Hop = (np.empty(0), np.empty(0, np.int64))
    if share > 0:
        # More pushes than syncs carry nothing new.
        limits = RefreshLimits(cap=frequency) if after_sync else None
        rhythm = plan(mirror, CLIENT * share, limits).frequency
        pushes = Timetable(rhythm, seed=1).between(0, PERIODS)
    at_client = fresh_behind(changes, syncs, pushes, accesses, after_sync)
    pulls = (
        np.random.default_rng([seed, 13]).random(len(at_client)) < CLIENT * (1 - share) / ACCESSES
    )
    return float(np.where(pulls, at_mirror, at_client).mean())


def section_6_2_5(ctx: Context) -> Outcome:
    settings = [(s, b, a) for s in ctx.seeds for b in SHARES for a in (True, False)]
    means = mean_by([(b, a) for _s, b, a in settings], ctx.map(_pushed, settings))
    curves = {
        "pushed right after a sync": [means[b, True] for b in SHARES],
        "pushed on its own timetable": [means[b, False] for b in SHARES],
    }
    table = [["share for pushing", *curves]] + [
        [f"{b:g}", *(number(c[i]) for c in curves.values())] for i, b in enumerate(SHARES)
    ]
    best, share = max((means[b, True], b) for b in SHARES)
    together = all(means[b, True] >= means[b, False] - 0.005 for b in SHARES)
    return Outcome(
        claims=[
            robust(
                "pushing some pages beats pulling alone",
                "asked",
                f"{best:.3f} at share {share:g} against {means[0.0, True]:.3f}",
                as_claimed(best > means[0.0, True] and share > 0),
            ),
            robust(
                "a push should wait for the next sync", "maybe", str(together),
                as_claimed(together),
            ),
        ],
        table=table,
        draw=panels(
            SHARES,
            {"client bandwidth 300, 1000 accesses per period": curves},
            ("share of the client's bandwidth for pushing", PF_AXIS),
        ),
        notes=[("An access pulls from the mirror if there is bandwidth left for it, else it reads "
               "the client's copy as last pushed. 200 objects, 200 syncs per period.")],
    )  # fmt: skip


NEAR_SIZES = (0, 25, 50, 100, 200, 500)
NEAR_MS, FAR_MS, NEAR_BANDWIDTH, FAR_BANDWIDTH = 1.0, 10.0, 150.0, 500.0


def _two_levels(setting: tuple[int, int]) -> tuple[float, float]:
    """PF and mean latency with the most read objects in the near cache as well."""
    seed, near = setting
    mirror = thesis_mirror(seed)
    far = plan(mirror, FAR_BANDWIDTH).frequency
    changes, accesses = _world(mirror, seed)
    syncs = Timetable(far).between(0, PERIODS)
    seen = fresh_accesses(changes, Events(*syncs), accesses)
    held = np.zeros(len(mirror), np.bool_)
    held[np.argsort(-mirror.access)[:near]] = True
    if near:
        # What is not held must not be copied; nothing is copied oftener than it is synced.
        limits = RefreshLimits(cap=np.where(held, far, 0.0))
        rhythm = plan(mirror, NEAR_BANDWIDTH, limits).frequency
        copies = Timetable(rhythm, seed=1).between(0, PERIODS)
        behind = fresh_behind(changes, syncs, copies, accesses, after_sync=True)
        seen = np.where(held[accesses.item], behind, seen)
    return float(seen.mean()), float(np.where(held[accesses.item], NEAR_MS, FAR_MS).mean())


def section_6_2_7(ctx: Context) -> Outcome:
    settings = [(s, n) for s in ctx.seeds for n in NEAR_SIZES]
    found = ctx.map(_two_levels, settings)
    keys = [n for _s, n in settings]
    fresh, latency = (mean_by(keys, [f[i] for f in found]) for i in (0, 1))
    table = [["objects in the near cache", PF_AXIS, "mean latency (ms)"]] + [
        [str(n), number(fresh[n]), number(latency[n], 2)] for n in NEAR_SIZES
    ]
    price = fresh[0] - fresh[500]
    some = (fresh[0] - fresh[50], latency[0] - latency[50])

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        lines(left, NEAR_SIZES, {"PF": list(fresh.values())}, ("objects near", PF_AXIS))
        lines(right, NEAR_SIZES, {"ms": list(latency.values())}, ("objects near", "latency (ms)"))
        left.set_ylim(bottom=0)
        right.set_ylim(bottom=0)

    return Outcome(
        claims=[
            robust(
                "the caches should not hold the same data",
                "asked",
                f"all objects near cost {price:.3f} PF, the 50 most read {some[0]:.3f}",
                as_claimed(some[0] < price),
            ),
            robust(
                "the hottest tenth brings most of the latency",
                "asked",
                f"{some[1]:.1f} of {latency[0] - latency[500]:.1f} ms",
                as_claimed(some[1] > (latency[0] - latency[500]) / 2),
            ),
        ],
        table=table,
        draw=draw,
        notes=[(f"Near {NEAR_MS:g} ms, far {FAR_MS:g} ms; {NEAR_BANDWIDTH:g} copies per period to "
               f"the near cache, {FAR_BANDWIDTH:g} syncs per period to the far one, 500 objects.")],
    )  # fmt: skip


EXPERIMENTS = (
    Experiment("freshening/section6.2.5", "Pushing beside pulling", section_6_2_5, seeds=3),
    Experiment("freshening/section6.2.7", "Two levels of cache", section_6_2_7, seeds=3),
)
