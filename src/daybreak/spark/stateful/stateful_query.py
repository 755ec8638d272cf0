"""One stateful query: a streaming query of Spark's that makes one step per job.

Exactly once: the transaction that lists the rows of a micro-batch also records its number and moves
the cursors. A micro-batch that Spark repeats after a crash is computed again, since its state may
be missing, and its rows are dropped if its number is recorded.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from daybreak.engine.inbox import Waiting
from daybreak.model.errors import ConfigError
from daybreak.spark.failures import LogUnavailable, disk_is_full, one_line
from daybreak.spark.jobs.committer import Commits, Stepped
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import make_folder, remove_unfinished
from daybreak.spark.log.rows import NO_BATCH, BatchMove, Cursor, Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sql.forms import OverState
from daybreak.spark.stateful.feed import Feed
from daybreak.spark.stateful.gated_queries import GatedQueries, QueryEnded
from daybreak.spark.stateful.steps import FeedStep, Steps
from daybreak.spark.tasks.task import Runnable

#: A micro-batch takes no more rows than this, unless one segment has more.
MOST_ROWS = 200_000


@dataclass
class _Job:
    """What the micro-batches of one job do."""

    step: FeedStep
    commits: Commits
    tag: str
    made: bool = False


class StatefulQuery:
    """Its jobs come one after the other, from any worker."""

    def __init__(
        self,
        query: Runnable,
        folder: Path,
        feed: Feed,
        store: SegmentStore,
        log: CommitLog,
        gates: GatedQueries,
        allow: Callable[[str, int], None],
        frame: Callable[[Runnable, str], DataFrame],
    ) -> None:
        """``allow`` lets its source show steps up to a number; ``frame`` makes the streaming frame.

        The folder of its steps names the query to both.
        """
        self.query = query
        self._feed = feed
        self._store = store
        self._log = log
        self._gates = gates
        self._allow = allow
        self._frame = frame
        self._checkpoint = folder / "checkpoint"
        self._batch_done = log.batches()[query.name]
        if (
            self._batch_done == NO_BATCH
        ):  # new, or reset: what an earlier one has left counts nothing
            store.confirm()
            shutil.rmtree(folder, ignore_errors=True)
        elif not (self._checkpoint / "metadata").exists():
            raise ConfigError(
                f"query {query.name!r}",
                f"its checkpoint {self._checkpoint} is gone",
                f"restore it, or restart the query with --reset-query {query.name}",
            )
        make_folder(folder)
        self.steps = Steps(folder / "steps")
        self._busy = threading.Lock()
        self._running: Any = None
        self._gated = False
        self._job: _Job | None = None
        self._failure: BaseException | None = None

    def run(self, taken: Sequence[Waiting], commits: Commits, tag: str) -> Stepped:
        """One step of what was taken; Spark's planned one, if it had not ended.

        Of what was taken some may be committed already: Spark failed after that.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("its last micro-batch was given up and has not ended yet")
        try:
            return self._run(taken, commits, tag)
        finally:
            self._busy.release()

    def _run(self, taken: Sequence[Waiting], commits: Commits, tag: str) -> Stepped:
        name = self.query.name
        self._store.confirm()  # another driver that has taken over plans by itself
        places = self._log.places(name)
        step = self.steps.pending(places, name) or self._next_step(_from(taken, places)[1])
        if step is None:
            return Stepped(tuple(taken))
        job = self._job = _Job(step, commits, tag)
        self._failure = None
        try:
            self._make(job)
        except QueryEnded as ended:
            failure = self._failure or RuntimeError(_cause(str(ended)))
            self.stop()
            raise _judged(failure, str(ended)) from None
        except PySparkException as error:
            self.stop()
            raise _judged(self._failure or error, str(error)) from None
        finally:
            self._job = None
        self.steps.forget_before(step)
        return Stepped(*_from(taken, self._log.places(name)))

    def _next_step(self, taken: Sequence[Waiting]) -> FeedStep | None:
        some: list[Waiting] = []
        rows = 0
        for item in taken:
            if some and rows + item.tuples > MOST_ROWS:
                break
            some.append(item)
            rows += item.tuples
        if not some:
            return None
        with self._feed.choosing:
            return self.steps.add(self._store.passed(some), self._feed.files(some))

    def _make(self, job: _Job) -> None:
        self._allow(str(self.steps.folder), job.step.number)
        if self._running is None or not self._running.isActive:
            self._start()
        while True:
            turn = self._gates.turn(self._running, gated=self._gated)
            if job.made and (job.commits.undelivered or not turn.may_follow):
                return
            if not turn.ran and not job.made:
                raise QueryEnded("ran no micro-batch though rows wait")

    def _start(self) -> None:
        remove_unfinished(self._checkpoint)
        form = self.query.checked.form
        assert isinstance(form, OverState)
        frame = self._frame(self.query, str(self.steps.folder))
        context = frame.sparkSession.sparkContext
        # The query's thread would keep the tags of this one, and be cancelled with its other jobs.
        tags = context.getJobTags()
        context.clearJobTags()
        self._running = (
            frame.writeStream.outputMode(form.mode)
            .foreachBatch(self._batch)
            .option("checkpointLocation", str(self._checkpoint))
            .queryName(f"daybreak-{self.query.name}")
            .start()
        )
        for tag in tags:
            context.addJobTag(tag)
        self._gated = self._gates.started(self._running)

    def _batch(self, frame: DataFrame, batch: int) -> None:
        """Spark calls it, on a thread of the query's own."""
        try:
            self._take(frame, batch)
        except BaseException as error:
            self._failure = error
            raise

    def _take(self, frame: DataFrame, batch: int) -> None:
        job = self._job
        if job is None:
            raise QueryEnded("a micro-batch came without a job")
        context = frame.sparkSession.sparkContext
        context.addJobTag(job.tag)
        try:
            rows = frame.toArrow().cast(self.query.schema)
        finally:
            context.removeJobTag(job.tag)
        step = self.steps.find(self._step_of(batch))
        mine = step.number == job.step.number
        if batch > self._batch_done:
            moves: list[Move] = [BatchMove(self.query.name, self._batch_done, batch)]
            if mine and not job.made and not step.ends_at(self._log.places(self.query.name)):
                moves += step.cursor_moves(self.query.name)
            job.commits([rows], [moves])
            self._batch_done = batch
        job.made = job.made or mine

    def _step_of(self, batch: int) -> int:
        """The step up to which Spark has planned a micro-batch; the first lines are Spark's own."""
        text = (self._checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8")
        return max(int(line) for line in text.splitlines()[2:] if line.strip() != "-")

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()
            self._gates.forget(running)


def _from(
    taken: Sequence[Waiting], places: Mapping[str, Cursor]
) -> tuple[tuple[Waiting, ...], tuple[Waiting, ...]]:
    """What lies before the places of the query, and what does not."""
    passed = [Cursor(item.seq, item.row) < places[item.stream] for item in taken]
    before = (item for item, is_before in zip(taken, passed, strict=True) if is_before)
    after = (item for item, is_before in zip(taken, passed, strict=True) if not is_before)
    return tuple(before), tuple(after)


def _judged(failure: BaseException, whole: str) -> BaseException:
    """Its checkpoint and its state lie in the store: that they find no room is not its fault."""
    if disk_is_full(f"{whole} {failure}"):
        return LogUnavailable(one_line(failure))
    return failure


def _cause(error: str) -> str:
    """The line of a Java stack trace that says what went wrong."""
    causes = [line for line in error.splitlines() if line.startswith("Caused by: ")]
    line = causes[-1].removeprefix("Caused by: ") if causes else error.strip().split("\n")[0]
    return one_line(RuntimeError(line)).removeprefix("RuntimeError: ")
