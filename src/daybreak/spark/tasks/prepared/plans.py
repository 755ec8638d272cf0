"""The prepared plans of a run: each planned once, a copy for every worker that runs it.

Nothing depends on them. Where a plan is unfit, fails, or has a train that is too large, the worker
runs an ordinary job, which is authoritative, and the reason is counted.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future

import pyarrow as pa
from pyspark.sql import SparkSession

from daybreak.spark.failures import one_line
from daybreak.spark.sql.static_tables import NO_TABLES, StaticTables, TableVersions
from daybreak.spark.tasks.prepared.jvm import Java, Runs
from daybreak.spark.tasks.prepared.planner import PROBE, Planned, Planner, Shape
from daybreak.spark.tasks.prepared.train_runs import (
    MOST_BYTES,
    Cancelled,
    Cores,
    Output,
    TrainRuns,
    tag_of,
)
from daybreak.spark.tasks.task import Task, Unfit

#: Set to anything but 0: every job is an ordinary one.
SWITCH = "DAYBREAK_ORDINARY_JOBS"
#: Up to so many rows of all streams one thread is at least twice as fast as an ordinary job on two
#: cores (benchmarks/without_a_job.py --crossover). Aggregates and joins build tables in the JVM: it
#: is so many for each GB of the driver's heap, up to two. Longer trains of filters run in parts.
MOST_ROWS: Mapping[Shape, int] = {"rows": 3_200_000, "aggregate": 1_600_000, "join": 1_600_000}
MOST_GB = 2.0
#: Plans that are kept, those used last; and what they may take, with static tables.
MOST_PLANS = 500
MOST_KEPT_BYTES = 512 << 20
#: One plan may take a quarter of that.
MOST_PLAN_BYTES = MOST_KEPT_BYTES // 4
#: A plan that has failed so often in a row is given up.
MOST_FAILURES = 3
#: Where a train was too large for the memory there was, so much smaller ones are tried next; and so
#: much larger ones after each that ran, since others may have held the memory.
SMALLER, LARGER = 0.5, 1.02
_ERROR_CLASS = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")


def _is_planned(entry: Future[Planned]) -> bool:
    return entry.done() and entry.exception() is None


def _kept_bytes(entry: Future[Planned]) -> int:
    return entry.result().bytes if _is_planned(entry) else 0


def _class_of(error: Exception) -> str:
    """What went wrong without the values of rows: reasons are counted, and must not be many."""
    line = one_line(error)
    marked = _ERROR_CLASS.search(line)
    return marked[0] if marked else line.split(":")[0]


def _rows(tables: Mapping[str, pa.Table]) -> int:
    return sum(table.num_rows for table in tables.values())


def _lacks_memory(error: Exception) -> bool:
    """Of the JVM, or of the file system in memory through which rows pass."""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    line = one_line(error)
    return full or "OutOfMemory" in line or "No space left" in line


class Plans:
    """The plans of a run, shared by its workers."""

    def __init__(self, spark: SparkSession, tables: StaticTables | None = None) -> None:
        self._spark = spark
        self._tables = tables
        self._guard = threading.Lock()
        self._entries: OrderedDict[Hashable, Future[Planned]] = OrderedDict()
        #: Of plans that could not be made, or run, how often in a row.
        self._failures: Counter[Hashable] = Counter()
        #: Rows of a train at most, of plans for which others were too large.
        self._most_rows: dict[Hashable, float] = {}
        #: Why trains took an ordinary job, and how often.
        self.reasons: Counter[str] = Counter()
        self.cores = Cores(1)
        master = spark.sparkContext.master or ""
        self._local = master == "local" or master.startswith("local[")
        #: None where this Spark lacks something, or it is switched off; then ``missing`` says why.
        self.runs: Runs | None = None
        self.missing = ""
        #: Of the heap, as far as it counts.
        self._gb = 0.0
        if os.environ.get(SWITCH, "0") not in ("", "0"):
            self.missing = f"{SWITCH} is set"
            return
        try:
            java = Java(spark)
            self.runs = java.runs()
            self._gb = min(java.heap_bytes() / 2**30, MOST_GB)
            self.cores = Cores(min(java.processors(), spark.sparkContext.defaultParallelism))
        except Exception as error:
            self.missing = one_line(error)

    @property
    def usable(self) -> bool:
        return self.runs is not None

    def worker(self, tag: str) -> PlanRunner:
        """For one thread; ``tag`` is that of its jobs."""
        return PlanRunner(self, self._spark, tag)

    def cancel(self, tag: str) -> None:
        """Ends what runs under a tag: Spark's jobs, and a plan before its next row."""
        self._spark.sparkContext.cancelJobsWithTag(tag)
        if self.runs is not None:
            for part in range(self.cores.count):
                self.runs.interrupt(tag_of(tag, part))

    def probe(self, runner: PlanRunner) -> None:
        """Finds out, by a small plan, whether this version of Spark has all that it takes."""
        if self.runs is None:
            return
        try:
            found = runner.compute(PROBE, {"rows": pa.table({"k": [1, 2, 1]})}).table
            if sorted(found.column(0).to_pylist()) != [1, 2]:
                self._give_up("a plan gave wrong rows")
        except Exception as error:
            self._give_up(one_line(error))

    def _give_up(self, why: str) -> None:
        self.runs, self.missing = None, why

    def tables(self) -> TableVersions:
        """The static tables as they are now."""
        return NO_TABLES if self._tables is None else self._tables.current

    def get(self, task: Task, planner: Callable[[], Planner], tables: TableVersions) -> Planned:
        """The plan of a task: the first who asks makes it, others wait. ``Unfit`` if none.

        Another one may have made it with other versions of the static tables.
        """
        with self._guard:
            entry, known = self._entries.get(task.key), task.key in self._entries
            if entry is None:
                entry = self._entries[task.key] = Future()
            self._entries.move_to_end(task.key)
        if not known:
            try:
                entry.set_result(self._fitting(planner().plan(task, tables)))
                self._make_room()
            except Unfit as unfit:
                entry.set_exception(unfit)
            except Exception as error:
                entry.set_exception(Unfit(f"cannot be planned: {one_line(error)}"))
                self.failed(task.key)
        return entry.result()

    @staticmethod
    def _fitting(planned: Planned) -> Planned:
        if planned.bytes > MOST_PLAN_BYTES:
            raise Unfit("static tables are too large to be kept")
        return planned

    def _make_room(self) -> None:
        """Gives up the plans that were used least lately."""
        with self._guard:
            kept = sum(map(_kept_bytes, self._entries.values()))
            while len(self._entries) > MOST_PLANS or kept > MOST_KEPT_BYTES:
                _, oldest = self._entries.popitem(last=False)
                kept -= _kept_bytes(oldest)

    def forget(self, tag: str) -> None:
        """A worker has ended: nobody runs its copies any more."""
        with self._guard:
            for entry in self._entries.values():
                for part in range(self.cores.count if _is_planned(entry) else 0):
                    entry.result().copies.pop(tag_of(tag, part), None)

    def failed(self, key: Hashable) -> None:
        """A plan could not be made, or run: it is made again, some times, and then given up."""
        with self._guard:
            self._failures[key] += 1
            if self._failures[key] < MOST_FAILURES:
                self._entries.pop(key, None)
                return
            given_up: Future[Planned] = Future()
            given_up.set_exception(Unfit("failed several times"))
            self._entries[key] = given_up

    def too_large(self, key: Hashable, rows: int) -> None:
        """There was no memory for so many rows: a new plan is made for shorter trains."""
        with self._guard:
            self._most_rows[key] = SMALLER * min(rows, max(MOST_ROWS.values()))
            self._entries.pop(key, None)

    def most_rows(self, key: Hashable, shape: Shape) -> float:
        """Of a train, over all streams."""
        most = MOST_ROWS[shape] * (1.0 if shape == "rows" else self._gb)
        return min(most, self._most_rows.get(key, most))

    def cuts(self, key: Hashable) -> bool:
        """Whether a train that is too long may run in parts.

        Not if there was no memory for a plan lately, nor on the driver of a cluster, whose
        executors have more cores.
        """
        return self._local and key not in self._most_rows

    def succeeded(self, key: Hashable) -> None:
        if key in self._failures or key in self._most_rows:
            with self._guard:
                self._failures.pop(key, None)
                if key in self._most_rows:
                    self._most_rows[key] *= LARGER
                    if self._most_rows[key] > max(MOST_ROWS.values()):
                        del self._most_rows[key]

    def drop(self, key: Hashable) -> None:
        """A static table has changed: the next who asks plans it again."""
        with self._guard:
            self._entries.pop(key, None)

    def why(self) -> dict[str, int]:
        """Why trains took ordinary jobs so far, and how often."""
        with self._guard:
            return dict(self.reasons)

    def count(self, reason: str) -> None:
        with self._guard:
            self.reasons[reason] += 1


