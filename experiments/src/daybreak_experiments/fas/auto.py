"""Beta chosen by a goal while the load changes, on the axes of figure 7 (ours)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from daybreak.model import Overheads
from daybreak.policies.base import BasePolicy
from daybreak.policies.fas_mcq_auto import AutoBeta
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.fas.load import shown
from daybreak_experiments.fas.testbed import K_NS, Point, Setting, arrivals, policy_of, testbed
from daybreak_experiments.rules import as_claimed, at_most, below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The load comes, rises and falls again; so many tuples per stream each.
LOADS = (0.5, 0.9, 0.5)
TUPLES = 200
BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
GOALS = ("goal: staleness", "goal: response", "goal: knee")
#: About as long as ten tuples of a stream at full load.
WINDOW_S = 0.01


@dataclass(frozen=True)
class Trial:
    """One seed: fixed betas, and goals half-way between what the extremes reach."""

    fixed: tuple[Point, ...]
    staleness_goal: float
    response_goal_s: float
    for_staleness: Point
    for_response: Point
    #: Begun at beta 1, the end that is farther from the knee.
    for_knee: Point

    @property
    def knee_over_best(self) -> float:
        """Staleness x response time of the knee, by the least of any fixed beta."""
        return product(self.for_knee) / min(product(p) for p in self.fixed)

    @property
    def knee_over_ends(self) -> float:
        """The same by the better of the two ends, beta 0 and 1."""
        return product(self.for_knee) / min(product(self.fixed[0]), product(self.fixed[-1]))


def product(point: Point) -> float:
    return point.staleness * point.response_s


def trial(seed: int) -> Trial:
    setting = Setting(seed=seed, tuples=TUPLES)
    schedule = changing_load(setting)
    fixed = tuple(_run(setting, policy_of(replace(setting, beta=b)), schedule) for b in BETAS)
    first, last = fixed[0], fixed[-1]
    staleness = (first.staleness + last.staleness) / 2
    response_s = (first.response_s + last.response_s) / 2
    return Trial(
        fixed,
        staleness,
        response_s,
        _run(setting, _auto("staleness", staleness), schedule),
        _run(setting, _auto("response", response_s), schedule),
        _run(setting, _knee(), schedule),
    )


def changing_load(setting: Setting) -> ArrivalSchedule:
    network = testbed(setting)
    parts, streams, start = [], [], 0
    for phase, load in enumerate(LOADS):
        part = arrivals(replace(setting, utilisation=load, seed=10 * setting.seed + phase), network)
        parts.append(part.at_ns + start)
        streams.append(part.stream)
        start = int(parts[-1][-1])
    return ArrivalSchedule(np.concatenate(parts), np.concatenate(streams))


def _auto(goal: str, target: float) -> BasePolicy:
    return make_policy_with(
        "fas-mcq-auto", drain="one", goal=goal, target=target, window_s=WINDOW_S
    )


def _knee() -> BasePolicy:
    policy = make_policy_with("fas-mcq-auto", drain="one", goal="knee", window_s=WINDOW_S)
    assert isinstance(policy, AutoBeta)
    policy.beta = 1.0
    return policy


def _run(setting: Setting, policy: BasePolicy, schedule: ArrivalSchedule) -> Point:
    report = simulate(
        testbed(setting), policy, schedule, overheads=Overheads(fixed_ns=K_NS), seed=setting.seed
    )
    return Point(report.overall_staleness, report.overall().mean_s)


def run(context: Context) -> Outcome:
    trials = context.map(trial, context.seeds)
    labels = [*(f"FAS-MCQ({b:g})" for b in BETAS), *GOALS]
    points = [[*t.fixed, t.for_staleness, t.for_response, t.for_knee] for t in trials]
    means = [
        Point(
            float(np.mean([row[i].staleness for row in points])),
            float(np.mean([row[i].response_s for row in points])),
        )
        for i in range(len(labels))
    ]
    rows = [["policy", "staleness", "response time", "their product by FAS-MCQ(0)'s"]]
    for label, point in zip(labels, means, strict=True):
        stale, slow = shown(point.staleness, "staleness"), shown(point.response_s, "response_s")
        rows.append([label, stale, slow, f"{product(point) / product(means[0]):.2f}"])
    stale_by_goal = [t.for_staleness.staleness / t.staleness_goal for t in trials]
    slow_by_goal = [t.for_response.response_s / t.response_goal_s for t in trials]
    first, last = means[0], means[len(BETAS) - 1]
    at_staleness, at_response, _ = means[len(BETAS) :]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        unit = 1e9 / K_NS
        fixed = means[: len(BETAS)]
        axes.plot([p.response_s * unit for p in fixed], [p.staleness * 100 for p in fixed], "o-")
        for label, p in zip(labels, means, strict=True):
            x, y = p.response_s * unit, p.staleness * 100
            if label.startswith("goal"):
                axes.plot(x, y, "D", color="C1")
            axes.annotate(label, (x, y), xytext=(6, 6), textcoords="offset points")
        axes.axhline(float(np.mean([t.staleness_goal for t in trials])) * 100, ls=":", color="C2")
        axes.axvline(float(np.mean([t.response_goal_s for t in trials])) * unit, ls=":", color="C2")
        axes.margins(x=0.2, y=0.15)
        axes.set_xlabel("average response time (costs of the cheapest operator); dotted: goals")
        axes.set_ylabel("average staleness (%)")

    return Outcome(
        claims=[
            _kept("a goal for staleness is kept within 10 %", stale_by_goal),
            _kept("a goal for response time is kept within 10 %", slow_by_goal),
            Claim(
                "each goal leaves the other measure better than its far end",
                "robust",
                "(ours)",
                f"response {at_staleness.response_s / last.response_s:.2f} of FAS-MCQ(1)'s, "
                f"staleness {at_response.staleness / first.staleness:.2f} of FAS-MCQ(0)'s",
                as_claimed(
                    at_staleness.response_s < last.response_s
                    and at_response.staleness < first.staleness
                ),
            ),
            _below(
                "the knee's staleness x response time is below that of beta 0 and of beta 1",
                [t.knee_over_ends for t in trials],
                1.0,
            ),
            _below(
                "and within 5 % of the least of any fixed beta, known afterwards",
                [t.knee_over_best for t in trials],
                1.05,
            ),
        ],
        table=rows,
        draw=draw,
        notes=[NOTE],
    )


def _kept(claim: str, ratios: list[float]) -> Claim:
    ours = f"{min(ratios):.2f} to {max(ratios):.2f} of the goal"
    return Claim(claim, "robust", "(ours)", ours, at_most(1.1, max(ratios)))


def _below(claim: str, ratios: list[float], bound: float) -> Claim:
    ours = f"{min(ratios):.2f} to {max(ratios):.2f} of it"
    return Claim(claim, "robust", "(ours)", ours, below(bound, *ratios))


NOTE = (
    f"Utilisation {', '.join(f'{u:g}' for u in LOADS)} in turn, {TUPLES} tuples per stream each; "
    "the goals lie half-way between what FAS-MCQ(0) and FAS-MCQ(1) reach. The knee is the beta of "
    "the least staleness x response time; its run begins at beta 1."
)
EXPERIMENTS = (Experiment("fas/auto-beta", "beta chosen by a goal while the load changes", run),)
