"""Replays a recorded Spark run in virtual time, under the same policy or another.

The record holds every arrival and every job. The arrivals come again at their instants, jobs cost
what such jobs were measured to cost (``jobcosts``), queries ride along by the engine's own rules,
and of each query the tuples pass that passed, as far as its jobs tell. As in the record, every
answered tuple counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.core import Settings
from daybreak.engine.drive import NEVER
from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Waiting
from daybreak.engine.lifecycle import SHED
from daybreak.engine.state import JobState
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.report import RunReport
from daybreak.simulation.governed_replay import (
    Arrived,
    answered,
    governed_caveats,
    is_governed,
    left_waiting,
    unit_tuples,
    with_data,
)
from daybreak.simulation.jobcosts import JobCosts
from daybreak.simulation.jobs import Delivery, Made, ReplayedQueries, VirtualDriver
from daybreak.simulation.recorded import RecordedRun
from daybreak.simulation.simulate import collector_paused
from daybreak.version import __version__

#: Deliveries that are replayed at most: tuples that arrived together, once for each query.
MOST = 500_000


@dataclass(frozen=True)
class Replay:
    """A stretch of a recorded run as a model."""

    #: What was recorded in it.
    recorded: RunReport
    network: Network
    queries: ReplayedQueries
    deliveries: list[Delivery]
    #: Where the stretch lies in the run.
    from_ns: int
    end_ns: int
    #: Whether all that came in the stretch was answered in it: then replays answer all, too.
    drained: bool
    #: Deliveries that were recorded in all.
    known: int
    bound_ns: int
    decide_ns: int
    #: What operators changed in the stretch and replays change again.
    changes: tuple[Made, ...]
    caveats: tuple[str, ...]

    @classmethod
    def load(cls, folder: Path, *, last_s: float | None = None, most: int = MOST) -> Replay:
        """The newest stretch of a run, at most ``last_s`` long and of at most ``most`` deliveries.

        Of a run that goes on, what it has recorded so far.
        """
        record = RecordedRun.load(folder)
        about, report = record.report.manifest, record.report
        network = _network(report)
        share_keys = about.get("kin") or _seen_together(record)
        windows = [n in about.get("windows", ()) for n in report.queries]
        governed = is_governed(record)
        # What Spark's sources hold for a governed query is known by its answers alone.
        own = [True] * len(windows) if governed else windows
        arrivals = answered(record) if governed else _read(record, network, windows)
        from_ns, known = _begin(record, arrivals, last_s, most)
        kinds: list[Hashable] = [
            (share_keys[n], c) if n in share_keys else n
            for n, c in zip(report.queries, report.query_class, strict=True)
        ]
        jobs = with_data(record) if governed else record.jobs
        costs = JobCosts(jobs, dict(zip(report.queries, kinds, strict=True)))
        deliveries = _deliveries(record, network, own, from_ns)
        recorded = record.stretch(from_ns, record.end_ns)
        asked = sum(len(d.boxes) * d.item.tuples for d in deliveries)
        return cls(
            recorded=recorded,
            network=network,
            queries=ReplayedQueries(
                share_keys=[share_keys.get(n) for n in report.queries],
                windows=windows,
                kinds=kinds,
                costs=costs.of.__getitem__,
                passing=_passing(record, deliveries, from_ns),
                job_kinds=[about.get("job_kinds", {}).get(n) for n in report.queries],
                slides_ns=[about.get("slides_ns", {}).get(n, 0) for n in report.queries],
                unit_tuples=unit_tuples(record) if governed else (),
            ),
            deliveries=deliveries,
            from_ns=from_ns,
            end_ns=record.end_ns,
            drained=recorded.overall().count == asked,
            known=known,
            bound_ns=round(float(about.get("rider_bound_s", 0.1)) * 1e9),
            decide_ns=_decide_ns(report),
            changes=tuple(_changes(record, network, from_ns)),
            caveats=(*_caveats(record, windows, from_ns), *governed_caveats(record)),
        )

    def changed(
        self,
        *,
        workers: int | None = None,
        made: Made | None = None,
        without: int | None = None,
    ) -> Replay:
        """The same stretch with other workers, an operator's change, or without a query's input."""
        recorded, changes, deliveries = self.recorded, self.changes, self.deliveries
        if workers is not None:
            recorded = replace(recorded, manifest={**recorded.manifest, "workers": workers})
        if made is not None:
            changes = (made, *changes)
        if without is not None:
            left = (d._replace(boxes=[b for b in d.boxes if b != without]) for d in deliveries)
            deliveries = [d for d in left if d.boxes]
        return replace(self, recorded=recorded, changes=changes, deliveries=deliveries)

    def run(
        self,
        policy: BasePolicy,
        seed: int = 1,
        *,
        most_jobs: int = 4 * MOST,
        recorder: Recorder | None = None,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> RunReport:
        """What the recorded arrivals would have met under this policy.

        Up to the same instant, or where all was answered in the record, until all is answered. It
        ends early if it takes more jobs than ``most_jobs``; ``spent.wall_ns`` tells when.
        """
        span_ns = self.end_ns - self.from_ns
        about = self.recorded.manifest
        express = int(about.get("express", 0))  # records of old do not tell
        shedding = about.get("shedding")
        state = JobState(self.network, int(about["workers"]), express=express)
        for change in reversed(self.changes):  # as it was before the first of them
            change.undo(state)
        engine = Engine(
            state,
            self.queries.facts(self.network),
            self.queries.inboxes(),
            policy,
            Settings(
                seed=seed,
                rider_bound_ns=self.bound_ns,
                shedding=None if shedding is None else SheddingParams(**shedding),
                view_every_ns=NEVER,  # has no reader meanwhile
            ),
        )  # fmt: skip
        monitor = Monitor(self.network, sample_every_ns=max(span_ns // 200, 1))
        accounts = Accounts(engine, monitor, recorder)
        driver = VirtualDriver(
            engine, accounts, self.queries, self.deliveries,
            end_ns=NEVER - 1 if self.drained else span_ns, decide_ns=self.decide_ns,
            changes=self.changes, most_jobs=most_jobs, progress=progress,
        )  # fmt: skip
        with collector_paused():
            driver.run()
        kept = (
            "pipeline", "reads", "kin", "windows", "job_kinds", "slides_ns", "express",
            "rider_bound_s", "shedding", "changes", "unit_rows",
        )  # fmt: skip
        manifest = {
            "daybreak": __version__,
            "world": "replay",
            **engine.view.policy.report(0),
            **{key: value for key, value in about.items() if key in kept},
        }
        end_ns = driver.now_ns() if driver.jobs_left <= 0 else max(span_ns, driver.now_ns())
        return monitor.report(engine.look(), end_ns, state.threads + 1, manifest)


def _decide_ns(report: RunReport) -> int:
    """What a decision took; a governor, which also listens to its gates, records it apart."""
    about = report.manifest
    mean_ns = report.spent.scheduling_ns // max(1, int(about["decisions"]))
    return int(about.get("decide_ns", mean_ns))


def _network(report: RunReport) -> Network:
    reads = report.manifest["reads"]
    queries = zip(report.queries, report.query_class, report.qos, report.weights, strict=True)
    return Network(
        streams=[Stream(name=s) for s in sorted({s for r in reads.values() for s in r})],
        boxes=[Box(name=n, inputs=tuple(reads[n]), kind="filter") for n in report.queries],
        queries=[
            Query(name=n, output=n, cls=report.classes[c], qos=g, weight=w)
            for n, c, g, w in queries
        ],
        classes=[
            QueryClass(name=n, priority=p)
            for n, p in zip(report.classes, report.priorities, strict=True)
        ],
        as_listed=True,
    )


def _known(change: Mapping[str, Any]) -> bool:
    """Whether replays can make this change, too; older records do not say what was before."""
    kinds = ("class-priority", "query-class", "weight")
    return change["what"] in kinds and change.get("was") is not None


def _for_later(change: Mapping[str, Any]) -> bool:
    """Whether it is a class for queries that a governor did not know yet."""
    return change["what"] == "query-class" and change.get("was", "") is None


def _changes(record: RecordedRun, network: Network, from_ns: int) -> Iterator[Made]:
    for change in record.report.manifest.get("changes", ()):
        at_ns = round(float(change["at_s"]) * 1e9)
        if not _known(change) or at_ns < from_ns:
            continue
        what, was, now = change["what"], change["was"], change["value"]
        if what == "query-class":
            was, now = network.class_index[was], network.class_index[now]
        known = network.class_index if what == "class-priority" else network.query_index
        yield Made(at_ns - from_ns, what, known[change["subject"]], was, now)


def _seen_together(record: RecordedRun) -> dict[str, str]:
    """For records that do not say who may run along: who did."""
    reads = record.report.manifest["reads"]
    return {n: reads[n][0] for j in record.jobs if len(j.queries) > 1 for n in j.queries}


def _read(record: RecordedRun, network: Network, windows: list[bool]) -> Arrived:
    """When tuples arrived, and for how many queries."""
    readers = _readers(network, windows)
    weights = [len(readers.get(s, ())) for s in record.stream]
    return record.at_ns, np.array(weights, dtype=np.int64)


def _begin(
    record: RecordedRun, arrivals: Arrived, last_s: float | None, most: int
) -> tuple[int, int]:
    """Where the stretch begins, and how many deliveries the whole record has."""
    at_ns, weights = arrivals
    begin = record.from_ns
    if last_s is not None:
        begin = max(begin, record.end_ns - round(last_s * 1e9))
    later = np.cumsum(weights[::-1])[::-1]  # deliveries from each arrival on
    over = int(np.searchsorted(-later, -most, side="left"))
    if over and over < len(later):
        begin = max(begin, int(at_ns[over]))
    elif over:
        begin = max(begin, record.end_ns)
    return begin, int(weights.sum())


def _readers(network: Network, windows: list[bool]) -> dict[str, list[int]]:
    """The queries that take a stream's tuples as they arrive."""
    return {
        stream.name: [b for b in network.stream_boxes[s] if not windows[b]]
        for s, stream in enumerate(network.streams)
    }


