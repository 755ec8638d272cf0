"""Cases made to break ``planned``: bursts, wrong costs, cliffs, one class, one worker, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sin
from typing import NamedTuple

import numpy as np

from daybreak.model.network import QueryClass
from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import BasePolicy, JobCost
from daybreak.policies.registry import make_policy_with
from daybreak.report.text import duration
from daybreak_experiments.core import Claim, Context, Experiment, Line, Note, Outcome
from daybreak_experiments.planned.machine import Case, run
from daybreak_experiments.planned.workloads import FILE_ROWS, Declared, Workload, files, mixed
from daybreak_experiments.rules import at_least

#: Those that came closest in ``planned/loads``, and what people know.
POLICIES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "planned": ("planned", {}),
    "round-robin": ("round-robin", {}),
    "stride": ("stride", {}),
    "stride, patience 0.5": ("stride", {"patience": 0.5}),
    "fcfs": ("fcfs", {}),
}
TOLERANCE = 0.02


def burst(at_s: float) -> float:
    """Ten times the rate for five seconds."""
    return 10.0 if 25 <= at_s < 30 else 1.0


def drift(at_s: float) -> float:
    return 1 + 0.6 * sin(at_s / 8)


@dataclass(frozen=True)
class Wrong:
    """Costs of some cells are off by a factor, however much the engine learns."""

    queries: frozenset[int]
    factor: float

    def __call__(self, query: int, _true: JobCost, known: JobCost) -> JobCost:
        return known.times(self.factor) if query in self.queries else known


def with_cliffs(workload: Workload) -> Workload:
    """Everything is lost a millisecond after the deadline."""
    classes = []
    for cls in workload.classes:
        assert cls.qos is not None
        deadline_s = (cls.qos.deadline_ns or 0) / NS_PER_S
        graph = QoSGraph.deadline(deadline_s, deadline_s + 0.001)
        classes.append(QueryClass(name=cls.name, priority=cls.priority, qos=graph))
    return replace(workload, name="cliffs", classes=tuple(classes))


def of_one_class(query: Declared) -> Declared:
    together = f"{query.together}, {query.cls}" if query.together else ""
    return query._replace(cls="normal", together=together)


def of_250(workload: Workload) -> Workload:
    queries = workload.queries
    more = (queries[i % len(queries)] for i in range(250))
    named = tuple(q._replace(name=f"{q.name}-{i}") for i, q in enumerate(more))
    return replace(workload, name="250 queries", queries=named)


def _first(*names: str) -> frozenset[int]:
    return frozenset(i for i, q in enumerate(mixed().queries) if q.name in names)


def cases() -> dict[str, Case]:
    whole = mixed()
    filters, dear = _first("filter-00", "named-01"), _first("costly", "neighbours-01")
    one_class = replace(
        whole.changed(of_one_class, "one class"),
        classes=tuple(c for c in whole.classes if c.name == "normal"),
    )
    return {
        "burst of 10x for 5 s at load 0.5": Case(whole, 0.5, factor=burst),
        "the important cells' costs 5x too high": Case(whole, 1.0, shown=Wrong(filters, 5.0)),
        "the dear cells' costs 5x too low": Case(whole, 1.0, shown=Wrong(dear, 0.2)),
        "job costs vary by 50 %": Case(whole, 1.0, noise=0.5),
        "graphs are cliffs": Case(with_cliffs(whole), 1.0),
        "one class": Case(one_class, 1.0),
        "250 queries": Case(of_250(whole), 1.0),
        "rates drift between 0.4x and 1.6x": Case(whole, 1.0, factor=drift),
        "one worker": Case(whole, 1.0, workers=1),
        "one worker, load 2": Case(whole, 2.0, workers=1),
        "four workers": Case(whole, 1.0, workers=4),
        **{work.name: _of_files(work) for work in (files(2.0), files(1.1))},
    }


def _of_files(workload: Workload) -> Case:
    """Jobs are few, so it takes a minute to learn what they cost."""
    load = FILE_ROWS / workload.grain_s / workload.rate_per_s(1.0, 2)
    return Case(workload, load, noise=0.25, warm_s=60.0, after_s=120.0)


class One(NamedTuple):
    case: str
    policy: str
    seed: int


def measure(one: One) -> tuple[float, float, float]:
    found = run(replace(cases()[one.case], seed=one.seed), _policy(one.policy))
    return found.utility, found.p95_s, found.answered


def _policy(name: str) -> BasePolicy:
    kind, parameters = POLICIES[name]
    return make_policy_with(kind, **parameters)


def hard(context: Context) -> Outcome:
    every = cases()
    runs = [One(c, p, s) for c in every for p in POLICIES for s in context.seeds]
    shape = (len(every), len(POLICIES), len(context.seeds), 3)
    found = np.array(context.map(measure, runs)).reshape(shape).mean(axis=2)
    bounds = [
        case.workload.bound(case.load, case.workers) if case.factor(27.0) == 1.0 else np.nan
        for case in every.values()
    ]
    rows = [["case", "upper bound", *POLICIES]]
    claims: list[Line] = []
    for i, name in enumerate(every):
        shown = [
            f"{u:.3f} / {duration(s) if np.isfinite(s) else 'beyond'} / {a:.0%}"
            for u, s, a in found[i]
        ]
        rows.append([name, f"{bounds[i]:.3f}" if bounds[i] == bounds[i] else "-", *shown])
        lead = float(found[i, 0, 0] - found[i, 1:, 0].max())
        claims.append(
            Claim(
                f"{name}: at least the best other policy's utility minus {TOLERANCE}",
                "robust", "-", f"{lead:+.3f}", at_least(-TOLERANCE, lead),
            )
        )  # fmt: skip
        if bounds[i] == bounds[i]:
            share = float(found[i, 0, 0]) / bounds[i]
            claims.append(Note(f"{name}: share of the upper bound", f"{share:.3f}"))
    return Outcome(claims, rows, None, NOTES)


NOTES = (
    (
        "The workload `mixed` of [planned/loads](#"
        "plannedloads-utility-over-the-load-beside-every-policy-that-runs-on-spark"
        "). Each cell: utility of all that "
        "arrived / p95 of the most important class / share answered. The bound is for constant "
        "rates, so that bursts and drift have none."
    ),
    (
        "The last two are other workloads: 50 stateful queries of Spark, governed, over files of "
        "1 000 rows, at what they take in `benchmarks/governed.py`. A file every 1.1 s is more "
        "than two workers can answer in time."
    ),
    (
        "It loses most against the bound in a burst: what arrives within five seconds would take "
        "25, and a plan learns of it a fifth of a second late, from rates over two seconds. With "
        "cliffs the same waits cost more, since whatever is a little late is worth nothing."
    ),
)
HARD = Experiment("planned/hard", "cases made to break it", hard, seeds=3)
