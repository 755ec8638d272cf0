"""A start is compared with the run directory before it changes anything there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from daybreak.engine.inbox import Inbox
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.limits import Limits
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.jobs.inboxes import first_row, inbox_of
from daybreak.spark.jobs.panes import kept_schema, way_of
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import file_name, rows_kept
from daybreak.spark.log.event_time import NEVER
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import NO_BATCH, Batches, Declaration, Progress
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.undeclared import Undeclared, time_left_ns
from daybreak.spark.sql.forms import Form, OverState, OverWindows, PanedAggregate


@dataclass(frozen=True)
class Acceptance:
    """What one start declares, and what earlier ones have left."""

    application: CheckedApplication
    log: CommitLog
    store: SegmentStore
    #: Where late rows are kept.
    late: Path
    #: Queries that restart at the next segment.
    reset: tuple[str, ...]

    def refuse(self) -> None:
        """``ConfigError`` if this start may not be; nothing has changed then."""
        checked = self.application.checked
        for name in self.reset:
            if name not in checked:
                remedy = suggestion(name, checked)
                raise ConfigError("--reset-query", f"unknown query {name!r}", remedy)
        self.log.refuse_changed(self._declarations(), self.reset)
        self._refuse_unreadable()
        for name in self.application.windows():
            rows_kept(self.late / file_name(name))

    def accept(
        self, forget: tuple[str, ...], limits: Limits, emit: Emit
    ) -> tuple[Undeclared, dict[str, str]]:
        """Gives queries their places; which of those that were left out keep theirs, which not.

        The latter with the reason.
        """
        checked, now_ns = self.application.checked, CLOCK.now_ns()
        left = time_left_ns(self.log, checked, limits.keep_undeclared_ns, now_ns)
        why = f"not declared for {limits.keep_undeclared}"
        forgotten = {name: why for name, ns in left.items() if ns <= 0}
        forgotten |= dict.fromkeys(forget, "--forget")
        cursors = self.log.cursors()
        self.log.accept(self._declarations(), reset=self.reset, forget=forgotten, now_ns=now_ns)
        undeclared = Undeclared(
            self.log, self.store, emit, self.application.streams,
            {name: ns for name, ns in left.items() if name not in forgotten},
            now_ns, time.monotonic_ns(),
        )  # fmt: skip
        undeclared.remove_passed(stream for name, stream in cursors if name in forgotten)
        return undeclared, forgotten

    def inboxes(self) -> dict[str, Inbox]:
        """What was ingested before this start and not yet answered, by query."""
        cursors, progress = self.log.cursors(), self.log.progress()
        found: dict[str, Inbox] = {}
        for name, checked in self.application.checked.items():
            starts = {stream: cursors[name, stream] for stream in checked.reads}
            closed_us = progress[name].closed_us if name in progress else NEVER
            found[name] = inbox_of(checked.form, self.store, starts, closed_us)
        return found

    def _declarations(self) -> list[Declaration]:
        application = self.application
        return [
            Declaration(
                name,
                application.fingerprints[name],
                {s: first_row(checked.form, self.store, s) for s in checked.reads},
                unstarted(checked.form),
                application.specs[name].place,
            )
            for name, checked in application.checked.items()
        ]

    def _refuse_unreadable(self) -> None:
        """Nothing starts while a query needs rows that cannot be read as their stream is declared.

        Their schema was another, and is not one that the present schema only widens.
        """
        continued = self.application.checked.keys() - set(self.reset)
        for (query, stream), cursor in self.log.cursors().items():
            why = self.store.unreadable(stream, cursor)
            if why is not None and query in continued:
                raise ConfigError(
                    f"stream {stream!r}",
                    f"its schema has changed and query {query!r} still needs rows of the old one: "
                    f"{why}",
                    "declare the old schema until they are read, or restart the query with "
                    f"--reset-query {query}",
                )
        partials = Partials(self.log)
        for name, checked in self.application.checked.items():
            if isinstance(checked.form, PanedAggregate) and name in continued:
                partials.tables(name, kept_schema(checked.form.panes))


def unstarted(form: Form) -> Progress | Batches | None:
    """The progress of a query that has emitted no window or micro-batch; None of other queries."""
    match form:
        case PanedAggregate(panes=panes):
            return Progress(NEVER, way_of(panes))
        case OverWindows():
            return Progress(NEVER, "")
        case OverState():
            return Batches(NO_BATCH)
    return None
