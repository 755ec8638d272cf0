"""Daybreak itself: the queries declared one by one, nothing known about them in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.versus.sides.common import MEMORY, add_stations, refuse
from benchmarks.versus.workload import CLASSES, QOS, STREAM, WATERMARK, Task
from examples.kafka.broker import connector_jars

from daybreak import App
from daybreak.model.specs import IngestWay, StreamSpec
from daybreak.runtime.report import RunReport

_INGEST: Mapping[IngestWay, str] = {
    "auto": "",
    "direct": "; the source read by Daybreak itself (ingest = direct)",
    "spark": "; the source read by a StreamingQuery (ingest = spark), triggered as soon as the "
    "last batch has ended, as on every side by hand (Daybreak's default is every 100 ms)",
}


def settings(ingest: IngestWay = "auto", express: int = 0) -> str:
    more = "; one express worker more" if express else ""
    return (
        "daybreak.App: every query declared by itself with its class, rider bound 0.1 s, 2 "
        f"workers, under planned 3 (the defaults){_INGEST[ingest]}{more}"
    )


def running(
    ingest: IngestWay = "auto", express: int = 0
) -> Callable[[Task], AbstractContextManager[Callable[[], dict[str, Any]]]]:
    @contextmanager
    def run(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
        with _running(task, ingest, express) as check:
            yield check

    return run


@contextmanager
def _running(task: Task, ingest: IngestWay, express: int) -> Iterator[Callable[[], dict[str, Any]]]:
    jars = [str(jar) for jar in connector_jars()] if task.servers else []
    app = App.local("versus-daybreak", cores=task.cores, jars=jars, **MEMORY)
    for name, priority in CLASSES.items():
        app.query_class(name, priority, qos=QOS[name])
    _declare_stream(app, task, ingest)
    add_stations(app.spark)
    for query in task.filters:
        sink = {"format": "parquet", "path": str(task.sink(query))}
        app.query(query.name, sql=query.sql, cls=query.cls, sink=sink)
    for other in task.others:
        folder = {"format": "parquet", "path": str(task.output / other.name)}
        app.query(other.name, sql=other.sql, cls=other.cls, sink=refuse if other.fails else folder)
    run = app.run(
        task.policy,
        run_dir=Path(task.work) / "run",
        rider_bound_s=task.rider_bound_s,
        express=express,
    )

    def check() -> dict[str, Any]:
        run.healthy()
        failed = {n: why for n, why in run.failures.items() if n != "broken"}
        if failed:
            raise RuntimeError(f"queries failed: {failed}")
        return {}

    told: dict[str, Any] = {}

    def check_and_tell() -> dict[str, Any]:
        return told or check()

    try:
        yield check_and_tell
    finally:
        told.update(_told(run.stop()))


def _declare_stream(app: App, task: Task, ingest: IngestWay) -> None:
    trigger = "0 seconds" if ingest == "spark" else StreamSpec.trigger
    if task.servers:
        options = {"kafka.bootstrap.servers": task.servers, "subscribe": STREAM}
        app.stream(
            STREAM, format="kafka", schema=task.schema, ingest=ingest,
            options={**options, "startingOffsets": "earliest"}, trigger=trigger,
        )  # fmt: skip
        return
    app.stream(
        STREAM, format="parquet", path=str(task.input), schema=task.schema, ingest=ingest,
        time="at" if task.mixed or task.timed else None,
        watermark=WATERMARK if task.mixed else None,
        trigger=trigger,
    )  # fmt: skip


def _told(report: RunReport) -> dict[str, Any]:
    """Where the threads' time went, by the run's own record, warm-up and drain included."""
    spent = report.spent
    jobs = sum(report.boxes["calls"]) if "calls" in report.boxes else None
    return {
        "scheduling_share": spent.scheduling_ns / max(1, spent.wall_ns),
        "spark_s": spent.work_ns / 1e9,
        "commit_s": spent.call_ns / 1e9,
        "wall_s": spent.wall_ns / 1e9,
        "answers": jobs,
    }
