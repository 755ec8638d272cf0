"""A start is compared with the run directory before it changes anything there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from daybreak.engine.inbox import Inbox
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.limits import Limits
from daybreak.runtime.eventlog import Say
from daybreak.spark.application import Prepared
from daybreak.spark.control.operations import unstarted
from daybreak.spark.jobs.panes import kept_schema
from daybreak.spark.jobs.window_inbox import replayed
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import file_name, rows_kept
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import Declaration
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.undeclared import Undeclared, time_left_ns


@dataclass(frozen=True)
class Acceptance:
    """What one start declares, and what earlier ones have left."""

    prepared: Prepared
    log: CommitLog
    store: SegmentStore
    #: Where late rows are kept.
    late: Path
    #: Queries that restart at the next segment.
    reset: tuple[str, ...]

    def refuse(self) -> None:
        """``ConfigError`` if this start may not be; nothing has changed then."""
        checked = self.prepared.checked
        for name in self.reset:
            if name not in checked:
                remedy = suggestion(name, checked)
                raise ConfigError("--reset-query", f"unknown query {name!r}", remedy)
        self.log.refuse_changed(self._declarations(), self.reset)
        self._refuse_unreadable()
        for name, query in checked.items():
            if query.windowing is not None:
                rows_kept(self.late / file_name(name))

    def accept(
        self, forget: tuple[str, ...], limits: Limits, say: Say
    ) -> tuple[Undeclared, dict[str, str]]:
        """Gives queries their places; which of those that were left out keep theirs, which not.

        The latter with the reason.
        """
        checked, now_ns = self.prepared.checked, time.time_ns()
        left = time_left_ns(self.log, checked, limits.keep_undeclared_ns, now_ns)
        why = f"not declared for {limits.keep_undeclared}"
        forgotten = {name: why for name, ns in left.items() if ns <= 0}
        forgotten |= dict.fromkeys(forget, "--forget")
        cursors = self.log.cursors()
        self.log.accept(self._declarations(), reset=self.reset, forget=forgotten, now_ns=now_ns)
        undeclared = Undeclared(
            self.log, self.store, say, self.prepared.streams,
            {name: ns for name, ns in left.items() if name not in forgotten},
            now_ns, time.monotonic_ns(),
        )  # fmt: skip
        undeclared.remove_passed(stream for name, stream in cursors if name in forgotten)
        return undeclared, forgotten

    def inboxes(self) -> dict[str, Inbox]:
        """What was ingested before this start and not yet answered, by query."""
        cursors, progress = self.log.cursors(), self.log.progress()
        found: dict[str, Inbox] = {}
        for name, checked in self.prepared.checked.items():
            starts = {stream: cursors[name, stream] for stream in checked.reads}
            if checked.windowing is not None:
                closed_us = progress[name].closed_us
                found[name] = replayed(checked.windowing, self.store, starts, closed_us)
            else:
                found[name] = Inbox.of(
                    item for s, start in starts.items() for item in self.store.waiting(s, start)
                )
        return found

    def _declarations(self) -> list[Declaration]:
        prepared = self.prepared
        return [
            Declaration(
                name,
                prepared.fingerprints[name],
                {stream: self.store.end(stream) for stream in checked.reads},
                unstarted(checked),
                prepared.specs[name].place,
            )
            for name, checked in prepared.checked.items()
        ]

    def _refuse_unreadable(self) -> None:
        """Nothing starts while a query needs rows that cannot be read as their stream is declared.

        Their schema was another, and is not one that the present schema only widens.
        """
        continued = self.prepared.checked.keys() - set(self.reset)
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
        for name, checked in self.prepared.checked.items():
            if checked.panes is not None and name in continued:
                partials.tables(name, kept_schema(checked.panes))
