"""One StreamingQuery per query, as Spark's guide has it, into its own Parquet file sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.versus.sides.common import add_stations, refuse, session, source, watching
from benchmarks.versus.workload import CLASSES, STREAM, Other, Task
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_MODE_WORDS = {
    "fifo": "FIFO",
    "fair": "FAIR, a pool per query",
    "pools": "FAIR, a pool per class, weights 60/30/10",
}
MODES = tuple(_MODE_WORDS)


def settings(mode: str, *, tuned: bool) -> str:
    how = (
        "FileSystemBasedCheckpointFileManager; pollingDelay 4 ms per query, from 10 ms to 1 s; "
        "AQE off, 2 shuffle partitions"
        if tuned
        else "Spark's defaults"
    )
    return f"one StreamingQuery per query, scheduler {_MODE_WORDS[mode]}; {how}"


def running(
    mode: str, *, tuned: bool
) -> Callable[[Task], AbstractContextManager[Callable[[], dict[str, Any]]]]:
    @contextmanager
    def run(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
        conf = _scheduler_conf(mode, Path(task.work))
        if tuned:
            # Idle queries poll: at 10 ms a hundred of them burn almost two cores.
            delay_ms = min(1000, max(10, 4 * task.queries))
            conf["spark.sql.streaming.pollingDelay"] = f"{delay_ms}ms"
        spark = session(task, tuned=tuned, extra_conf=conf)
        started = []
        for query in task.filters:
            pool = {"fair": query.name, "pools": query.cls}.get(mode)
            # The streaming query's thread inherits the pool of the thread that starts it.
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool or "default")
            writer = (
                source(spark, task)
                .where(query.condition)
                .select("id", "created_us", "station", "temperature")
                .writeStream.format("parquet")
                .queryName(query.name)
                .option("checkpointLocation", str(task.checkpoints / query.name))
            )
            started.append(writer.start(str(task.sink(query))))
        if task.mixed:
            add_stations(spark)
            source(spark, task).createOrReplaceTempView(STREAM)
        for other in task.others:
            pool = {"fair": other.name, "pools": other.cls}.get(mode)
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool or "default")
            extra = _start(spark, task, other)
            if not other.fails:
                started.append(extra)
        yield watching(started)

    return run


def _start(spark: SparkSession, task: Task, other: Other) -> StreamingQuery:
    writer = spark.sql(other.sql).writeStream.queryName(other.name)
    writer = writer.option("checkpointLocation", str(task.checkpoints / other.name))
    if other.fails:
        return writer.foreachBatch(refuse).start()
    return writer.format("parquet").start(str(task.output / other.name))


def _scheduler_conf(mode: str, folder: Path) -> dict[str, str]:
    if mode == "fifo":
        return {"spark.scheduler.mode": "FIFO"}
    pools = "".join(
        f'<pool name="{name}"><schedulingMode>FAIR</schedulingMode><weight>{weight}</weight></pool>'
        for name, weight in CLASSES.items()
    )
    file = folder / "pools.xml"
    file.write_text(f'<?xml version="1.0"?><allocations>{pools}</allocations>', encoding="utf-8")
    return {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": file.as_uri()}
