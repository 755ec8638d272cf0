"""Brings committed results to their sinks, at the start and while a run is under way.

Of each result the commit log knows how far it got: *staged*, or *moved* once its sink has taken it.
That note is not synced: it survives the process, and after a crash of the machine nothing that
was not synced is trusted. Small results are delivered from the log's content. A large one that is
not noted as moved, not staged and not at its place was tidied away by somebody: it is lost, and
recorded as such.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from daybreak.runtime.eventlog import Emit
from daybreak.spark.failures import one_line
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import sync_files
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.sink import Sink

#: Why rows of results are lost, as it is recorded: nowhere to be found, or given up by an operator
#: because the sink refused them.
MISSING, REFUSED = "missing", "refused"


class ResultMissing(Exception):
    """A committed result is nowhere to be found, and the log does not hold its content."""

    def __init__(self, file: CommittedFile) -> None:
        super().__init__(
            f"{file.path} is gone and was not delivered; its {file.rows} rows are lost"
        )


def bring(sink: Sink, file: CommittedFile) -> bool:
    """Delivers a result that is not known to be delivered; False if it was, after all.

    ``ResultMissing`` if somebody tidied away the only copy of it.
    """
    if sink.deliver(file):
        return True
    if sink.has(file):
        return False
    raise ResultMissing(file)


def forgo(log: CommitLog, sink: Sink, file: CommittedFile, error: Exception, emit: Emit) -> None:
    """Gives up a committed result that its sink does not take, so that later ones are delivered."""
    why = MISSING if isinstance(error, ResultMissing) else REFUSED
    log.lose(why, [file])
    sink.discard(file)
    emit(
        "gave-up", f"a result of {file.rows} rows ({why}: {one_line(error)})",
        level=logging.WARNING, query=file.query, rows=file.rows, why=why, job=file.job,
    )  # fmt: skip


@dataclass
class Recovery:
    """What ``recover`` found and did."""

    #: Delivered now, though committed by an earlier process.
    delivered: list[CommittedFile] = field(default_factory=list)
    #: Taken by their sinks before the crash.
    taken: list[CommittedFile] = field(default_factory=list)
    #: Committed for a query, or a sink of it, that is not here any more; kept where they are.
    orphaned: list[CommittedFile] = field(default_factory=list)
    #: Gone without having been delivered; recorded as lost.
    missing: list[CommittedFile] = field(default_factory=list)
    #: Queries whose sink would not take a committed file, with why; tried again later.
    refused: dict[str, Exception] = field(default_factory=dict)
    #: Staged, never committed: their rows are read again.
    removed: list[Path] = field(default_factory=list)


def recover(log: CommitLog, sinks: Mapping[str, Sink]) -> Recovery:
    """Finishes what an earlier process had decided and forgets what it had not.

    Call it before the first job. Only files of this log's own jobs are ever deleted.
    """
    outcome = Recovery()
    waiting: set[Path] = set()
    for file in log.undelivered():
        sink = sinks.get(file.query)
        if sink is None or not sink.owns(file):
            outcome.orphaned.append(file)
            continue
        try:
            _recover(log, sink, file, outcome)
        except Exception as error:
            outcome.refused.setdefault(file.query, error)
        if file.query in outcome.refused:
            waiting.add(file.path)
    for query in {file.query for file in outcome.delivered}:
        try:
            sinks[query].publish(now=True)
        except Exception as error:
            outcome.refused.setdefault(query, error)
            mine = [file for file in outcome.delivered if file.query == query]
            unsettled = [file for file in mine if not sinks[query].settled(file)]
            waiting |= {file.path for file in unsettled}
            outcome.delivered = [file for file in outcome.delivered if file not in unsettled]
    sync_delivered(log, sinks, outcome.delivered + outcome.taken)
    if outcome.missing:
        log.lose(MISSING, outcome.missing)
    listed = waiting | {file.path for file in outcome.orphaned}
    for sink in sinks.values():
        for path in sink.staged():
            if path.name.startswith(f"{log.id}-") and path not in listed:
                path.unlink()
                outcome.removed.append(path)
    log.recovered(outcome.orphaned)
    return outcome


def _recover(log: CommitLog, sink: Sink, file: CommittedFile, outcome: Recovery) -> None:
    unsure = log.rebooted or file.place == "unsure"
    if file.place == "moved" and not (unsure and sink.target(file) is not None):
        outcome.taken.append(file)
        return
    if file.query in outcome.refused:
        return  # after those before it
    if not unsure and file.content is not None and sink.has(file):
        outcome.taken.append(file)  # the process died before it noted so
        return
    try:
        (outcome.delivered if bring(sink, file) else outcome.taken).append(file)
    except ResultMissing:
        outcome.missing.append(file)


def publish(sinks: Mapping[str, Sink], *, now: bool = False) -> None:
    """Lets sinks make visible what they have gathered; raises the first failure, after all."""
    failure: Exception | None = None
    for sink in list(sinks.values()):
        try:
            sink.publish(now=now)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def close(sinks: Mapping[str, Sink]) -> None:
    """Publishes what is left and releases connections; what fails is left to the next start."""
    with suppress(Exception):
        publish(sinks, now=True)
    for sink in sinks.values():
        with suppress(Exception):
            sink.close()


def sweep(log: CommitLog, sinks: Mapping[str, Sink]) -> None:
    """Removes what jobs that ended without a commit have staged."""
    abandoned = log.take_abandoned()
    try:
        for sink in sinks.values() if abandoned else ():
            for path in sink.staged():
                if "-".join(path.name.split("-")[:3]) in abandoned:  # see CommitLog.new_job
                    path.unlink(missing_ok=True)
    except OSError:
        for job in abandoned:
            log.abandon(job)  # again next time
        raise


def sync_delivered(
    log: CommitLog, sinks: Mapping[str, Sink], files: Sequence[CommittedFile]
) -> None:
    """Makes delivered files durable; then the log may forget what they hold."""
    places = (sinks[file.query].target(file) for file in files)
    sync_files(place for place in places if place is not None)
    log.mark_delivered(file.id for file in files)
