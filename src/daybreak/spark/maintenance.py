"""Housekeeping: what must happen now and then, so that nothing grows and nobody is forgotten.

Some of it belongs between two decisions, on the loop's thread (``tidy``); what waits for a disk or
for Spark has a thread of its own (``Keeper``).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from daybreak.engine.events import Failure
from daybreak.engine.inbox import Waiting
from daybreak.engine.lifecycle import SHED
from daybreak.runtime.eventlog import Say, silent
from daybreak.runtime.parts import Parts
from daybreak.spark.driver import Driver
from daybreak.spark.failures import failure_of, one_line
from daybreak.spark.jobs.runner import Runnable
from daybreak.spark.jobs.windows import past
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove, Move, ProgressMove
from daybreak.spark.retention import LEAVE, relieve, unread_bytes
from daybreak.spark.sinks.delivery import bring, sweep
from daybreak.spark.sinks.file_sync import Settler
from daybreak.spark.sinks.sinks import Sink

if TYPE_CHECKING:
    from daybreak.spark.run import Run

#: What was recorded goes to disk this often.
PART_S = 10.0
#: How often segments that all have read are removed.
LOOK_S = 0.5
#: Commits are remembered for so long after they were delivered.
COMMITS_KEPT_NS = 60 * 10**9


class Keeper:
    """Calls each task every so many seconds; a task that fails is called again next time."""

    def __init__(
        self, tasks: Sequence[tuple[float, Callable[[], None]]], say: Say = silent
    ) -> None:
        self._tasks = tasks
        self._say = say
        #: What the last call of each task that failed said, by its name.
        self.troubles: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="daybreak-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        due = [time.monotonic() + every_s for every_s, _ in self._tasks]
        while not self._stopping.wait(max(0.0, min(due) - time.monotonic())):
            for i, (every_s, task) in enumerate(self._tasks):
                if time.monotonic() < due[i]:
                    continue
                name = task.__name__.strip("_")
                try:
                    task()
                    if self.troubles.pop(name, None) is not None:
                        self._say("trouble-over", f"{name} works again", task=name)
                except Exception as error:  # a full disk, perhaps: it may be well next time
                    if name not in self.troubles:
                        self._say("trouble", one_line(error), level=logging.WARNING, task=name)
                    self.troubles[name] = one_line(error)
                due[i] = time.monotonic() + every_s


def redeliver(driver: Driver, log: CommitLog, sinks: Mapping[str, Sink], settler: Settler) -> None:
    """Brings committed results to sinks that would not take them before, in order."""
    while not driver.redeliveries.empty():
        asked = driver.redeliveries.get()
        name = driver.queries[asked.box].name
        failure: Failure | None = None
        held = settler.held()  # before the log is asked: what it lists then is settled or held
        try:
            for file in log.undelivered():
                if file.query == name and file.id not in held:
                    bring(sinks[name], file)
                    settler.add(file)
        except Exception as error:
            failure = failure_of(error)
        driver.on_delivered(asked, failure)


class Housekeeping:
    """The chores of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.parts = Parts(run.rundir.record, run.limits.record_max_bytes)
        self._taken_s = time.monotonic()
        self._looked_s = 0.0
        self._unwritten = False
        #: What the loop's thread could not do lately, and why.
        self.troubles: dict[str, str] = {}

    def tasks(self) -> list[list[tuple[float, Callable[[], None]]]]:
        """What each keeper does, and how often; a sink may take its time, and so has its own."""
        return [
            [(0.2, self._redeliver)],
            [
                (0.2, self._run.sources.tend),
                (0.5, self._measure),
                (1.0, self._write_record),
                (10.0, self._prune),
            ],
        ]

    # On the loop's thread

    def tidy(self) -> None:
        """Removes segments that every query has passed, and makes room if the log is full."""
        with self._forgiving("tidy"):
            if self._room_is_due():
                self._make_room()
            now_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
            blocked = self._run.room.full
            for tick in self._run.time.silences(now_ns, monotonic_ns, blocked=blocked):
                self._run.driver.on_tick(tick)
        if time.monotonic() - self._taken_s >= PART_S:
            self._take()

    @contextmanager
    def _forgiving(self, what: str) -> Iterator[None]:
        """A disk that takes nothing now is no reason for the loop to end: there is a next time."""
        try:
            yield
            self.note_trouble(what, None)
        except (sqlite3.OperationalError, OSError) as error:
            self.note_trouble(what, one_line(error))

    def note_trouble(self, what: str, why: str | None) -> None:
        """Something could not be done, and why; or it could."""
        if why is None:
            self.troubles.pop(what, None)
        else:
            self.troubles[what] = why

    def _room_is_due(self) -> bool:
        """Now and then; at once where sources wait for it, or soon would."""
        run = self._run
        if run.room.full or run.store.held_bytes() > run.limits.log_max_bytes:
            return True
        return time.monotonic() >= self._looked_s + LOOK_S

    def _make_room(self) -> None:
        self._looked_s = time.monotonic()
        run, most = self._run, self._run.limits.log_max_bytes
        run.undeclared.expire(time.monotonic_ns())
        self.remove_passed()
        over = unread_bytes(run) - most
        if over > 0:
            run.undeclared.give_way(over + round((1 - LEAVE) * most))
            over = unread_bytes(run) - most
        if over > 0:
            relieve(run, over + round((1 - LEAVE) * most))
            self.remove_passed()
        self._note_room(unread_bytes(run), most)

    def remove_passed(self) -> None:
        run, now_ns = self._run, time.time_ns()
        for stream in run.prepared.streams:
            unread = Cursor(run.driver.engine.next_seq.get(stream, 0), 0)
            low = run.log.low_water(stream) or unread
            run.store.remove_below(stream, run.time.retained(stream, low, now_ns))

    def _note_room(self, unread: int, most: int) -> None:
        run, full = self._run, unread > most
        if full and not run.room.full:
            message = "the log is full: sources wait for queries that must not lose rows"
            run.say("log-full", message, level=logging.WARNING, bytes=unread, max_bytes=most)
        elif run.room.full and not full:
            run.say("log-has-room", "sources go on", bytes=unread, max_bytes=most)
        run.room.full, run.room.unread_bytes = full, unread

    def give_up(self, given: Sequence[tuple[Runnable, Sequence[Waiting]]], why: str) -> None:
        """Moves queries past what was taken for ever, all of them or none."""
        run = self._run
        moves = [move for query, taken in given for move in self._moves(query, taken)]
        run.log.give_up(why, moves)
        # What is shed is told by the spell; it would be ten lines a second and query.
        level = logging.DEBUG if why == SHED else logging.WARNING
        for query, taken in given:
            rows = sum(item.tuples for item in taken)
            run.say(
                "gave-up", f"{rows} rows ({why})", level=level, query=query.name, rows=rows, why=why
            )

    def _moves(self, query: Runnable, taken: Sequence[Waiting]) -> list[tuple[Move, int]]:
        """How a query moves past what was taken, and how many rows each move loses."""
        run, name, windowing = self._run, query.name, query.checked.windowing
        if windowing is not None:
            rows = sum(item.tuples for item in taken)
            moves = past(name, windowing, taken, run.store, run.log.places(name))
            return [(move, rows if isinstance(move, ProgressMove) else 0) for move in moves]
        lost: dict[str, int] = {}
        for item in taken:
            lost[item.stream] = lost.get(item.stream, 0) + item.tuples
        passed = run.store.passed(taken)
        return [(CursorMove(name, s, *at), lost[s]) for s, at in passed.items()]

    def _take(self) -> None:
        """Hands what was recorded to the keeper; on the loop's thread, or after it."""
        self._taken_s = time.monotonic()
        self.parts.add({**self._run.monitor.take(), **self._run.recorder.take()})

    # On the keeper's thread, and at the end

    def _redeliver(self) -> None:
        run = self._run
        redeliver(run.driver, run.log, run.sinks, run.settler)

    def _measure(self) -> None:
        self._run.rates.note(self._run.driver.engine.arrived_rows)

    def _write_record(self) -> None:
        """What was taken, and then the head: without its series it could not be read."""
        self._unwritten = self._unwritten or self.parts.waiting
        if self._unwritten:
            self.parts.write()
            self._run.head().save_head(self._run.rundir.record)
            self._unwritten = False

    def _prune(self) -> None:
        """Forgets commits that are over and done with, and what never came to a commit."""
        self._run.log.prune(time.time_ns() - COMMITS_KEPT_NS)
        self._run.log.checkpoint()
        sweep(self._run.log, self._run.sinks)

    def finish(self) -> None:
        """Writes the rest of the record; when all threads have ended."""
        with suppress(sqlite3.Error, OSError):  # else the next start does it
            sweep(self._run.log, self._run.sinks)
        head = self._run.head()
        self._run.monitor.sample(head.spent.wall_ns, self._run.state)
        self._take()
        self.parts.write()
        head.save_head(self._run.rundir.record)
