"""Admission control: what one more query would do to all others (class-based-thesis 2.1).

Jobs have a large fixed cost, so workers that are busy all the time are not overloaded: fewer and
larger jobs do the same work. Load is therefore counted at a stated pace: every cell once per
``PACE_S``, or as often as its windows close if that is less often, each time over all that arrived
since. Costs are those the engine has measured.

Pure arithmetic: loads in, a verdict with the predicted effect per class out. The effect is that
of a server whose classes go in order of priority, without interrupting a job: the wait of class k
is W0 / ((1 - s) (1 - s')), with s the load of the classes before it, s' that load and its own, and
W0 in proportion to the load of all (Cobham). Policies differ, but none has more time to give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.engine.core import Core
from daybreak.engine.express import highest_priority, usable_threads
from daybreak.engine.queries import QueryFacts
from daybreak.model.qos import NS_PER_S

PACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a query may come, and why."""

    admitted: bool
    #: Share of all workers' time asked for: before, by the new query alone, and after.
    load: float
    added: float
    after: float
    #: By class: how many times longer its queries would wait; infinite beyond capacity.
    longer: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Infinity has no JSON: null stands for it."""
        return {
            "admitted": self.admitted,
            "load": round(self.load, 4),
            "added": round(self.added, 4),
            "after": round(self.after, 4),
            "longer": {
                name: round(x, 3) if math.isfinite(x) else None for name, x in self.longer.items()
            },
        }


def judge(
    priorities: Mapping[str, float],
    demand: Mapping[str, float],
    cls: str,
    added: float,
    limit: float,
    *,
    workers: int = 1,
    express: int = 0,
    urgent: Collection[str] = (),
) -> Verdict:
    """One more query of class ``cls`` that would keep ``added`` threads busy.

    ``demand``: threads that each class keeps busy now. ``urgent``: the classes that ``express``
    workers serve; others cannot use them. Refused if all together would ask for more than
    ``limit`` of the threads.
    """
    asked = {**demand, cls: demand.get(cls, 0.0) + added}
    threads = usable_threads(workers, express, sum(asked.get(name, 0.0) for name in urgent))
    added /= threads
    before = {name: demand.get(name, 0.0) / threads for name in priorities}
    after = {**before, cls: before[cls] + added}
    old, new = waits(priorities, before), waits(priorities, after)
    total = sum(after.values())
    return Verdict(
        admitted=total <= limit,
        load=sum(before.values()),
        added=added,
        after=total,
        longer={name: _ratio(new[name], old[name]) for name in priorities},
    )


def waits(priorities: Mapping[str, float], loads: Mapping[str, float]) -> dict[str, float]:
    """The mean wait of each class in units of a job's residual time; infinite beyond capacity."""
    found: dict[str, float] = {}
    served, ahead = sum(loads.values()), 0.0
    for priority in sorted(set(priorities.values()), reverse=True):
        equals = [name for name, p in priorities.items() if p == priority]
        upto = ahead + sum(loads[name] for name in equals)
        wait = served / ((1 - ahead) * (1 - upto)) if upto < 1 else math.inf
        found.update(dict.fromkeys(equals, wait))
        ahead = upto
    return found


def _ratio(new: float, old: float) -> float:
    if math.isinf(new):
        return 1.0 if math.isinf(old) else math.inf
    return new / old if old > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Demand:
    """Queries ask for so much, and one more would: frozen, so that a trial may take its time."""

    #: Threads that each class keeps busy, held queries left out.
    by_class: Mapping[str, float]
    priorities: Mapping[str, float]
    #: The class of the query that may come.
    cls: str
    workers: int
    express: int
    #: The classes that express workers serve.
    urgent: frozenset[str]
    #: Tuples that come to the query per ``PACE_S``.
    tuples: int
    #: What a job over them is believed to cost; None: nothing like it has run, so it is tried.
    job_ns: float | None
    #: What a job over nothing costs.
    fixed_ns: float

    def judge(self, limit: float, trial_ns: Callable[[int, float], float]) -> Verdict:
        """Judges the query.

        ``trial_ns``: what a job of it takes over so many tuples, where one over nothing takes
        that.
        """
        return judge(
            self.priorities, self.by_class, self.cls, self.added(trial_ns), limit,
            workers=self.workers, express=self.express, urgent=self.urgent,
        )  # fmt: skip

    def added(self, trial_ns: Callable[[int, float], float]) -> float:
        """Threads that it would keep busy."""
        if not self.tuples:
            return 0.0
        job_ns = self.job_ns
        if job_ns is None:
            job_ns = max(trial_ns(self.tuples, self.fixed_ns), self.fixed_ns)
        return job_ns / NS_PER_S / PACE_S


def demand_for(
    core: Core, facts: QueryFacts, cls: int, rate_per_s: Callable[[str], float]
) -> Demand:
    """States the demand of a query that is not there yet; a margin if it can run with others."""
    state, classes = core.state, core.state.network.classes
    priorities = {c.name: state.class_priority[i] for i, c in enumerate(classes)}
    highest = highest_priority(state.class_priority, [*state.query_class, cls])
    tuples = round(_rate(facts, rate_per_s) * PACE_S)
    costs = core.compositor.costs(facts.share_key, facts.kind)
    job_ns: float | None = None
    if _has_company(core, facts, cls):
        job_ns = costs.margin_ns(tuples)
    elif facts.kind == "filter":  # its cost is known well enough
        job_ns = costs.solo_ns(tuples)
    return Demand(
        by_class=_by_class(core, rate_per_s),
        priorities=priorities,
        cls=classes[cls].name,
        workers=state.workers,
        express=state.express,
        urgent=frozenset(name for name, priority in priorities.items() if priority == highest),
        tuples=tuples,
        job_ns=job_ns,
        fixed_ns=costs.solo_ns(0),
    )


def _by_class(core: Core, rate_per_s: Callable[[str], float]) -> dict[str, float]:
    """The threads that each class keeps busy; queries that are held ask for nothing."""
    classes, queries = core.state.network.classes, core.queries
    demand = {c.name: 0.0 for c in classes}
    for cell in core.compositor.cells():
        boxes = [b for b in cell.queries if not queries.status[b].held]
        rate = _rate(queries.facts[boxes[0]], rate_per_s) if boxes else 0.0
        if rate:
            every_s = max(PACE_S, cell.slide_ns / NS_PER_S)
            job_ns = cell.cost.of(rate * every_s, len(boxes) - 1)
            name = classes[core.state.query_class[boxes[0]]].name
            demand[name] += job_ns / NS_PER_S / every_s
    return demand


def _rate(facts: QueryFacts, rate_per_s: Callable[[str], float]) -> float:
    return sum(rate_per_s(stream) for stream in facts.reads)


def _has_company(core: Core, facts: QueryFacts, cls: int) -> bool:
    return facts.share_key is not None and any(
        other.share_key == facts.share_key
        and core.state.query_class[b] == cls
        and not core.queries.status[b].held
        for b, other in enumerate(core.queries.facts)
    )