def _deliveries(
    record: RecordedRun, network: Network, own: list[bool], from_ns: int
) -> list[Delivery]:
    """What became pending in the stretch, and what waited when it began.

    ``own``: queries that are told apart by their answers.
    """
    found = [*_own(record, own, from_ns), *left_waiting(record, from_ns)]
    readers = _readers(network, own)
    spans = [record.present(q.name) for q in network.queries]
    always = all(span == (0, record.end_ns) for span in spans)
    first = int(np.searchsorted(record.at_ns, from_ns))
    arrivals = zip(record.at_ns[first:].tolist(), record.stream[first:],
                   record.tuples[first:].tolist(), strict=True)  # fmt: skip
    # Numbered over all streams: a replay reads no rows, so any order of segments will do.
    for seq, (at_ns, stream, tuples) in enumerate(arrivals):
        boxes = readers.get(stream, [])
        if not always:
            boxes = [b for b in boxes if spans[b][0] <= at_ns < spans[b][1]]
        if boxes and tuples:
            at = at_ns - from_ns
            found.append(Delivery(at, boxes, Waiting(at, stream, tuples, seq)))
    found.sort(key=lambda d: d.at_ns)
    return found


def _own(record: RecordedRun, own: list[bool], from_ns: int) -> Iterator[Delivery]:
    """What single queries had to answer: windows that closed, and what waited at the beginning.

    Both are known by their answers; so is everything that governed queries read.
    """
    o = record.report.outputs
    alone = np.array(own, dtype=np.bool_)[o.query]
    mine = (o.departure_ns >= from_ns) & (alone | (o.arrival_ns < from_ns))
    columns = (o.query[mine], o.arrival_ns[mine] - from_ns, o.tuples[mine])
    for query, arrival_ns, tuples in zip(*(c.tolist() for c in columns), strict=True):
        yield Delivery(max(0, arrival_ns), (query,), Waiting(arrival_ns, "", tuples, -1))


