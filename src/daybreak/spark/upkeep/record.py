"""The record of a run: what the report is made of, written in parts while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from daybreak.engine.engine import Engine
from daybreak.engine.view import EngineView
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.history import History
from daybreak.runtime.journal_file import JournalRecorder
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder, RecordParts
from daybreak.runtime.report import RunReport
from daybreak.runtime.standing import ChangeLog
from daybreak.runtime.why.book import WaitBook
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.ingest.parts import StreamWay
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.driver_rows import DriverRows
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.version import __version__


class Figures:
    """What is measured since the start."""

    def __init__(self, engine: Engine) -> None:
        self.start_ns = CLOCK.now_ns()
        self._engine = engine
        #: Notes the slowest answers, once the loop is there that has them explained.
        self.waits: WaitBook | None = None
        self.monitor = Monitor(engine.view.network)
        self.recorder = Recorder()
        self.history = History(lambda: engine.view, self.start_ns)

    @property
    def view(self) -> EngineView:
        """The engine's, as it is now."""
        return self._engine.view

    def take(self) -> dict[str, Any]:
        """What was measured since the last call, as Arrow tables by series."""
        waits = {} if self.waits is None else self.waits.take()
        return {**self.monitor.take(), **self.recorder.take(), **waits}

    @property
    def elapsed_s(self) -> float:
        return (CLOCK.now_ns() - self.start_ns) / 1e9


@dataclass(frozen=True)
class Manifest:
    """What a report states about a run beside its figures."""

    catalog: Catalog
    engine: Engine
    log: CommitLog
    dead_letters: DeadLetters
    late: LateRows
    changes: ChangeLog
    shedding: SheddingParams | None
    plans: Plans
    monitor: Monitor
    start_ns: int
    driver_rows: DriverRows
    backpressure: Backpressure
    ways: Mapping[str, StreamWay]

    def as_json(self) -> dict[str, object]:
        application, view = self.catalog.application, self.engine.view
        checked = application.checked.items()
        return {
            "daybreak": __version__,
            "world": "spark",
            "pipeline": application.name,
            "started_s": round(self.start_ns / 1e9, 3),
            **view.policy.report(self.start_ns),
            "spark": application.spark.version,
            "master": application.spark.sparkContext.master,
            "timezone": application.timezone,
            "reads": {n: list(c.reads) for n, c in checked},
            "kin": {n: c.form.share_key for n, c in checked if c.form.share_key is not None},
            "windows": list(application.windows()),
            "job_kinds": {f.name: f.kind for f in view.facts},
            "slides_ns": {f.name: f.slide_ns for f in view.facts},
            "express": view.express,
            "jobs": self.monitor.ways,
            "ordinary_because": self.plans.why(),
            "rows_through_driver": {
                "streams": self.driver_rows.streams,
                "queries": self.driver_rows.queries,
            },
            "rider_bound_s": self.engine.settings.rider_bound_ns / 1e9,
            "changes": self.changes.entries,
            **({"shedding": asdict(self.shedding)} if self.shedding else {}),
            "failures": view.parked,
            "ingest": {stream: way.shown for stream, way in self.ways.items()},
            "stopped_streams": dict(self.backpressure.stopped),
            "lost": self.log.losses(),
            "late": {name: n for name, n in self.late.counts.items() if n},
            "dead_letters": {
                s: n for s in application.streams if (n := self.dead_letters.count(s))
            },
        }


class RunRecord:
    """Hands figures from the loop's thread to a thread that writes them."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        figures: Figures,
        manifest: Manifest,
        journal: JournalRecorder,
    ) -> None:
        self.folder = folder
        self._journal = journal
        #: A part was taken since the journal's last one: they are written together.
        self._journal_due = False
        self._parts = RecordParts(folder, max_bytes)
        self._figures = figures
        self._manifest = manifest
        self._taken_s = time.monotonic()
        self._unwritten = False
        #: Why the folder lacks the end of the record; None while it does not.
        self.incomplete: str | None = None

    def take_if_older(self, seconds: float) -> bool:
        """Takes what was measured since the last time; on the loop's thread, or after it.

        Returns False where it takes nothing, because the last time, or the start of the run, is
        less than ``seconds`` ago.
        """
        if time.monotonic() - self._taken_s < seconds:
            return False
        self._taken_s = time.monotonic()
        self._parts.add(self._figures.take())
        self._journal_due = True
        return True

    @property
    def is_written(self) -> bool:
        """Whether all that was taken is on disk, with a head that names its queries."""
        return not (self._parts.waiting or self._unwritten)

    def write(self) -> None:
        """What was taken, and then the head: without it the series could not be read."""
        self._take_journal()
        self._unwritten = self._unwritten or self._parts.waiting
        if self._unwritten:
            # A part names queries that only a head of its time knows: after a crash between the
            # two, an earlier head could not be read with it.
            if (self.folder / "report.json").exists():
                self.head().save_head(self.folder)
            self._parts.write()
            self.head().save_head(self.folder)
            self._unwritten = False

    def _take_journal(self) -> None:
        """Encodes what the loop has added to the journal, on the thread that writes."""
        self._journal.collect()
        if self._journal_due:
            self._journal_due = False
            self._parts.add(self._journal.table())

    def finish(self) -> RunReport:
        """Writes the rest; when all threads have ended.

        Where there is no room for it the report is made of what is in memory, and ``incomplete``
        says why: a run ends on a full disk as on any other.
        """
        head = self.head()
        self._figures.monitor.sample(head.spent.wall_ns, self._figures.view)
        self.take_if_older(0)
        self._take_journal()
        try:
            self._parts.write()
            head.save_head(self.folder)
        except OSError as error:
            self.incomplete = str(error)
            return head.with_series(self._parts.tables())
        return RunReport.load(self.folder)

    def head(self) -> RunReport:
        """The report so far, without its series."""
        figures, manifest = self._figures, self._manifest.as_json()
        about: dict[str, object] = {**manifest, "record_parts_dropped": self._parts.dropped}
        if self._journal.stopped is not None:
            about["journal_stopped"] = self._journal.stopped
        wall_ns = round(figures.elapsed_s * 1e9)
        view = figures.view
        return figures.monitor.head(view, wall_ns, view.threads + 1, about)
