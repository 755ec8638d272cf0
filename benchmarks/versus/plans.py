"""What is measured: which sides with how many queries, and the studies under load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.versus.capacity import capacity_per_s
from benchmarks.versus.measure import Result, Timing, measure
from benchmarks.versus.sides import SIDES
from benchmarks.versus.workload import Task

QUICK_TIMING = Timing(prime_s=30, warmup_s=5, seconds=20, drain_s=10)
FULL_TIMING = Timing(prime_s=90, warmup_s=20, seconds=60, drain_s=30)
#: Meant to end within 15 minutes on two quiet cores: one or two baselines of each kind. Which
#: variant of a kind is the strongest only the full form tells.
QUICK_SIDES: dict[int, tuple[str, ...]] = {
    1: ("daybreak", "each-fifo-tuned"),
    25: ("daybreak", "hand", "fanout-arrow", "each-fifo", "each-pools-tuned"),
    250: ("daybreak", "hand", "fanout-arrow", "each-pools-tuned"),
}
#: What can hold windows: the others are stateless code around one batch.
MIXED_SIDES = ("daybreak", "each-fifo-tuned", "each-pools-tuned")
MIXED_QUERIES = 60
POLICIES = ("stride", "fcfs", "round-robin", "fixed-priority")
LOADS = (0.7, 0.95, 1.3)
RIDER_BOUND_S = 0.1

#: Told after every measurement, so that what was measured is kept if the rest fails.
Keep = Callable[[dict[str, Any]], None]
Show = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """A series of measurements, one after the other, each in a fresh process."""

    base: Task
    timing: Timing
    show: Show
    keep: Keep

    def latency(
        self, pairs: Iterable[tuple[int, str]], rates_per_s: Sequence[float]
    ) -> list[dict[str, Any]]:
        """Every side at the same rates; what does not sustain one is not given a higher one."""
        found = []
        for n, side in pairs:
            for rate_per_s in rates_per_s:
                task = replace(self.base, side=side, queries=n, rate_per_s=rate_per_s)
                found.append(self._one(task))
                if not found[-1].get("sustained"):
                    break
        return found

    def overload(self, queries: int, loads: Iterable[float]) -> list[dict[str, Any]]:
        """Daybreak beside the hand-composited code, at shares of the latter's capacity."""
        task = replace(self.base, queries=queries)
        capacities = {s: self._capacity(replace(task, side=s)) for s in ("hand", "daybreak")}
        return [
            self._one(
                replace(task, side=side, rate_per_s=load * capacities["hand"]),
                load=load, capacity_per_s=capacities[side],
            )
            for load in loads
            for side in capacities
        ]  # fmt: skip

    def ablation(
        self, queries: int, policies: Iterable[str], loads: Iterable[float]
    ) -> list[dict[str, Any]]:
        """Compositing on and off x policy x load, each load a share of that setting's capacity."""
        found = []
        for bound_s in (RIDER_BOUND_S, 0.0):
            task = replace(self.base, side="daybreak", queries=queries, rider_bound_s=bound_s)
            capacity = self._capacity(replace(task, policy="round-robin"))
            found += [
                self._one(
                    replace(task, policy=policy, rate_per_s=load * capacity),
                    load=load, capacity_per_s=capacity,
                )
                for load in loads
                for policy in policies
            ]  # fmt: skip
        return found

    def _capacity(self, task: Task) -> float:
        self.show(f"capacity of {_what(task)} ...")
        found = capacity_per_s(task)
        self.show(f"  {found:,.0f} rows/s")
        return found

    def _one(self, task: Task, **about: Any) -> dict[str, Any]:
        self.show(f"{_what(task)} at {task.rate_per_s:,.0f} rows/s ...")
        try:
            result = measure(task, self.timing)
        except RuntimeError as error:  # one side's failure is a finding, not the end
            record = {**task.as_json(), "failed": str(error), **about}
            self.show(f"  failed: {str(error).splitlines()[0]}")
        else:
            record = {**result.as_json(), **about}
            self.show(f"  {_brief(result)}")
        self.keep(record)
        return record


def all_pairs(queries: Iterable[int], sides: Iterable[str] | None = None) -> list[tuple[int, str]]:
    return [(n, side) for n in queries for side in sides or SIDES]


def quick_pairs(
    queries: Iterable[int] | None, sides: Iterable[str] | None
) -> list[tuple[int, str]]:
    """The quick plan, or what of it was asked for; other numbers of queries as 25."""
    chosen = list(queries) if queries is not None else list(QUICK_SIDES)
    return [
        (n, side)
        for n in chosen
        for side in (list(sides) if sides else QUICK_SIDES.get(n, QUICK_SIDES[25]))
    ]


def _what(task: Task) -> str:
    if task.side != "daybreak":
        return f"{task.side}, {task.queries} queries"
    alone = "" if task.rider_bound_s else ", compositing off"
    return f"daybreak ({task.policy}{alone}), {task.queries} queries"


def _brief(result: Result) -> str:
    by_class = ", ".join(f"{cls} p95 {c.p95_s:.3f} s" for cls, c in result.classes.items())
    missing = sum(c.missing for c in result.classes.values())
    end = "sustained" if result.sustained else f"NOT sustained ({missing} rows had not arrived)"
    return f"{by_class}; {end}"