def _passing(
    record: RecordedRun, deliveries: list[Delivery], from_ns: int
) -> list[NDArray[np.int64]]:
    """The places of tuples that give a row, by query, in the order in which tuples come.

    A job that gave r rows for n tuples puts them at even distances into its n places; beyond the
    last job, rows go on as before.
    """
    names = {name: q for q, name in enumerate(record.report.queries)}
    tuples: list[list[int]] = [[] for _ in names]
    rows: list[list[int]] = [[] for _ in names]
    for job in record.jobs:
        if job.committed_ns >= from_ns:
            for name, given in zip(job.queries, job.rows, strict=True):
                tuples[names[name]].append(job.tuples)
                rows[names[name]].append(min(given, job.tuples))
    coming = [0] * len(names)
    for delivery in deliveries:
        for box in delivery.boxes:
            coming[box] += delivery.item.tuples
    for q, more in enumerate(coming):
        seen = sum(tuples[q])
        if more > seen:
            tuples[q].append(more - seen)
            rows[q].append(round((more - seen) * sum(rows[q]) / seen) if seen else more)
    return [_spread(np.array(n), np.array(r)) for n, r in zip(tuples, rows, strict=True)]


def _spread(tuples: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(tuples):
        return np.empty(0, np.int64)
    begins = np.cumsum(tuples) - tuples
    ends = np.cumsum(rows)
    nth = np.arange(ends[-1]) - np.repeat(ends - rows, rows)
    within = ((2 * nth + 1) * np.repeat(tuples, rows)) // np.repeat(2 * rows, rows)
    places: NDArray[np.int64] = np.repeat(begins, rows) + within
    return places


def _caveats(record: RecordedRun, windows: list[bool], from_ns: int) -> Iterator[str]:
    """What happened in the run and is not in the model."""
    about: Mapping[str, Any] = record.report.manifest
    made = {"registered", "dropped"}
    changes = about.get("changes", ())
    done = [c for c in changes if not (c["what"] in made or _known(c) or _for_later(c))]
    others = sorted({str(c["what"]) for c in done})
    if others:
        yield f"what was changed on the way is not, in replays: {', '.join(others)}"
    if from_ns > record.from_ns:
        yield (
            f"the first {from_ns / 1e9:.3g} s are left out; of what waited then, only what was "
            "answered later is known"
        )
    if about.get("failures"):
        yield f"queries that failed cost nothing here: {', '.join(sorted(about['failures']))}"
    skipped = sorted(name for name, lost in about.get("lost", {}).items() if lost.keys() - {SHED})
    if skipped:  # what was shed is shed again
        yield f"rows that were given up are answered here: {', '.join(skipped)}"
    if any(windows):
        yield "windows close when they did, and only those that were answered are known"
    views = {s for r in about["reads"].values() for s in r if f"view {s}" in about["reads"]}
    if views:
        yield f"rows of views arrive when they did: {', '.join(sorted(views))}"
