"""Workloads for the policy ``planned``: queries of unequal importance, with jobs dear to start.

Costs are those of Spark jobs on two local cores, rounded: a filter's job starts in 10 ms, a join's
or a window's in about 100, and then every tuple takes a fraction of a microsecond. Queries of one
class that share their input run as one job (a *cell*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.costs import Kind
from daybreak.engine.inbox import Waiting, closing
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import JobCost
from daybreak.policies.parts.planned.period_bound import Offer, bound_utility
from daybreak.simulation.jobs import Delivery
from daybreak.simulation.randomness import generator_for

STREAM = "readings"
#: Tuples arrive in segments, so far apart.
GRAIN_S = 0.05


class Declared(NamedTuple):
    """One query: its class, what its jobs cost, and with whom it may run."""

    name: str
    cls: str
    cost: JobCost
    #: Queries of one class with the same name here run together; empty: alone.
    together: str = ""
    slide_s: float = 0.0
    kind: Kind = "filter"


@dataclass(frozen=True)
class Workload:
    """Queries over one stream."""

    name: str
    classes: tuple[QueryClass, ...]
    queries: tuple[Declared, ...]
    #: How far apart tuples arrive that arrive together.
    grain_s: float = GRAIN_S

    @property
    def network(self) -> Network:
        return Network(
            streams=[Stream(name=STREAM)],
            boxes=[Box(name=q.name, inputs=(STREAM,), kind="filter") for q in self.queries],
            queries=[Query(name=q.name, output=q.name, cls=q.cls) for q in self.queries],
            classes=self.classes,
            as_listed=True,
        )

    @property
    def cells(self) -> list[list[int]]:
        """Which queries run together, by index."""
        found: dict[tuple[str, str], list[int]] = {}
        for i, q in enumerate(self.queries):
            found.setdefault((q.cls, q.together or q.name), []).append(i)
        return list(found.values())

    @property
    def per_tuple_s(self) -> float:
        """Work that one tuple of the stream causes in all, in the longest of trains."""
        each_ns = 0.0
        for cell in self.cells:
            cost = self.queries[cell[0]].cost
            each_ns += cost.per_tuple_ns + (len(cell) - 1) * cost.per_rider_tuple_ns
        return each_ns / NS_PER_S

    def rate_per_s(self, load: float, workers: int) -> float:
        """The rate at which infinitely long trains would use this share of the workers."""
        return load * workers / self.per_tuple_s

    def bound(self, load: float, workers: int) -> float:
        """The most that any schedule of this can yield."""
        by_name = {c.name: c for c in self.classes}
        offers = []
        for cell in self.cells:
            first = self.queries[cell[0]]
            cls = by_name[first.cls]
            assert cls.qos is not None
            worth = ((cls.qos, cls.priority),) * len(cell)
            rate_per_s = self.rate_per_s(load, workers)
            together = max(rate_per_s * self.grain_s, 1.0)
            offers.append(Offer(rate_per_s, first.cost, worth, first.slide_s, together))
        return bound_utility(offers, workers)

    def changed(self, change: Callable[[Declared], Declared], name: str) -> Workload:
        return replace(self, name=name, queries=tuple(change(q) for q in self.queries))

    def deliveries(
        self, rate_per_s: float, seconds: float, seed: int,
        factor: Callable[[float], float] = lambda _s: 1.0,
    ) -> list[Delivery]:  # fmt: skip
        """What becomes pending, and when; the rate is multiplied by the factor at each time."""
        random = generator_for(seed, f"arrivals/{self.name}")
        steps = round(seconds / self.grain_s)
        at_s = (np.arange(steps) + 1) * self.grain_s
        means = rate_per_s * self.grain_s * np.array([factor(float(t)) for t in at_s])
        counts = random.poisson(means)
        return sorted(
            [*self._rows(at_s.tolist(), counts.tolist()), *self._windows(at_s, counts)],
            key=lambda d: d.at_ns,
        )

    def _rows(self, at_s: Sequence[float], counts: Sequence[int]) -> Iterable[Delivery]:
        boxes = [i for i, q in enumerate(self.queries) if not q.slide_s]
        for seq, (t, n) in enumerate(zip(at_s, counts, strict=True)):
            if n and boxes:
                at_ns = round(t * NS_PER_S)
                yield Delivery(at_ns, boxes, Waiting(at_ns, STREAM, n, seq))

    def _windows(
        self, at_s: NDArray[np.floating[Any]], counts: NDArray[np.int64]
    ) -> Iterable[Delivery]:  # fmt: skip
        """Windows close a moment after their end; each stands for the rows that came in it."""
        for slide_s in sorted({q.slide_s for q in self.queries} - {0.0}):
            boxes = [i for i, q in enumerate(self.queries) if q.slide_s == slide_s]
            which = np.ceil(at_s / slide_s - 1e-9).astype(int)
            for nth, rows in enumerate(np.bincount(which, counts)):
                end_s = nth * slide_s
                if rows and end_s <= at_s[-1]:
                    begin_us, end_us = (round(x * 1e6) for x in (end_s - slide_s, end_s))
                    at_ns = end_us * 1000
                    item = closing(at_ns, STREAM, int(rows), begin_us, end_us)
                    yield Delivery(at_ns, boxes, item)


def cost(fixed_ms: float, tuple_us: float, rider_ms: float = 0.0, rider_us: float = 0.0) -> JobCost:
    return JobCost(fixed_ms * 1e6, tuple_us * 1e3, rider_ms * 1e6, rider_us * 1e3)


FILTER = cost(9.0, 0.30, 0.05, 0.02)
WINDOW = cost(80.0, 0.50, 5.0, 0.05)
JOIN = cost(110.0, 0.80)
TABLE_JOIN = cost(90.0, 0.40, 4.0, 0.05)
COSTLY = cost(12.0, 4.0)


def classes(critical_s: float = 1.0) -> tuple[QueryClass, ...]:
    return (
        QueryClass(name="critical", priority=60, qos=QoSGraph.deadline(critical_s)),
        QueryClass(name="normal", priority=30, qos=QoSGraph.deadline(2.0, 5.0)),
        QueryClass(name="archive", priority=10, qos=QoSGraph.deadline(10.0, 30.0)),
    )


def mixed(closing_windows: bool = True) -> Workload:
    """60 queries in 19 cells, as in ``benchmarks/mixed.py``.

    Without closing windows, rows of windows become pending one by one.
    """
    names = ("critical", "normal", "archive")
    found = [
        Declared(f"filter-{i:02d}", names[i % 3], _slower(FILTER, 0.5 * (i % 3)), "filters")
        for i in range(36)
    ]
    for i in range(10):
        cls, slide = names[1 + (i + 1) % 2], 2.0 + i % 3
        one = Declared(f"average-{i:02d}", cls, WINDOW, f"averages-{slide:g}", slide, "window")
        found.append(one)
    for i in range(6):
        cls = names[1 + (i + 1) % 2]
        found.append(
            Declared(f"neighbours-{i:02d}", cls, _slower(JOIN, 2.0 * i), "", 2.0, "window")
        )
    for i in range(6):
        cls = names[1 - i % 2]
        found.append(Declared(f"named-{i:02d}", cls, TABLE_JOIN, "named", 0.0, "job"))
    found.append(Declared("costly", "archive", COSTLY, "", 0.0, "job"))
    found.append(Declared("alone", "normal", FILTER))
    whole = Workload("mixed", classes(), tuple(found))
    if closing_windows:
        return whole
    return whole.changed(lambda q: q._replace(slide_s=0.0), "mixed, rows of windows one by one")


def wildfire() -> Workload:
    """The queries of ``examples/wildfire.py``: 12 alarms, 24 watches, windows and an archive."""
    found: list[Declared] = []
    for d in range(12):
        found.append(Declared(f"fire-{d}", "alarm", FILTER, "filters"))
        found.append(Declared(f"danger-{d}", "watch", FILTER, "filters"))
        found.append(Declared(f"windy-{d}", "watch", FILTER, "filters"))
    found.append(Declared("neighbours", "alarm", JOIN, "", 1.0, "window"))
    found.append(Declared("averages-kept", "archive", WINDOW, "averages", 2.0, "window"))
    found.append(Declared("warm-kept", "archive", WINDOW, "averages", 2.0, "window"))
    found.append(Declared("heat", "watch", WINDOW, "averages", 2.0, "window"))
    sealed = cost(12.0, 1.2, 1.0, 0.3)
    for season in ("frost", "mild", "hot"):
        found.append(Declared(f"archive-{season}", "archive", sealed, "archive", 0.0, "job"))
    declared = (
        QueryClass(name="alarm", priority=60, qos=QoSGraph.deadline(0.5, 1.5)),
        QueryClass(name="watch", priority=30, qos=QoSGraph.deadline(2.0, 5.0)),
        QueryClass(name="archive", priority=10, qos=QoSGraph.deadline(10.0, 30.0)),
    )
    return Workload("wildfire", declared, tuple(found))


def _slower(one: JobCost, more_ms: float) -> JobCost:
    return one._replace(fixed_ns=one.fixed_ns + more_ms * 1e6)


#: Rows of a file, and what stateful queries of Spark take to start and per row, as measured by
#: ``benchmarks/governed.py``: duplicates removed, running counts, joins of a stream with itself.
FILE_ROWS = 1000
DISTINCT, COUNTS, SELF_JOIN = cost(140.0, 15.0), cost(190.0, 15.0), cost(370.0, 45.0)


def files(every_s: float) -> Workload:
    """50 queries that run alone, over files that come so far apart: governed queries."""
    graphs = {"critical": (60, 1.0, 5.0), "normal": (30, 5.0, 20.0), "archive": (10, 30.0, 120.0)}
    named = ["critical"] * 10 + ["normal"] * 20 + ["archive"] * 20
    takes = [SELF_JOIN if i % 5 == 4 else COUNTS if i % 2 else DISTINCT for i in range(50)]
    return Workload(
        f"a file every {every_s:g} s",
        tuple(
            QueryClass(name=name, priority=priority, qos=QoSGraph.deadline(until_s, end_s))
            for name, (priority, until_s, end_s) in graphs.items()
        ),
        tuple(
            Declared(f"{cls}-{i:02d}", cls, one, kind="job")
            for i, (cls, one) in enumerate(zip(named, takes, strict=True))
        ),
        grain_s=every_s,
    )
