"""A tiny engine without Spark that is killed over and over; see test_crash.py.

Run as ``crash_worker.py ROOT SEED ROUNDS``. Each round forks a process that recovers, then
ingests, reads, stages, commits and delivers until SIGKILL ends it: at a step it was told to die
at, inside some rename, or at a random moment. Prints one JSON line a round.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.engine.inbox import Inbox, Waiting
from daybreak.model.specs import SinkSpec
from daybreak.spark.log import rows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import write_durably
from daybreak.spark.log.large_segments import read_footers
from daybreak.spark.log.rows import Cursor, CursorMove, Part, StagedFile
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.delivery import recover, sync_delivered
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sinks.task_writers import WritesInTasks

#: Keep rows whose value is divisible by this.
DIVISORS = {"all": 1, "threes": 3, "fives": 5}
#: Rounds that die at one of these, and those that die at a random moment ("time").
DEATHS = (
    "append", "write", "stage", "staged", "commit", "deliver", "mark", "rename", "time", "time",
)  # fmt: skip


def keep(query: str, table: pa.Table) -> pa.Table:
    """The query: row by row, so any cut of the input gives the same rows."""
    values = table["value"].to_pylist()
    return table.filter(pa.array([v % DIVISORS[query] == 0 for v in values]))


def open_sinks(root: Path, staging: Path) -> dict[str, Sink]:
    formats = {"all": "parquet", "threes": "json", "fives": "csv"}
    return {
        query: make_sink(query, SinkSpec(format=kind, path=f"out/{query}"), root, staging)
        for query, kind in formats.items()
    }


@dataclass
class Engine:
    """One life: everything it does is a step it may die at."""

    root: Path
    rng: Random
    step: Callable[[str], None]

    def run(self) -> None:
        rundir = RunDirectory.open(self.root / "run", "crash")
        self.log = CommitLog(rundir.state_db)
        self.store = SegmentStore(rundir, self.log, memory_bytes=2000, small_bytes=64)
        self.sinks = open_sinks(self.root, rundir.staging)
        outcome = recover(self.log, self.sinks)
        found = {name: len(getattr(outcome, name)) for name in ("delivered", "taken", "removed")}
        (self.root / "recovered.json").write_text(json.dumps(found))
        for query in DIVISORS:
            self.log.register_query(query, "1", {"numbers": Cursor(0, 0)})
        while True:
            self.ingest()
            for query in DIVISORS:
                self.work(query)

    def ingest(self) -> None:
        """As Structured Streaming does: the batch first, then the offset of its source."""
        offset = self.root / "offset"
        batch = int(offset.read_text()) if offset.exists() else 0
        size = 1 + batch % 7
        first = sum(1 + b % 7 for b in range(batch))
        values = pa.table({"value": pa.array(range(first, first + size), pa.int64())})
        self.step("append")
        end, now_ns = {"end": first + size}, time.time_ns()
        if batch % 2:
            self.store.append("numbers", "cp", batch, end, values, now_ns)
        else:  # as executors write it
            self.store.append_files("numbers", "cp", batch, end, self.writer(values), now_ns)
        write_durably(offset, lambda out: out.write(str(batch + 1).encode()))

    def writer(self, values: pa.Table) -> Callable[[Path, str | None], tuple[Part, ...]]:
        def write(folder: Path, time_column: str | None) -> tuple[Part, ...]:
            folder.mkdir()
            half = values.num_rows // 2
            for number, part in enumerate((values.slice(0, half), values.slice(half))):
                pq.write_table(part, folder / f"part-{number}.parquet")
                self.step("write")
            return read_footers(folder, time_column).parts

        return write

    def stage(self, query: str, job: str, taken: Sequence[Waiting]) -> Sequence[StagedFile]:
        sink = self.sinks[query]
        if not taken[0].whole:
            return sink.stage(job, keep(query, self.store.read(taken)))
        assert isinstance(sink, WritesInTasks)
        write, staged = sink.task_writer(job, 0), []
        for file in self.store.files(taken):
            table = pq.read_table(file.path, partitioning=None).slice(file.first, file.rows)
            for path, count in write(keep(query, table)):
                staged.append(StagedFile(query, Path(path), count))
                self.step("staged")
        return staged

    def work(self, query: str) -> None:
        old = self.log.cursors()[query, "numbers"]
        limit = self.rng.choice([None, 1, 4, 20])
        cuts = self.rng.random() < 0.3
        taken = Inbox.of(self.store.waiting("numbers", old)).take(limit, cuts=cuts)
        if not taken:
            return
        [(_, new)] = self.store.passed(taken).values()
        job = self.log.new_job()
        self.step("stage")
        staged = self.stage(query, job, taken)
        self.step("commit")
        move = CursorMove(query, "numbers", old, new)
        files = self.log.commit(job, [move], staged)
        for file in files:
            self.step("deliver")
            self.sinks[query].deliver(file)
            self.step("mark")
            sync_delivered(self.log, self.sinks, [file])
        if self.rng.random() < 0.2:
            low = self.log.low_water("numbers")
            assert low is not None
            self.store.remove_below("numbers", low)


#: Every file is a train of its own.
rows.TRAIN_BYTES = 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def live(root: Path, rng: Random, death: str, countdown: int) -> None:
    """One life, ended at the ``countdown``-th step or event named ``death``."""
    left = countdown

    def count(name: str) -> None:
        nonlocal left
        left -= name == death
        if left <= 0:
            die()

    def audit(event: str, _arguments: tuple[Any, ...]) -> None:
        if event == "os.rename":
            count("rename")

    sys.addaudithook(audit)
    Engine(root, rng, count).run()


def main(root: Path, seed: int, rounds: int) -> None:
    rng = Random(seed)
    for number in range(rounds):
        death = DEATHS[number % len(DEATHS)]
        countdown, delay_s = rng.randint(1, 12), rng.uniform(0.0, 0.12)
        (root / "recovered.json").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                live(root, Random(f"{seed}/{number}"), death, countdown)
            finally:
                os._exit(3)  # only an exception comes here
        if death == "time":
            time.sleep(delay_s)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        recovered = root / "recovered.json"
        found = json.loads(recovered.read_text() or "{}") if recovered.exists() else {}
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1
        print(json.dumps({"death": death, "signal": ended, **found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
