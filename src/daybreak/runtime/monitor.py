"""Collects what happens during a run; at the end it becomes a ``RunReport``."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.shedding import work_ahead_ns
from daybreak.engine.view import SystemFigures
from daybreak.model.network import Network
from daybreak.policies.base import Policy, Work
from daybreak.runtime.report import (
    BACKLOG_FILE,
    OUTPUTS_FILE,
    STALE_FILE,
    Backlog,
    Memory,
    Outputs,
    RunReport,
    TimeSpent,
)
from daybreak.runtime.staleness import Stale


class Monitor:
    """Counters and per-tuple records. One thread writes it."""

    def __init__(self, network: Network, sample_every_ns: int = 100_000_000) -> None:
        self.network = network
        self._arrivals = [array("q") for _ in network.queries]
        self._departures = [array("q") for _ in network.queries]
        #: How many tuples each entry stands for; left empty while each stands for one.
        self._tuples = [array("q") for _ in network.queries]
        #: The class each entry is charged to; left empty where queries keep theirs.
        self._classes = [array("h") for _ in network.queries]
        #: Query, begin and end of stale intervals, where results do not say them.
        self._stale: list[tuple[int, int, int]] = []
        self.decisions = 0
        self.scheduling_ns = 0
        self.call_ns = 0
        self.storage_ns = 0
        self.superbox_ns = 0
        self.work_ns = 0
        #: Jobs by the way they ran; only on Spark.
        self.ways: Counter[str] = Counter()
        self.effort = Work()
        self._sample_every_ns = sample_every_ns
        self.next_sample_ns = 0
        self._sampled_ns: list[int] = []
        self._backlog: list[NDArray[np.int64]] = []
        self._done_ns: list[int] = []
        self._offered_ns: list[float] = []
        self._shed_ns: list[float] = []
        #: Expected work on a tuple at each box, and the estimates it was worked out from.
        self._ahead_ns: NDArray[np.float64] = np.empty(0)
        self._ahead_for: tuple[list[float], list[float]] = ([], [])
        #: By input box, where any were.
        self._dropped: Counter[int] = Counter()
        self._weighed_ns = array("q")
        self._held_bytes = array("q")
        self._box_class: NDArray[np.int64] = np.empty(0, np.int64)
        self._box_class_for: list[int] = []
        self._tell: Callable[[int, Sequence[int], Sequence[int], int], None] | None = None

    def tell_of_results(self, policy: Policy) -> None:
        """From now on the policy hears of every result, if it wants to."""
        self._tell = policy.on_results if policy.watches_results else None

    def adopt(self, network: Network) -> None:
        """Goes on with a network that has further queries at its end."""
        for columns in self._columns():
            kind = "h" if columns is self._classes else "q"
            columns.extend(array(kind) for _ in network.queries[len(columns) :])
        self.network = network
        self._box_class_for = []

    def _columns(self) -> tuple[list[array[int]], ...]:
        return self._arrivals, self._departures, self._tuples, self._classes

    def invoked(self, scheduling_ns: int, work: Work) -> None:
        """The scheduler proper ran (not just took the next entry of its list)."""
        self.scheduling_ns += scheduling_ns
        effort = self.effort
        effort.invocations += work.invocations
        effort.scanned += work.scanned
        effort.compared += work.compared
        effort.evaluated += work.evaluated
        effort.queued += work.queued
        effort.buckets += work.buckets

    def left(self, query: int, arrivals: Sequence[int], departures: Sequence[int]) -> None:
        """Results of a query left: when their tuples had arrived, and when they left."""
        self._arrivals[query].extend(arrivals)
        self._departures[query].extend(departures)
        if self._tell is not None:
            self._tell(query, arrivals, departures, 1)

    def answered(
        self, query: int, arrival_ns: int, departure_ns: int, tuples: int, cls: int | None = None
    ) -> None:
        """A job answered so many tuples that had arrived together.

        ``cls`` is the query's class at this time, where it can change during the run.
        """
        if cls is not None:
            self._classes[query].append(cls)
        self._arrivals[query].append(arrival_ns)
        self._departures[query].append(departure_ns)
        self._tuples[query].append(tuples)
        if self._tell is not None:
            self._tell(query, (arrival_ns,), (departure_ns,), tuples)

    def was_stale(self, query: int, since_ns: int, until_ns: int) -> None:
        """Results of one job left together: the first of their tuples had waited since then."""
        self._stale.append((query, since_ns, until_ns))

    def dropped(self, box: int, tuples: int) -> None:
        """So many tuples were dropped at an input box (load shedding)."""
        self._dropped[box] += tuples

    def sample(self, now_ns: int, figures: SystemFigures, offered_ns: float | None = None) -> None:
        """Records the backlog, at most once per sampling period.

        ``offered_ns`` is the work of all tuples that have come in so far, dropped or not; left
        out, it is taken to be what was done, is queued or was dropped, without calls under way.
        """
        if self._box_class_for != list(figures.query_class):
            # A shared box counts in the highest class it serves.
            self._box_class_for = list(figures.query_class)
            self._box_class = np.array(
                [min(figures.query_class[q] for q in qs) for qs in self.network.box_queries]
            )
        estimates = list(figures.cost_ns), list(figures.selectivity)
        if self._ahead_for != estimates:
            self._ahead_for = estimates
            self._ahead_ns = np.array(work_ahead_ns(figures))
        pending = np.array(figures.pending, dtype=np.float64)
        classes = len(self.network.classes)
        backlog = np.bincount(self._box_class, weights=pending, minlength=classes)
        self._sampled_ns.append(now_ns)
        self._backlog.append(backlog.astype(np.int64))
        self._done_ns.append(sum(figures.work_ns))
        shed_ns = sum([n * self._ahead_ns[b] for b, n in self._dropped.items()])
        if offered_ns is None:
            offered_ns = self._done_ns[-1] + float(pending @ self._ahead_ns) + shed_ns
        self._offered_ns.append(offered_ns)
        self._shed_ns.append(shed_ns)
        self.next_sample_ns = now_ns - now_ns % self._sample_every_ns + self._sample_every_ns

    def weighed(self, now_ns: int, held_bytes: int) -> None:
        """The queues hold so much from now on; only called where memory was asked for."""
        self._weighed_ns.append(now_ns)
        self._held_bytes.append(held_bytes)

    def take(self) -> dict[str, Any]:
        """What was recorded since the last call, as Arrow tables by series; then it is gone here.

        For runs whose end is not in sight; their report is read from the series.
        """
        import pyarrow as pa

        queries = [q.name for q in self.network.queries]
        names = pa.array(queries, pa.string())
        classes = [c.name for c in self.network.classes]
        outputs = self._outputs().columns(queries, classes)
        backlog = self._waiting().columns(classes)
        for columns in self._columns():
            for column in columns:
                del column[:]
        for samples in (self._sampled_ns, self._backlog, self._done_ns, self._offered_ns):
            samples.clear()
        self._shed_ns.clear()
        of, since_ns, until_ns = np.array(self._stale, np.int64).reshape(-1, 3).T
        stale = {
            "query": pa.DictionaryArray.from_arrays(pa.array(of.astype(np.int32)), names),
            "since_ns": since_ns,
            "until_ns": until_ns,
        }
        self._stale.clear()
        return {
            OUTPUTS_FILE: pa.table(outputs),
            STALE_FILE: pa.table(stale),
            BACKLOG_FILE: pa.table(backlog),
        }

    def _outputs(self) -> Outputs:
        """The entries since the last ``take``."""
        counts = [len(a) for a in self._arrivals]
        tuples, classes = _joined(self._tuples), _joined(self._classes)
        return Outputs(
            query=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            arrival_ns=_joined(self._arrivals),
            departure_ns=_joined(self._departures),
            tuples=tuples if len(tuples) else np.ones(sum(counts), np.int64),
            # Also for a part without entries, so that all parts have the same columns.
            cls=classes.astype(np.int32) if len(classes) == sum(counts) else None,
        )

    def _waiting(self) -> Backlog:
        """The samples since the last ``take``."""
        return Backlog(
            at_ns=np.array(self._sampled_ns, dtype=np.int64),
            pending=np.array(self._backlog, np.int64).reshape(-1, len(self.network.classes)),
            done_ns=np.array(self._done_ns, dtype=np.float64),
            offered_ns=np.array(self._offered_ns, dtype=np.float64),
            shed_ns=np.array(self._shed_ns, dtype=np.float64),
        )

    def report(
        self,
        figures: SystemFigures,
        end_ns: int,
        threads: int,
        manifest: Mapping[str, Any],
        offered_ns: float | None = None,
    ) -> RunReport:
        """Freezes the run; ``threads`` is how many shared the time that was spent."""
        self.sample(end_ns, figures, offered_ns)
        answers = any(self._tuples)
        return replace(
            self.head(figures, end_ns, threads, manifest),
            outputs=self._outputs(),
            stale=Stale.of(self._stale) if answers else None,
            backlog=self._waiting(),
            memory=Memory(
                at_ns=np.array(self._weighed_ns, dtype=np.int64),
                held_bytes=np.array(self._held_bytes, dtype=np.int64),
            )
            if self._weighed_ns
            else None,
        )

    def head(
        self, figures: SystemFigures, end_ns: int, threads: int, manifest: Mapping[str, Any]
    ) -> RunReport:
        """The report without its series: what is known at this moment, and kept."""
        spent = TimeSpent(
            wall_ns=end_ns,
            total_ns=end_ns * threads,
            scheduling_ns=self.scheduling_ns,
            call_ns=self.call_ns,
            storage_ns=self.storage_ns,
            superbox_ns=self.superbox_ns,
            work_ns=self.work_ns,
        )
        nothing = np.empty(0, np.int64)
        return RunReport(
            manifest={**manifest, "workers": figures.workers, "decisions": self.decisions},
            classes=tuple(c.name for c in self.network.classes),
            priorities=tuple(figures.class_priority),
            queries=tuple(q.name for q in self.network.queries),
            query_class=tuple(figures.query_class),
            qos=tuple(q.qos for q in self.network.queries),
            weights=tuple(figures.query_weight),
            spent=spent,
            outputs=Outputs(nothing.astype(np.int32), nothing, nothing, nothing),
            backlog=Backlog(
                nothing, nothing.reshape(0, len(self.network.classes)), *[np.empty(0)] * 3
            ),
            dropped=tuple(
                sum([self._dropped[b] for b in boxes]) for boxes in self.network.query_boxes
            ),
            boxes={
                "box": [b.name for b in self.network.boxes],
                "calls": list(figures.calls),
                "tuples_in": list(figures.tuples_in),
                "tuples_out": list(figures.tuples_out),
                "work_ns": list(figures.work_ns),
                "cost_ns": list(figures.cost_ns),
                "selectivity": list(figures.selectivity),
                "pending": list(figures.pending),
            },
        )


def _joined(parts: list[array[int]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([np.empty(0, np.int64), *(np.array(p, dtype=np.int64) for p in parts)])
