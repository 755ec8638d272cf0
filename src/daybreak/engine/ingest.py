"""Grants of ingest: when a source may read on, in competition with the jobs of queries.

A source whose next step is expected to be long asks first (``SourceShows``). Its step takes a
worker, as a job does, is cut to what a worker may be away for (``Ingest.most``), and ends with
``Ingested``. One rule holds for every policy:

* a short step for the most important class that has queries is granted at once and takes no
  worker: there is nothing more important that it could hold up;
* otherwise one step at a time, so that ingest takes at most one worker;
* a stream counts as much as the most important class that reads it; among streams of one class the
  one whose rows have waited longest is first;
* it goes before jobs of lower classes, and before jobs of its own class whose tuples came later;
* whatever is more important, a stream that asks gets a step a second;
* between two steps a job starts, if one can: with a single worker, ingest cannot keep it;
* a worker that has nothing else to do reads.

The class-based thesis asks for both: cores for sources by load, and an order of sources (2.2.3,
6.3.6).
"""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.engine.core import Core
from daybreak.engine.events import Ingested, SourceShows
from daybreak.engine.express import highest_priority
from daybreak.engine.instructions import WARNING, Ingest

#: What a step may take. Twice as much, and the most urgent class waits up to a fifth of a second
#: longer where all workers are busy; half, and a backfill that Spark jobs read pays for twice as
#: many of them (60 to 100 ms each).
STEP_NS = 200_000_000
#: What a step may take at least, however soon a policy wants its worker back: shorter ones cost
#: more to ask for than they read. Half as much, and a backlog beside a busy policy is read in twice
#: as many steps; twice as much, and plans begin up to 20 ms later than they were meant to.
LEAST_STEP_NS = 20_000_000
#: A stream that asks waits no longer than this for its next step. Half as long, and streams of the
#: lowest class take up to 40 instead of 20 % of a worker while the highest asks for all of them;
#: twice as long, and their rows are durable a second later.
OVERDUE_NS = 1_000_000_000
#: A step for the most important class that is granted at once takes this at most. Twice as much,
#: and a backlog of that class holds up its own jobs for longer; half, and on busy cores, where
#: reading a small file takes 30 ms instead of 3, its rows wait behind the steps of a backfill.
SHORT_NS = 50_000_000


@dataclass(slots=True)
class _Step:
    """A step that was granted."""

    stream: str
    worker: int
    grant: int
    began_ns: int


class Ingestion:
    """The streams that ask, and the step under way. One thread uses it, through the engine."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._asking: dict[str, SourceShows] = {}
        #: Since when each of them waits for its next step, on the engine's clock.
        self._since_ns: dict[str, int] = {}
        self._step: _Step | None = None
        #: A step has ended, and no job was started since.
        self._jobs_turn = False
        self._numbered = 0

    def shows(self, event: SourceShows) -> None:
        """Notes that a source has rows to read, or that it asks no more."""
        if event.amount <= 0:
            self._asking.pop(event.stream, None)
            self._since_ns.pop(event.stream, None)
            return
        self._asking[event.stream] = event
        if self._is_urgent(event):
            self._grant(event.stream, None, event.amount)
        else:
            self._since_ns.setdefault(event.stream, self._core.now_ns)

    def ended(self, event: Ingested) -> int | None:
        """Frees the worker of a step; None if it was free already."""
        step = self._step
        if step is None or step.grant != event.grant:
            return None
        return self._free(step)

    def watch(self) -> int | None:
        """Frees the worker of a step that takes longer than a job may, as one on a lost mount."""
        step, timeout_s = self._step, self._core.settings.limits.job_timeout_s
        if step is None or self._core.now_ns - step.began_ns <= timeout_s * 1e9:
            return None
        self._core.notice(
            "ingest-stuck",
            f"a step of stream {step.stream} has not ended for {timeout_s:g} s; its worker goes "
            "back to the queries", level=WARNING, stream=step.stream,
        )  # fmt: skip
        return self._free(step)

    def _free(self, step: _Step) -> int:
        self._step, self._jobs_turn = None, True
        return step.worker

    def job_started(self) -> None:
        """Notes that a job has had its turn."""
        self._jobs_turn = False

    def urgent(self) -> str | None:
        """The stream whose step goes before any job that could start now; None if there is none."""
        if self._step is not None or not self._asking:
            return None
        before_ns = self._core.now_ns - OVERDUE_NS
        overdue = [s for s in self._asking if self._since_ns[s] <= before_ns]
        if overdue:
            return min(overdue, key=self._since_ns.__getitem__)
        job = None if self._jobs_turn else self._foremost_job()
        if job is None:  # the policy is asked, and what it leaves idle may read
            return None
        stream = min(self._asking, key=self._rank)
        return stream if self._rank(stream) <= job else None

    def next(self) -> str | None:
        """The stream whose turn it is; None if none asks, or a step is under way."""
        if self._step is not None or not self._asking:
            return None
        return min(self._asking, key=self._rank)

    def start(self, stream: str, worker: int, budget_ns: int = STEP_NS) -> None:
        """Grants a step of about so long."""
        asked = self._asking[stream]
        readable_ns = min(STEP_NS, max(LEAST_STEP_NS, budget_ns)) - asked.fixed_ns
        most = max(1, round(readable_ns / max(asked.per_unit_ns, 1e-3)))
        self._grant(stream, worker, min(most, asked.amount))
        self._step = _Step(stream, worker, self._numbered, self._core.now_ns)

    def _grant(self, stream: str, worker: int | None, most: int) -> None:
        del self._asking[stream]
        self._since_ns.pop(stream, None)
        self._numbered += 1
        self._core.emit(Ingest(self._numbered, stream, worker, most))

    def _is_urgent(self, asked: SourceShows) -> bool:
        """True for a short step of the most important class that has queries."""
        if asked.fixed_ns + asked.per_unit_ns * asked.amount > SHORT_NS:
            return False
        state = self._core.state
        highest = highest_priority(state.class_priority, state.query_class)
        return -self._rank(asked.stream)[0] >= highest

    def _rank(self, stream: str) -> tuple[float, int]:
        """The lower, the sooner: a class's priority first, then how long rows have waited."""
        state, queries = self._core.state, self._core.queries
        priorities = (
            state.class_priority[state.query_class[box]]
            for box in queries.readers(stream)
            if queries.status[box].state != "dropped"
        )
        return -max(priorities, default=0.0), self._asking[stream].shown_ns

    def _foremost_job(self) -> tuple[float, int] | None:
        """The rank of the most urgent query that could start; None if there is none."""
        state = self._core.state
        priority, of_query = state.class_priority, state.query_class
        return min(
            (
                (-priority[of_query[box]], state.head_ns[box])
                for box, tuples in enumerate(state.pending)
                if tuples and not state.running[box]
            ),
            default=None,
        )
