"""Section 6.2.6: a mirror with room for fewer objects than there are."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from daybreak.freshness import Mirror, plan
from daybreak.freshness.mirror import Floats, Ints
from daybreak.freshness.timetable import Timetable
from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Outcome
from daybreak_experiments.freshening.common import mean_by, panels, published, robust
from daybreak_experiments.freshening.mirrors import thesis_mirror
from daybreak_experiments.rules import above, as_claimed

OBJECTS, ROOM, PERIODS = 2000, 1000, 30
ACCESSES, FETCHES = 2000, 2000.0
POLICIES = ("fixed by profile", "LRU", "profile-driven")
#: How many places the ranking of the objects rotates per period.
DRIFTS = (0, 10, 30, 100, 300)


class _Cache:
    """Room for so many objects; says what leaves when another comes."""

    def __init__(self, policy: str, interest: Floats) -> None:
        self.policy = policy
        self.interest = interest
        self.held: OrderedDict[int, None] = OrderedDict.fromkeys(
            int(i) for i in np.argsort(-interest, kind="stable")[:ROOM]
        )
        self.worst = self._worst()

    def use(self, item: int) -> bool:
        if item in self.held:
            self.held.move_to_end(item)
            return True
        return False

    def admit(self, item: int) -> int | None:
        """Takes the object in if the policy wants it; the object that leaves for it."""
        if self.policy == "fixed by profile":
            return None
        if self.policy == "LRU":
            victim = next(iter(self.held))
        else:
            if self.interest[item] <= self.interest[self.worst]:
                return None
            victim = self.worst
        del self.held[victim]
        self.held[item] = None
        self.worst = self._worst() if self.policy == "profile-driven" else victim
        return victim

    def _worst(self) -> int:
        held = np.fromiter(self.held, np.int64, len(self.held))
        return int(held[np.argmin(self.interest[held])])


def _run(setting: tuple[int, str, int]) -> float:
    """The share of accesses that found a fresh copy in the mirror.

    A miss is fetched for its user: it costs a fetch and counts as not found. What misses leave
    of the bandwidth refreshes what is held, planned anew each period from counted accesses.
    """
    seed, policy, drift = setting
    base = thesis_mirror(seed, objects=OBJECTS, theta=0.8)
    change, access = (np.random.default_rng([seed, i]) for i in (21, 22))
    cache = _Cache(policy, base.access * ACCESSES)
    changed, refreshed = np.zeros(OBJECTS), np.zeros(OBJECTS)
    hits = misses_before = 0
    for period in range(PERIODS):
        popularity = np.roll(base.access, drift * period)
        held = np.fromiter(cache.held, np.int64, len(cache.held))
        syncs = _planned(base, cache.interest, held, FETCHES - misses_before)
        asked = (
            np.sort(access.uniform(0, 1, ACCESSES)),
            access.choice(OBJECTS, ACCESSES, p=popularity),
        )
        count = change.poisson(base.change_rate)
        moves = change.uniform(0, 1, int(count.sum())), np.repeat(np.arange(OBJECTS), count)
        found, misses_before = _period(period, cache, changed, refreshed, (moves, syncs, asked))
        hits += found
        if policy == "profile-driven":
            seen = np.bincount(asked[1], minlength=OBJECTS)
            cache.interest = 0.7 * cache.interest + 0.3 * seen
            cache.worst = cache._worst()
    return hits / (ACCESSES * PERIODS)


def _planned(base: Mirror, interest: Floats, held: Ints, bandwidth: float) -> tuple[Floats, Ints]:
    part = Mirror.of(base.change_rate[held], interest[held] + 1e-9)
    times, which = Timetable(plan(part, max(bandwidth, 1.0)).frequency).between(0, 1)
    return times, held[which]


def _period(
    start: int,
    cache: _Cache,
    changed: Floats,
    refreshed: Floats,
    events: tuple[tuple[Floats, Ints], ...],
) -> tuple[int, int]:
    """Plays one period's changes, syncs and accesses in order: fresh hits, and misses."""
    kind = np.repeat(np.arange(3), [len(times) for times, _ in events])
    time = np.concatenate([times for times, _ in events])
    item = np.concatenate([items for _, items in events])
    order = np.lexsort((kind, time))
    hits = misses = 0
    rows = zip(kind[order].tolist(), time[order].tolist(), item[order].tolist(), strict=True)
    for k, t, i in rows:
        now = start + t
        if k == 0:
            changed[i] = now
        elif k == 1:
            if i in cache.held:
                refreshed[i] = now
        elif cache.use(i):
            hits += refreshed[i] >= changed[i]
        else:
            misses += 1
            if cache.admit(i) is not None:
                refreshed[i] = now
    return hits, misses


def section_6_2_6(ctx: Context) -> Outcome:
    settings = [(s, p, d) for s in ctx.seeds for p in POLICIES for d in DRIFTS]
    means = mean_by([(p, d) for _s, p, d in settings], ctx.map(_run, settings))
    curves = {p: [means[p, d] for d in DRIFTS] for p in POLICIES}
    table = [["drift (places per period)", *POLICIES]] + [
        [str(d), *(number(means[p, d]) for p in POLICIES)] for d in DRIFTS
    ]
    steady = means["fixed by profile", 0] - means["LRU", 0]
    moving = means["LRU", 300] - means["fixed by profile", 300]
    learns = all(means["profile-driven", d] >= means["LRU", d] for d in DRIFTS[:3])
    return Outcome(
        claims=[
            robust(
                "interests stay: a fixed set beats LRU", "asked", f"{steady:+.3f}",
                above(0, steady),
            ),
            robust(
                "interests move fast: LRU beats it", "asked", f"{moving:+.3f}", above(0, moving)
            ),
            published(
                "replacement by a counted profile beats LRU while interests move slowly",
                "asked",
                str(learns),
                as_claimed(learns),
            ),
        ],
        table=table,
        draw=panels(
            DRIFTS,
            {f"{OBJECTS} objects, room for {ROOM}": curves},
            ("how far the ranking rotates per period (places)", "fresh hits per access"),
        ),
        notes=[("A miss is fetched for its user, counts as no hit and takes bandwidth from "
               "refreshing.")],
    )  # fmt: skip


EXPERIMENTS = (
    Experiment("freshening/section6.2.6", "Which objects to hold", section_6_2_6, seeds=2),
)