class PlanRunner:
    """Runs plans for one worker thread."""

    def __init__(self, plans: Plans, spark: SparkSession, tag: str) -> None:
        self._plans = plans
        self._spark = spark
        self._tag = tag
        self._planner: Planner | None = None
        self._trains = TrainRuns(plans.cores, tag)

    def close(self) -> None:
        self._trains.close()
        self._plans.forget(self._tag)

    def run(
        self,
        task: Task,
        tables: Mapping[str, pa.Table],
        static: TableVersions | None = None,
    ) -> Output | None:
        """The result over these rows; None, with the reason counted, if it takes a job.

        ``static``: the versions of static tables that count; left out: the present ones.
        ``Cancelled`` if it was interrupted.
        """
        if self._plans.runs is None:
            return None
        try:
            return self.compute(task, tables, static)
        except Unfit as unfit:
            self._plans.count(str(unfit))
        except Cancelled:
            raise
        except Exception as error:  # whatever it is: the ordinary job is authoritative
            if _lacks_memory(error):
                self._plans.too_large(task.key, _rows(tables))
            else:
                self._plans.failed(task.key)
            self._plans.count(f"failed: {_class_of(error)}")
        return None

    def prepare(self, task: Task) -> None:
        """Plans, compiles and runs it once over no rows; ``Unfit`` if it has to be a job."""
        planned = self._plans.get(task, self._make_planner, self._plans.tables())
        nothing = {leaf.name: pa.table({}) for leaf in planned.leaves}
        self._run_once(planned, nothing, 1)

    def compute(
        self,
        task: Task,
        tables: Mapping[str, pa.Table],
        static: TableVersions | None = None,
    ) -> Output:
        """The result over these rows; ``Unfit``, or whatever failed, if it takes a job."""
        if not task.by_row and sum(table.nbytes for table in tables.values()) > MOST_BYTES:
            raise Unfit("too many bytes")
        planned = self._current(task, self._plans.tables() if static is None else static)
        most_rows = self._plans.most_rows(task.key, planned.shape)
        in_parts = task.by_row and self._plans.cuts(task.key)
        if not in_parts and _rows(tables) > most_rows:
            raise Unfit("too many rows")
        output = self._run_once(planned, tables, most_rows)
        self._plans.succeeded(task.key)
        return output._replace(made=planned.made)

    def _current(self, task: Task, versions: TableVersions) -> Planned:
        """The plan with these versions of static tables, made again where it has older ones."""
        for _ in range(2):
            planned = self._plans.get(task, self._make_planner, versions)
            held = planned.tables.items()
            if any(number > versions.number(name) for name, number in held):
                raise Unfit("a static table was refreshed after the job began")
            if not any(number < versions.number(name) for name, number in held):
                return planned
            self._plans.drop(task.key)
        raise Unfit("a static table keeps changing")

    def _run_once(
        self, planned: Planned, tables: Mapping[str, pa.Table], most_rows: float
    ) -> Output:
        if self._plans.runs is None:
            raise Unfit(self._plans.missing)
        return self._trains.run(self._plans.runs, planned, tables, most_rows)

    def _make_planner(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._spark)
        return self._planner
