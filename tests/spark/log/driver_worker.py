"""A driver without Spark, with its log in PostgreSQL and its store on a shared path.

Run as ``driver_worker.py FOLDER STORE OUT URL LEASE_S LIMIT``. It reads numbers up to ``LIMIT``,
each batch as one segment, and delivers them as files until all are there. ``FOLDER`` is all it
has of its own. Prints "waits", "works" and how it ended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa

from daybreak.engine.inbox import Inbox
from daybreak.model.errors import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.model.storage import check_log
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import make_folder, write_durably
from daybreak.spark.log.opening import open_log
from daybreak.spark.log.rows import Cursor, CursorMove
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.delivery import bring, recover, sync_delivered
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink

T = TypeVar("T")
QUERY, STREAM, BATCH = "all", "numbers", 5


def say(text: str) -> None:
    print(text, flush=True)


def _put(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def patient(call: Callable[[], T]) -> T:
    """Only commits and segments wait for a server by themselves."""
    while True:
        try:
            return call()
        except LogUnavailable:
            time.sleep(0.02)


def work(
    rundir: RunDirectory, log: CommitLog, segments: SegmentStore, sink: Sink, limit: int
) -> None:
    offset = make_folder(rundir.checkpoint(STREAM)) / "offset"
    first = 0
    while first < limit:
        first = int(offset.read_text()) if offset.exists() else 0
        width = 1 if first // BATCH % 2 else 200
        rows = [f"{n:0{width}d}" for n in range(first, min(first + BATCH, limit))]
        table = pa.table({"n": pa.array(rows, pa.string())})
        segments.append(STREAM, "cp", first, {"end": first}, table, time.time_ns())
        end = str(min(first + BATCH, limit)).encode()
        write_durably(offset, partial(_put, end))
        old = patient(log.cursors)[QUERY, STREAM]
        taken = Inbox.of(segments.waiting(STREAM, old)).take(3)
        while taken:
            [(old, new)] = segments.passed(taken).values()
            job = log.new_job()
            staged = sink.stage(job, segments.read(taken))
            files = log.commit(job, [CursorMove(QUERY, STREAM, old, new)], staged)
            for file in files:
                patient(log.confirm_lease)
                bring(sink, file)
                patient(partial(sync_delivered, log, {QUERY: sink}, [file]))
            taken = Inbox.of(segments.waiting(STREAM, new)).take(3)
        low = patient(lambda: log.low_water(STREAM))
        assert low is not None
        patient(partial(segments.remove_below, STREAM, low))


def main(folder: Path, store: Path, out: Path, url: str, lease_s: float, limit: int) -> None:
    with RunDirectory.open(folder / "run", "worker", store=store) as rundir:
        log = open_log(
            check_log(url, "worker"), rundir, None, lease_s, lambda _message: say("waits")
        )
        # Every other segment is a file.
        segments = SegmentStore(rundir, log, memory_bytes=1000, small_bytes=500)
        sink = make_sink(QUERY, SinkSpec(format="parquet", path=str(out)), folder, rundir.staging)
        recover(log, {QUERY: sink})
        log.register_query(QUERY, "1", {STREAM: Cursor(0, 0)})
        say(f"works {log.run}")
        try:
            work(rundir, log, segments, sink, limit)
        except LeaseLost:
            raise
        except (OSError, ConfigError):
            # Stopped before it read or renamed a file that the next driver has removed since.
            patient(lambda: log.set_paused(QUERY, paused=False))
            raise
        log.close()
        say("done")


if __name__ == "__main__":
    own, shared, out_folder = (Path(argument) for argument in sys.argv[1:4])
    try:
        main(own, shared, out_folder, sys.argv[4], float(sys.argv[5]), int(sys.argv[6]))
    except LeaseLost as error:
        say(f"lease lost: {error}")
        sys.exit(3)
    except ConfigError as error:
        say(f"refused: {error}")
        sys.exit(2)
