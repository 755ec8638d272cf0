"""How long each sink takes: from the commit of a job to rows that a reader can see.

::

    python benchmarks/sinks.py [--jobs 200] [--rows 100] [--json]

Jobs of a hundred rows come every 20 ms, one after the other, with a real commit log and, for
PostgreSQL, a real server on this machine (fsync off, so its disk is not measured). No Spark is
involved: computing the rows is not measured. A job waits for what the column "job waits" names; a
Delta table is published by another thread, as in a run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.servers import PostgresServer

from daybreak.model.specs import SinkSpec
from daybreak.report.text import table
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.delivery import bring
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink

EVERY_S = 0.02
#: As in a run.
PUBLISH_EVERY_S = 0.2
SCHEMA = pa.schema([("station", pa.int32()), ("reading", pa.int64()), ("name", pa.string())])


def specs(dsn: str) -> dict[str, SinkSpec]:
    def postgres(name: str, **more: str) -> SinkSpec:
        options = {"url": dsn, "table": name, "create": "true", **more}
        return SinkSpec(format="postgres", options=options)

    return {
        "parquet": SinkSpec(format="parquet", path="parquet"),
        "parquet, partitioned": SinkSpec(
            format="parquet", path="partitioned", partition_by=("station",)
        ),
        "json": SinkSpec(format="json", path="json"),
        "csv": SinkSpec(format="csv", path="csv"),
        "memory": SinkSpec(format="memory"),
        "python": SinkSpec(format="python"),
        "postgres, append": postgres("appended"),
        "postgres, upsert": postgres("upserted", key="station", newest="reading"),
        "delta": SinkSpec(format="delta", path="delta"),
        "delta, every 0.5 s": SinkSpec(
            format="delta", path="often", options={"publish_every": "500 milliseconds"}
        ),
    }


def rows_of(job: int, rows: int) -> pa.Table:
    first = job * rows
    return pa.table(
        {
            "station": [n % 4 for n in range(rows)],
            "reading": list(range(first, first + rows)),
            "name": [f"station {n % 4}" for n in range(rows)],
        },
        schema=SCHEMA,
    )


@contextmanager
def publishing(
    sink: Sink, waiting: dict[int, CommittedFile], seen: dict[int, float]
) -> Iterator[None]:
    """Notes when files become visible; publishes as a run does."""
    ended = threading.Event()

    def look(*, now: bool) -> None:
        sink.publish(now=now)
        at = time.perf_counter()
        seen.update(
            {n: at for n, file in list(waiting.items()) if n not in seen and sink.settled(file)}
        )

    def work() -> None:
        while not ended.wait(PUBLISH_EVERY_S):
            look(now=False)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look(now=True)


def measure(name: str, spec: SinkSpec, folder: Path, jobs: int, rows: int) -> dict[str, Any]:
    log = CommitLog(folder / f"{name}.db")
    sink = make_sink(
        "q",
        spec,
        folder,
        folder / f"staging {name}",
        schema=SCHEMA,
        callback=lambda _rows, _key: None,
    )
    committed: dict[int, float] = {}
    waited: list[float] = []
    seen: dict[int, float] = {}
    waiting: dict[int, CommittedFile] = {}
    with publishing(sink, waiting, seen):
        for number in range(jobs):
            began = time.perf_counter()
            job = log.new_job()
            files = log.commit(job, [], sink.stage(job, rows_of(number, rows)))
            committed.update({file.id: time.perf_counter() for file in files})
            for file in files:
                bring(sink, file)
                if sink.settled(file):
                    seen[file.id] = time.perf_counter()
                else:
                    waiting[file.id] = file
            waited.append(time.perf_counter() - committed[files[0].id])
            time.sleep(max(0.0, EVERY_S - (time.perf_counter() - began)))
    sink.close()
    log.close()
    took = sorted(seen[n] - committed[n] for n in committed)
    return {
        "sink": name,
        "visible_p50_ms": round(1000 * statistics.median(took), 2),
        "visible_p95_ms": round(1000 * took[int(0.95 * len(took))], 2),
        "waits_p50_ms": round(1000 * statistics.median(waited), 2),
        "waits_p95_ms": round(1000 * sorted(waited)[int(0.95 * len(waited))], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="sinks.py", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    server = PostgresServer()
    found = []
    try:
        server.start()
        with tempfile.TemporaryDirectory() as folder:
            for name, spec in specs(server.dsn).items():
                found.append(measure(name, spec, Path(folder), given.jobs, given.rows))
    finally:
        server.close()
    if given.json:
        print(json.dumps(found, indent=2))
        return 0
    from rich.console import Console

    heads = ("sink", "visible p50", "p95 (ms)", "job waits p50", "p95 (ms)")
    Console().print(table([heads, *([str(v) for v in row.values()] for row in found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
