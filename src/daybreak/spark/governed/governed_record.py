"""The record of a governor: what its report is made of, in memory or in a run directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from daybreak.engine.inbox import Waiting
from daybreak.engine.state import JobState
from daybreak.engine.view import SystemFigures
from daybreak.model.network import Network
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder, RecordParts
from daybreak.runtime.report import RunReport
from daybreak.spark.governed.backlog import is_asked
from daybreak.spark.governed.roster import Roster

#: What a report states about a governor beside its figures.
About = Callable[[], Mapping[str, object]]
#: Without a run directory, the record of response times is kept for so long.
KEPT_S = 6 * 3600.0
#: What was recorded goes to disk this often.
PART_S = 10.0
#: Of what waits for a query, at most so many items are recorded: beyond, neighbours are joined.
MOST_WAITING = 100


class GovernedRecord:
    """In memory, for a governor without a run directory: the last hours.

    The loop's thread uses it.
    """

    def __init__(self, roster: Roster, workers: int, about: About) -> None:
        self._roster = roster
        self._workers = workers
        self._about = about
        self._taken_s = time.monotonic()
        self._report: RunReport | None = None

    def tick(self) -> None:
        """Called now and then, when the engine has heard of everything."""
        if self._roster.accounts is not None and self._is_older_than(KEPT_S):
            self._roster.accounts.monitor.take()

    def take(self) -> None:
        """What ``read`` then gives."""
        monitor, state = self._figures()
        self._report = monitor.report(state, self._now_ns(), self._workers + 1, self._about())

    def read(self) -> RunReport:
        """The record as it was last taken. Any thread may call it."""
        assert self._report is not None
        return self._report

    def _is_older_than(self, seconds: float) -> bool:
        """Whether the last time was so long ago; then it is now."""
        now_s = time.monotonic()
        if now_s - self._taken_s < seconds:
            return False
        self._taken_s = now_s
        return True

    def _now_ns(self) -> int:
        return CLOCK.now_ns() - self._roster.start_ns

    def _figures(self) -> tuple[Monitor, SystemFigures]:
        """What was measured; before the first query comes, nothing."""
        roster = self._roster
        if roster.engine is None or roster.accounts is None:
            declared = roster.book.declared.values()
            nothing = Network(streams=[], boxes=[], queries=[], classes=declared)
            return Monitor(nothing), JobState(nothing, self._workers)
        return roster.accounts.monitor, roster.engine.look()


class RecordOnDisk(GovernedRecord):
    """In parts: the loop's thread takes what was measured, another thread writes it.

    The head of the report is made when a part is taken, so that both show the same instant.
    """

    def __init__(self, parts: RecordParts, roster: Roster, workers: int, about: About) -> None:
        super().__init__(roster, workers, about)
        self._parts = parts
        self._begun = False
        self._recorder = roster.recorder = Recorder()
        self._head: RunReport | None = None
        self._unwritten = False
        self._writing = threading.RLock()

    def tick(self) -> None:
        accounts = self._roster.accounts
        if accounts is None:
            return
        worked = accounts.monitor.work_ns > 0
        # The first micro-batch is there to read soon.
        if self._is_older_than(0.0 if worked and not self._begun else PART_S):
            self._begun = worked
            self.take()

    def take(self) -> None:
        """Takes what was measured since the last time."""
        monitor, state = self._figures()
        now_ns = self._now_ns()
        monitor.sample(now_ns, state)
        about = {**self._about(), **what_replays_need(self._roster)}
        self._head = monitor.head(state, now_ns, self._workers + 1, about)
        self._parts.add({**monitor.take(), **self._recorder.take()})

    def write(self) -> None:
        """Writes what was taken. Any thread may call it."""
        with self._writing:
            self._unwritten = self._unwritten or self._parts.waiting
            if not self._unwritten:
                return
            # A part names queries that only a head of its time knows: after a crash between the
            # two, an earlier head could not be read with it.
            if (self._parts.folder / "report.json").exists():
                self._save_head()
            self._parts.write()
            self._save_head()
            self._unwritten = False

    def _save_head(self) -> None:
        assert self._head is not None  # made before its part
        about = {**self._head.manifest, "record_parts_dropped": self._parts.dropped}
        replace(self._head, manifest=about).save_head(self._parts.folder)

    def read(self) -> RunReport:
        with self._writing:  # nobody puts parts together meanwhile
            try:
                self.write()
            except OSError:  # no room: what is in memory is as good
                assert self._head is not None
                return self._head.with_series(self._parts.tables())
            return RunReport.load(self._parts.folder)


def what_replays_need(roster: Roster) -> dict[str, object]:
    """How the queries ran, and what waits: Spark owns the offsets, so nothing else shows it."""
    facts = () if roster.engine is None else roster.engine.view.facts
    return {
        "reads": {f.name: list(f.reads) for f in facts},
        "kin": {},
        "windows": [],
        "job_kinds": {f.name: f.kind for f in facts},
        "slides_ns": {},
        "rider_bound_s": 0.0,
        "unit_rows": roster.unit_rows.as_json(),
        "waiting": what_waits(roster),
        "failed_batches": dict(roster.failed),
        "unseen": sorted(roster.unseen),
        "paced": sorted(roster.paced),
    }


def what_waits(roster: Roster) -> dict[str, list[tuple[int, int]]]:
    """What each query has still to read: arrivals since the start of the record, and tuples."""
    if roster.engine is None:
        return {}
    begun: dict[int, list[Waiting]] = {}
    for query in roster.by_box.values():
        if query.job is not None:
            order = query.job.order
            for group in order.started.groups[len(order.done) :]:
                begun.setdefault(group.boxes[0], []).extend(group.taken)
    found = {}
    for box, query in roster.by_box.items():
        if query.failed is None:
            inbox = roster.engine.waiting(box)
            items = [item for item in (*begun.get(box, ()), *inbox) if not is_asked(item)]
            if items:
                found[query.name] = joined(items, roster.start_ns)
    return found


def joined(items: Iterable[Waiting], start_ns: int) -> list[tuple[int, int]]:
    """In order of arrival; of many items, neighbours become one that arrived with the first."""
    ordered = sorted((item.arrival_ns - start_ns, item.tuples) for item in items)
    step = -(-len(ordered) // MOST_WAITING)
    parts = (ordered[at : at + step] for at in range(0, len(ordered), step))
    return [(part[0][0], sum(tuples for _, tuples in part)) for part in parts]
