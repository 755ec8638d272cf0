"""``planned`` beside every other policy that runs on Spark, at loads from 0.2 to 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.report.text import duration
from daybreak_experiments.core import Claim, Context, Experiment, Kind, Line, Note, Outcome
from daybreak_experiments.planned.machine import Case, run
from daybreak_experiments.planned.workloads import Workload, mixed, wildfire
from daybreak_experiments.rules import at_least, at_most, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS = (0.2, 0.4, 0.8, 1.0, 1.5, 2.0)
WORKERS = 2
PLANNED, PATIENT = "planned", "stride, patience 0.5"
#: Workloads by the name shown; the last one is fed as the first sketch of this policy was.
WORKLOADS: Mapping[str, Workload] = {
    "mixed": mixed(),
    "wildfire": wildfire(),
    "rows": mixed(closing_windows=False),
}
#: Beyond load 1 the alarm over windows of `wildfire` is not worth what it takes.
ON_OVERLOAD: Mapping[str, Kind] = {"mixed": "robust", "wildfire": "published"}
#: What the sketch reached, on windows whose rows become pending one by one.
SKETCH = {0.4: 0.993, 0.8: 0.985, 1.0: 0.983, 1.5: 0.920, 2.0: 0.899}
#: How far below the best other policy it may be.
TOLERANCE = 0.02


class One(NamedTuple):
    workload: str
    load: float
    policy: str
    seed: int


class Found(NamedTuple):
    utility: float
    p95_s: float
    answered: float
    promised: float


def policies() -> list[str]:
    """All that run on Spark, as far as they can be compared: ``planned`` first."""
    names = [name for name, kind in all_policies().items() if kind.on_spark and name != PLANNED]
    return [PLANNED, PATIENT, *names]


def make(name: str) -> BasePolicy:
    return make_policy_with("stride", patience=0.5) if name == PATIENT else make_policy_with(name)


def measure(one: One) -> Found:
    case = Case(WORKLOADS[one.workload], one.load, WORKERS, one.seed)
    found = run(case, make(one.policy))
    plan: Mapping[str, Any] = found.report.manifest.get("plan", {})
    return Found(found.utility, found.p95_s, found.answered, plan.get("utility", np.nan))


def loads(context: Context) -> Outcome:
    names = policies()
    cases = [
        One(w, load, p, s)
        for w in WORKLOADS
        for load in LOADS
        for p in (names if w != "rows" else names[:1])
        for s in context.seeds
    ]
    found = dict(zip(cases, context.map(measure, cases), strict=True))
    shape = (len(LOADS), len(context.seeds))

    def of(workload: str, policy: str) -> NDArray[np.float64]:
        """By load: the mean over the seeds."""
        rows = [found[One(workload, x, policy, s)] for x in LOADS for s in context.seeds]
        mean: NDArray[np.float64] = np.array(rows).reshape(*shape, 4).mean(axis=1)
        return mean

    by_policy = {w: {p: of(w, p) for p in names} for w in ("mixed", "wildfire")}
    rows = of("rows", PLANNED)
    bounds = {w: [WORKLOADS[w].bound(x, WORKERS) for x in LOADS] for w in WORKLOADS}
    claims = [c for w in by_policy for c in _claims(w, by_policy[w], bounds[w])]
    claims.append(
        Claim(
            "rows of windows one by one: at least the utility of the first sketch of this policy",
            "published",
            _listed(list(SKETCH.values()), list(SKETCH)),
            _listed(rows[1:, 0], LOADS[1:]),
            at_least(0.0, *(rows[LOADS.index(x), 0] - u for x, u in SKETCH.items())),
        )
    )
    return Outcome(claims, _table(by_policy, bounds), _drawing(by_policy, bounds), NOTES)


def _claims(
    workload: str, found: Mapping[str, NDArray[np.float64]], bound: Sequence[float]
) -> list[Line]:
    mine, limit = found[PLANNED], np.array(bound)
    others = {p: f for p, f in found.items() if p != PLANNED}
    best = np.max([f[:, 0] for f in others.values()], axis=0)
    most = np.max([f[:, 2] for f in others.values()], axis=0)
    deadline_s = WORKLOADS[workload].classes[0].qos.deadline_ns / 1e9  # type: ignore[union-attr, operator]
    low = [i for i, x in enumerate(LOADS) if x < 0.9]
    two = LOADS.index(2.0)
    rivals = np.array([others[p][two, 0] for p in ("stride", "round-robin")])
    above = max(float((f[:, 0] - limit).max()) for f in found.values())
    over = np.array(LOADS) > 1
    return [
        Claim(
            f"{workload}: utility at least that of the best other policy minus {TOLERANCE}",
            "robust", "every load", _listed(mine[:, 0] - best, LOADS, "+.3f"),
            at_least(-TOLERANCE, *(mine[:, 0] - best)),
        ),
        Claim(
            f"{workload}: at load 2 utility at least 0.10 above stride and round-robin",
            "robust", "0.10", ", ".join(f"{x:+.3f}" for x in mine[two, 0] - rivals),
            at_least(0.1, *(mine[two, 0] - rivals)),
        ),
        Claim(
            f"{workload}: at least 0.90 of the upper bound",
            "robust", "0.90", _listed(mine[:, 0] / limit, LOADS),
            at_least(0.9, *(mine[:, 0] / limit)),
        ),
        Claim(
            f"{workload}: no policy is above the upper bound",
            "robust", "0", f"{above:+.4f}", at_most(1e-6, above),
        ),
        _in_time(workload, deadline_s, "robust", "up to load 1", mine[~over, 1]),
        _in_time(workload, deadline_s, ON_OVERLOAD[workload], "above load 1", mine[over, 1]),
        Claim(
            f"{workload}: answers at least 0.98 of the most answered at load 0.4, 0.95 at 0.8",
            "robust", "0.98, 0.95", _listed(mine[[1, 2], 2] / most[[1, 2]], LOADS[1:3]),
            required("as claimed", mine[1, 2] >= 0.98 * most[1], mine[2, 2] >= 0.95 * most[2]),
        ),
        Claim(
            f"{workload}: utility within 0.02 of what the plan promised, below load 0.9",
            "robust", "0.02", _listed(mine[low, 0] - mine[low, 3], LOADS, "+.3f"),
            at_most(0.02, *np.abs(mine[low, 0] - mine[low, 3])),
        ),
        Note(
            f"{workload}: the best other policy",
            ", ".join(
                f"{max(others, key=lambda p, i=i: others[p][i, 0])} at {x:g}"  # type: ignore[misc]
                for i, x in enumerate(LOADS)
            ),
        ),
    ]  # fmt: skip


def _in_time(
    workload: str, deadline_s: float, kind: Kind, at: str, p95_s: NDArray[np.float64]
) -> Claim:
    return Claim(
        f"{workload}: p95 of the most important class below 1.5 times its deadline, {at}",
        kind, duration(1.5 * deadline_s), ", ".join(map(_shown_s, p95_s)),
        at_most(1.5 * deadline_s, *p95_s),
    )  # fmt: skip


def _listed(
    values: Sequence[float] | NDArray[np.float64], at: Sequence[float], form: str = ".3f"
) -> str:
    return ", ".join(f"{v:{form}} at {x:g}" for v, x in zip(values, at, strict=False))


def _shown_s(seconds: float) -> str:
    return duration(seconds) if np.isfinite(seconds) else "beyond"


def _table(
    found: Mapping[str, Mapping[str, NDArray[np.float64]]], bounds: Mapping[str, Sequence[float]]
) -> list[list[str]]:
    rows = [["workload", "policy", *(f"load {x:g}" for x in LOADS)]]
    for w, by_policy in found.items():
        rows.append([w, "upper bound", *(f"{b:.3f}" for b in bounds[w])])
        ranked = sorted(by_policy, key=lambda p: (p != PLANNED, -float(by_policy[p][:, 0].mean())))
        for p in ranked:
            cells = [f"{u:.3f} / {_shown_s(s)} / {a:.0%}" for u, s, a, _ in by_policy[p]]
            rows.append([w, p, *cells])
    return rows


def _drawing(
    found: Mapping[str, Mapping[str, NDArray[np.float64]]], bounds: Mapping[str, Sequence[float]]
) -> Any:
    def draw(figure: Figure) -> None:
        places = figure.subplots(1, len(found), sharey=True)
        for axes, (w, by_policy) in zip(places, found.items(), strict=True):
            axes.plot(LOADS, bounds[w], "k:", label="upper bound")
            for p, values in by_policy.items():
                shown = p in (PLANNED, PATIENT, "round-robin", "stride", "fcfs", "mbd")
                style = {"lw": 2.5} if p == PLANNED else {} if shown else {"c": "0.85", "zorder": 0}
                axes.plot(LOADS, values[:, 0], "-", label=p if shown else None, **style)
            axes.set_xlabel("load")
            axes.set_title(w)
        places[0].set_ylabel("utility of all that arrived")
        places[0].legend(fontsize="small")

    return draw


NOTES = (
    (
        "Each cell: utility (sum of w U over sum of w, over all pairs of a query and a tuple that "
        "arrived; w is class priority times freshness weight, and what is not answered is worth "
        "nothing) / p95 of the most important class / share answered. The bound is what no "
        "schedule of these queries can exceed ([how](../planned.md))."
    ),
    (
        "Load 1 is the rate at which two workers would be busy with tuples alone, in infinitely "
        "long trains; starting jobs comes on top. Both workloads have filters that start in 9 to "
        "10 ms, windows and joins that start in 80 to 120 ms, and costly queries. Job costs vary "
        "by 10 %. The engine learns them as on Spark; all that the policies see is learned. "
        "40 s are measured after 15 s, and arrivals continue for another 30 s."
    ),
    (
        "Where it does not win: at load 0.2 to 0.4 several policies answer everything in time, and "
        "their p95 is shorter: `planned` gathers tuples where that costs no utility. Policies that "
        "serve everything answer a larger share under overload, most of it too late. In "
        "`wildfire` the alarm over windows needs jobs as long as its deadline from load 1.5 on: it "
        "is given up for the other alarms, and with it the p95 of its class."
    ),
)
LOADS_EXPERIMENT = Experiment(
    "planned/loads", "utility over the load, beside every policy that runs on Spark", loads, seeds=3
)
