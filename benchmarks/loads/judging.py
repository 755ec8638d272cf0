"""What ``planned`` has to reach, as rules over the outcomes of one run of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.loads.scoring import Outcome
from benchmarks.loads.workload import KNEE_S

#: The share of the upper bound that must be reached.
OF_BOUND = 0.90
#: Loads beyond this are shown, and judged only where they must be.
HIGHEST = 2.0
#: How far ``planned`` must be above the policies it replaces, mixed, at that load; or, if the bound
#: is no higher than that, at the next at which it is.
AHEAD, REPLACED = 0.10, ("stride", "round-robin")
P95_KNEES = 1.5
#: A policy whose first run is so far below the best other's is not run there again.
OUT_OF_REACH = 0.10
#: The share of the best policy's answers, by load.
ANSWERED = {0.4: 0.98, 0.8: 0.95}


@dataclass(frozen=True)
class Verdict:
    claim: str
    holds: bool
    found: str


def medians(outcomes: Sequence[Outcome], field: str) -> float:
    return float(median(getattr(o, field) for o in outcomes))


def contends(policy: str, first: Sequence[Outcome]) -> bool:
    """Whether a policy may be the best other one of a case, by the first run of each there."""
    others = {o.policy: o.utility for o in first if o.policy != "planned"}
    return policy not in others or others[policy] >= max(others.values()) - OUT_OF_REACH


def judge(outcomes: Sequence[Outcome], tolerance: float) -> Iterator[Verdict]:
    """Every criterion in every case; a figure is the median of a case's runs."""
    cases = sorted({(o.workload, o.load) for o in outcomes if o.load <= HIGHEST})
    for workload, load in cases:
        mine = [o for o in outcomes if (o.workload, o.load) == (workload, load)]
        by_policy = {p: [o for o in mine if o.policy == p] for p in {o.policy for o in mine}}
        planned = by_policy.pop("planned", None)
        if planned and by_policy:
            yield from _case(f"{workload} at {load:g}", load, planned, by_policy, tolerance)
    mixed = [o for o in outcomes if o.workload == "mixed" and o.load >= HIGHEST]
    for policy in REPLACED:
        yield from _ahead(policy, mixed)


def _case(
    case: str,
    load: float,
    planned: Sequence[Outcome],
    others: dict[str, list[Outcome]],
    tolerance: float,
) -> Iterator[Verdict]:
    utility = medians(planned, "utility")
    best = max(others, key=lambda p: medians(others[p], "utility"))
    other = medians(others[best], "utility")
    yield Verdict(
        f"{case}: utility at least the best other policy's - {tolerance:g}",
        utility >= other - tolerance,
        f"{utility:.3f}, {best} {other:.3f}",
    )
    bounds = [o.bound for o in planned if o.bound is not None]
    bound = median(bounds) if bounds else float("nan")
    yield Verdict(
        f"{case}: at least {OF_BOUND:g} of the upper bound",
        utility >= OF_BOUND * bound,
        f"{utility:.3f} of at most {bound:.3f}",
    )
    p95_s = medians(planned, "critical_p95_s")
    yield Verdict(
        f"{case}: critical p95 below {P95_KNEES:g} knees",
        p95_s < P95_KNEES * KNEE_S,
        f"{p95_s:.2f} s",
    )
    if load in ANSWERED:
        answered = medians(planned, "answered")
        most = max(medians(of, "answered") for of in others.values())
        yield Verdict(
            f"{case}: answered at least {ANSWERED[load]:g} of the best policy's",
            answered >= ANSWERED[load] * most,
            f"{answered:.1%}, best {most:.1%}",
        )


def _ahead(policy: str, mixed: Sequence[Outcome]) -> Iterator[Verdict]:
    """At the lowest load at which any schedule could be so far above it, or the highest."""
    loads = sorted({o.load for o in mixed if o.policy == policy})
    for load in loads:
        planned = [o for o in mixed if (o.load, o.policy) == (load, "planned")]
        if not planned:
            continue
        others = [o for o in mixed if (o.load, o.policy) == (load, policy)]
        utility, other = medians(planned, "utility"), medians(others, "utility")
        bounds = [o.bound for o in planned if o.bound is not None]
        if bounds and median(bounds) < other + AHEAD and load < loads[-1]:
            continue
        yield Verdict(
            f"mixed at {load:g}: {AHEAD:g} above {policy}",
            utility >= other + AHEAD,
            f"{utility:.3f}, {policy} {other:.3f}",
        )
        return
