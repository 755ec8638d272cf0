"""What if: a recorded run beside its replays under other policies, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.curves import LEVELS, Curves, class_curves
from daybreak.runtime.report import RunReport, Summary
from daybreak.simulation.replay import MOST, Replay

#: Of the JSON that ``as_json`` gives; see docs/what-if.md.
FORMAT = 1
BUCKETS = 60
#: Where recorded and replayed response times are compared.
CALIBRATED = ("mean", "p50", "p95")


@dataclass(frozen=True)
class Wanted:
    """A policy to replay under."""

    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The recorded run, or one replay of it."""

    name: str
    replayed: bool
    report: RunReport
    curves: Mapping[str, Curves]
    #: Of all tuples to answer: the mean over (query, tuple) pairs by class priority and query
    #: weight, unanswered ones at 0. NaN without QoS graphs.
    utility: float

    @property
    def waiting(self) -> int:
        """Tuples that waited at the end."""
        pending = self.report.backlog.pending
        return int(pending[-1].sum()) if len(pending) else 0

    @property
    def promised(self) -> tuple[float, float] | None:
        """The planned utility and the upper bound, of a policy that plans."""
        plan = self.report.manifest.get("plan") or {}
        promise, bound = plan.get("utility"), plan.get("bound")
        return None if promise is None or bound is None else (float(promise), float(bound))

    @property
    def busy(self) -> float:
        """Share of the workers' time in which jobs ran, express workers included."""
        spent = self.report.spent
        return spent.work_ns / max(1, spent.wall_ns * self.report.threads)

    def staleness(self, cls: str) -> float:
        """The mean over a class's queries by weight."""
        report = self.report
        of = np.array(report.query_class) == report.classes.index(cls)
        if not of.any():
            return math.nan
        return float(np.average(report.staleness[of], weights=np.array(report.weights)[of]))


@dataclass(frozen=True)
class Calibration:
    """How far the replay of the recorded policy itself is from what was recorded."""

    #: Replayed over recorded response times, by class and level; NaN where one has no results.
    ratios: Mapping[str, Mapping[str, float]]
    #: Replayed less recorded.
    utility: float
    staleness: float

    @property
    def worst(self) -> float:
        """The largest ratio, either way: 1 is exact, 2 is off by a factor of two."""
        known = [r for levels in self.ratios.values() for r in levels.values() if r > 0]
        return max((max(r, 1 / r) for r in known), default=math.nan)


@dataclass(frozen=True)
class WhatIf:
    """The recorded run first, then its own policy replayed, then the others."""

    run: str
    from_s: float
    edges_s: NDArray[np.float64]
    outcomes: tuple[Outcome, ...]
    calibration: Calibration
    #: Deliveries (runs of tuples that arrived together, once for each query) and tuples.
    deliveries: int
    known: int
    tuples: int
    most: int
    caveats: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        return self.outcomes[0].report.classes

    @property
    def capped(self) -> bool:
        """Whether the cap left a part of the record out."""
        return self.deliveries < self.known and self.known > self.most

    def as_json(self) -> dict[str, Any]:
        """See docs/what-if.md; NaN becomes null."""
        return {
            "format": FORMAT,
            "run": self.run,
            "pipeline": self.outcomes[0].report.manifest.get("pipeline"),
            "from_s": self.from_s,
            "to_s": self.from_s + float(self.edges_s[-1]),
            "bucket_s": float(self.edges_s[1] - self.edges_s[0]),
            "time_s": [_number(self.from_s + e) for e in self.edges_s[1:].tolist()],
            "classes": list(self.classes),
            "replayed": {
                "tuples": self.tuples,
                "deliveries": self.deliveries,
                "recorded_deliveries": self.known,
                "most_deliveries": self.most,
                "capped": self.capped,
            },
            "calibration": {
                "policy": self.outcomes[1].report.manifest["policy"],
                "worst_ratio": _number(self.calibration.worst),
                "ratios": {
                    cls: {level: _number(ratio) for level, ratio in levels.items()}
                    for cls, levels in self.calibration.ratios.items()
                },
                "utility": _number(self.calibration.utility),
                "staleness": _number(self.calibration.staleness),
            },
            "caveats": list(self.caveats),
            "runs": [_outcome_json(o, self.from_s) for o in self.outcomes],
        }


