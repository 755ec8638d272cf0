"""One driver over the large workload, in a process of its own.

    python -m benchmarks.large.driver SETTINGS.json

prints what it measured as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.large.heap import HeapWatch
from benchmarks.large.workload import SCHEMA, WINDOWS, queries

from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.run import Run
from daybreak.spark.session import local_session

PATIENCE_S = 3000.0


@dataclass(frozen=True)
class Settings:
    """What a driver runs."""

    master: str
    #: Its own folder, which another driver need not have.
    home: str
    #: Input, and the folder of all sinks.
    events: str
    out: str
    #: Of the application: another one for another input.
    name: str = "large"
    log: str | None = None
    store: str | None = None
    #: None: as it is by default.
    driver_batch_bytes: int | None = None
    windows: tuple[str, ...] = tuple(WINDOWS)
    conf: dict[str, str] = field(default_factory=dict)
    workers: int = 2
    #: A file that is moved to the input when all the rest is answered; then only it is measured.
    later: str | None = None

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path


def run(given: Settings) -> dict[str, object]:
    conf = {"spark.master": given.master, **given.conf}
    spark = local_session("large", extra_conf=conf)
    limits = Limits(retries=20, lease_s=5.0)
    if given.driver_batch_bytes is not None:
        limits = replace(limits, driver_batch_bytes=given.driver_batch_bytes)
    app = App(
        spark, folder=Path(given.home), name=given.name, log=given.log, store=given.store,
        limits=limits,
    )  # fmt: skip
    app.stream("events", format="parquet", schema=SCHEMA, path=given.events, time="at")
    for name, sql in queries(given.windows).items():
        app.query(name, sql=sql, sink={"format": "parquet", "path": f"{given.out}/{name}"})
    heap, began = HeapWatch(spark, peaks_file(Path(given.home))), time.monotonic()
    with app.run(run_dir=Path(given.home) / "run", workers=given.workers) as running:
        heap.counted = partial(_counted, running)
        if given.later is not None:
            running.drain(PATIENCE_S)
            began = time.monotonic()
            Path(given.later).rename(Path(given.events) / "later.parquet")
        running.drain(PATIENCE_S, flush=given.later is None)
        took_s = time.monotonic() - began
        snapshot, counted = running.snapshot(), _counted(running)
    measured = heap.stop()
    failures = running.failures
    spark.stop()
    if failures:
        raise SystemExit(f"parked: {failures}")
    return {
        "took_s": round(took_s, 2),
        **counted,
        "jobs": sum(q.jobs for q in snapshot.queries),
        **measured,
    }


def peaks_file(home: Path) -> Path:
    """Beside the driver's own folder, which a test deletes."""
    return home.with_name(f"{home.name}-peaks.json")


def _counted(running: Run) -> dict[str, int]:
    passed = running.parts.storage.store.driver_rows
    return {
        "rows": running.parts.scheduling.driver.engine.view.arrived_rows.get("events", 0),
        "rows_through_driver": passed.streams.get("events", 0),
        "result_rows_through_driver": sum(passed.queries.values()),
    }


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(run(Settings(**{**found, "windows": tuple(found["windows"])}))), flush=True)
