"""Runs settings of the class-based experiments over all seeds, and helps to judge them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daybreak.policies.registry import make_policy_with
from daybreak.runtime.classes import ClassesOverTime, ClassFigures, schedule_updates_s
from daybreak_experiments.classes.system import run_workload
from daybreak_experiments.classes.workloads import load_workload
from daybreak_experiments.core import Claim, Context
from daybreak_experiments.rules import Rule, required


class Setting(NamedTuple):
    """A workload under a policy."""

    workload: str
    policy: str
    params: tuple[tuple[str, Any], ...] = ()
    #: Other than the workload's own.
    duration_s: float | None = None
    #: Other than usual, for ``run_workload``.
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, workload: str, policy: str, **params: Any) -> Setting:
        return cls(workload, policy, tuple(sorted(params.items())))

    def lasting(self, duration_s: float) -> Setting:
        return self._replace(duration_s=duration_s)

    def on(self, **options: Any) -> Setting:
        """With other options of ``run_workload``."""
        return self._replace(options=tuple(sorted({**dict(self.options), **options}.items())))


@dataclass(frozen=True)
class Seen:
    """What one run came to."""

    figures: ClassFigures
    over: ClassesOverTime
    #: How much longer working everything off took than it took to arrive, as a share of that.
    overrun: float
    updates_s: tuple[float, ...]
    #: Mean utility over the queries; NaN where they declare no QoS graphs.
    utility: float = math.nan

    @property
    def mean_ms(self) -> list[float]:
        """Mean response times by class."""
        return [float(v) * 1e3 for v in self.figures.mean_s]

    @property
    def weighted_ms(self) -> float:
        return self.figures.weighted_s() * 1e3


def measure(work: tuple[Setting, int]) -> Seen:
    """One run; the seed gives queries, arrivals and fates."""
    setting, seed = work
    workload = load_workload(setting.workload)
    if setting.duration_s is not None:
        workload = workload.lasting(setting.duration_s)
    policy = make_policy_with(setting.policy, **dict(setting.params))
    report = run_workload(workload, policy, seed, **dict(setting.options))
    return Seen(
        figures=ClassFigures.of(report),
        over=ClassesOverTime.of(report),
        overrun=report.duration_s / workload.duration_s - 1,
        updates_s=schedule_updates_s(report),
        utility=report.utility_per_application,
    )


class Sweep:
    """Every setting with every seed, over all cores."""

    def __init__(self, context: Context, settings: Iterable[Setting]) -> None:
        self.settings = list(dict.fromkeys(settings))
        self.seeds = list(context.seeds)
        work = [(setting, seed) for setting in self.settings for seed in self.seeds]
        self._seen = dict(zip(work, context.map(measure, work), strict=True))

    def seen(self, setting: Setting) -> list[Seen]:
        """One per seed."""
        return [self._seen[setting, seed] for seed in self.seeds]

    def mean(self, setting: Setting, figure: Callable[[Seen], float]) -> float:
        return float(np.mean([figure(s) for s in self.seen(setting)]))

    def class_ms(self, setting: Setting, place: int) -> float:
        """Mean response time of a class, over the seeds; -1 is the lowest class."""
        return self.mean(setting, lambda s: s.mean_ms[place])

    def weighted_ms(self, setting: Setting) -> float:
        return self.mean(setting, lambda s: s.weighted_ms)

    def pooled(self, setting: Setting) -> ClassFigures:
        """For charts: each figure the mean over the seeds."""
        runs = [s.figures for s in self.seen(setting)]
        counts = np.sum([r.counts for r in runs], axis=0)
        return ClassFigures(
            runs[0].classes,
            runs[0].priorities,
            tuple(int(n) for n in counts),
            np.mean([r.response_s for r in runs], axis=0),
        )


def every_seed(claim: str, paper: str, ours: str, held: Sequence[bool]) -> Claim:
    """A robust claim, which states its own criterion, that must hold with every seed."""
    times = "" if all(held) else f" ({sum(held)} of {len(held)} seeds)"
    return Claim(claim, "robust", paper, ours + times, required("with every seed", *held))


def published(claim: str, paper: str, ours: str, rule: Rule) -> Claim:
    return Claim(claim, "published", paper, ours, rule)


def ms(value: float) -> str:
    """Milliseconds with three figures."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def times(value: float) -> str:
    return f"{value:.3g}x" if value < 1000 else f"{value:,.0f}x"


def ranged(values: Sequence[float], show: Callable[[float], str] = times) -> str:
    """Smallest to largest over the seeds."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"