def what_if(
    folder: Path,
    policies: Sequence[Wanted],
    *,
    seed: int = 1,
    last_s: float | None = None,
    buckets: int = BUCKETS,
    most: int = MOST,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> WhatIf:
    """Replays what the run in this folder recorded, under its own policy and under each of these.

    The run may still go on: then it is what it recorded so far. ``progress(done, total)`` counts
    deliveries over all replays. At most ``most`` deliveries are replayed, the newest; the result
    says when that cut something off.
    """
    chosen = [_usable(make_policy_with(w.policy, **w.parameters)) for w in policies]
    replay = Replay.load(folder, last_s=last_s, most=most)
    about = replay.recorded.manifest
    given = {k: v for k, v in about.get("parameters", {}).items() if v is not None}
    own = make_policy_with(str(about["policy"]), **given)
    runs = [own, *(p for p in chosen if p.told() != own.told())]
    span_s = (replay.end_ns - replay.from_ns) / 1e9
    if span_s <= 0 or not replay.deliveries:
        raise ConfigError(
            str(folder), "has recorded no arrivals yet", "wait some ten seconds, and try again"
        )
    total, done = len(replay.deliveries) * len(runs), 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    reports = [replay.run(p, seed, progress=told, most_jobs=4 * most) for p in runs]
    caveats = list(replay.caveats)
    for report in reports:
        if report.duration_s < span_s:
            name, until_s = report.manifest["policy"], report.duration_s + replay.from_ns / 1e9
            caveats.append(
                f"{name} was replayed up to {until_s:.3g} s only: it takes too many jobs"
            )
    asked = _asked(replay)
    edges_s = np.linspace(0.0, max(span_s, *(r.duration_s for r in reports)), buckets + 1)
    named = [("recorded", replay.recorded)]
    named += [(f"{name}, replayed", r) for name, r in zip(_names(runs), reports, strict=True)]
    outcomes = [
        Outcome(name, at > 0, r, class_curves(r, edges_s), utility_of_all(r, asked))
        for at, (name, r) in enumerate(named)
    ]
    return WhatIf(
        run=str(folder),
        from_s=replay.from_ns / 1e9,
        edges_s=edges_s,
        outcomes=tuple(outcomes),
        calibration=calibrate(outcomes[0], outcomes[1]),
        deliveries=sum(len(d.boxes) for d in replay.deliveries),
        known=replay.known,
        tuples=int(asked.sum()),
        most=most,
        caveats=tuple(caveats),
    )


def _asked(replay: Replay) -> NDArray[np.int64]:
    """Tuples to answer, by query."""
    asked = np.zeros(len(replay.network.queries), dtype=np.int64)
    for delivery in replay.deliveries:
        for box in delivery.boxes:
            asked[box] += delivery.item.tuples
    return asked


def utility_of_all(report: RunReport, asked: NDArray[np.int64]) -> float:
    """What answers were worth, of all that was to be answered; NaN without QoS graphs."""
    o, worth = report.outputs, np.nan_to_num(report.utility)
    gained = np.bincount(o.query, worth * o.tuples, minlength=len(asked))
    priority = np.array([report.priorities[c] for c in report.query_class])
    graded = np.array([graph is not None for graph in report.qos])
    weight = np.where(graded, priority * report.weights, 0.0)
    whole = float(weight @ asked)
    # Of a stretch, answers to tuples of before it are no gain beyond what was asked.
    return float(weight @ np.minimum(gained, asked)) / whole if whole else math.nan


def _usable(policy: BasePolicy) -> BasePolicy:
    if not policy.on_spark:
        raise ConfigError(
            f"policy {policy.name!r}",
            "makes no sense on Spark, where a query is one box",
            "see daybreak policies",
        )
    return policy


def _names(policies: Sequence[BasePolicy]) -> list[str]:
    """A name for each: one that comes again, with other parameters, is numbered."""
    names: list[str] = []
    for at, policy in enumerate(policies):
        again = sum(p.name == policy.name for p in policies[:at])
        names.append(f"{policy.name} {again + 1}" if again else policy.name)
    return names


def calibrate(recorded: Outcome, replayed: Outcome) -> Calibration:
    """Compares the same policy in both worlds."""
    before, after = recorded.report.by_class(), replayed.report.by_class()
    return Calibration(
        ratios={
            cls: {
                level: _ratio(_level(after[cls], level), _level(before[cls], level))
                for level in CALIBRATED
            }
            for cls in recorded.report.classes
        },
        utility=replayed.utility - recorded.utility,
        staleness=replayed.report.overall_staleness - recorded.report.overall_staleness,
    )


def _level(summary: Summary, level: str) -> float:
    return summary.mean_s if level == "mean" else summary.percentiles_s[int(level[1:])]


def _ratio(value: float, base: float) -> float:
    return value / base if base > 0 else math.nan


def _outcome_json(o: Outcome, from_s: float) -> dict[str, Any]:
    report = o.report
    return {
        "name": o.name,
        "replayed": o.replayed,
        "policy": report.manifest["policy"],
        "parameters": report.manifest.get("parameters", {}),
        "until_s": from_s + report.duration_s,
        "summary": {
            **_summary_json(report.overall()),
            "utility_of_all": _number(o.utility),
            "promised_utility": o.promised[0] if o.promised else None,
            "utility_bound": o.promised[1] if o.promised else None,
            "utility_per_query": _number(report.utility_per_application),
            "staleness": _number(report.overall_staleness),
            "waiting": o.waiting,
            "busy": _number(o.busy),
            "classes": {
                cls: {**_summary_json(s), "staleness": _number(o.staleness(cls))}
                for cls, s in report.by_class().items()
            },
        },
        "curves": {
            cls: {
                "results": c.results.tolist(),
                **{f"p{level}_s": _numbers(c.response_s[level]) for level in LEVELS},
                "utility": _numbers(c.utility),
                "staleness": _numbers(c.staleness),
            }
            for cls, c in o.curves.items()
        },
    }


def _summary_json(s: Summary) -> dict[str, Any]:
    return {
        "results": s.count,
        "mean_s": _number(s.mean_s),
        **{f"p{level}_s": _number(s.percentiles_s[level]) for level in LEVELS},
        "utility": _number(s.utility),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [_number(v) for v in values.tolist()]
