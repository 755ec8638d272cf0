"""Admission control: what one more query would do to all others (class-based-thesis 2.1).

Pure arithmetic: loads in, a verdict with the predicted effect per class out. The effect is that
of a server whose classes go in order of priority, without interrupting a job: the wait of class k
is W0 / ((1 - s) (1 - s')), with s the load of the classes before it, s' that load and its own, and
W0 in proportion to the load of all (Cobham). Policies differ, but none has more time to give.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.engine.express import usable_threads


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
