"""One StreamingQuery; its ``foreachBatch`` runs every query over the batch in four threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from benchmarks.versus.sides.common import session, source, watching, write_file
from benchmarks.versus.workload import STREAM, Filter, Task
from pyspark.sql import DataFrame

THREADS = 4


def settings(*, arrow: bool) -> str:
    how = (
        "toArrow, one Parquet file by pyarrow with fsync and rename"
        if arrow
        else "write.mode('append').parquet"
    )
    return (
        f"one StreamingQuery, foreachBatch: batch cached, every query a job in {THREADS} threads, "
        f"critical first; {how}; settings as tuned"
    )


def running(*, arrow: bool) -> Callable[[Task], AbstractContextManager[Callable[[], Any]]]:
    @contextmanager
    def run(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
        spark = session(task, tuned=True)
        queries = task.filters  # critical ones come first
        for query in queries:
            task.sink(query).mkdir(parents=True, exist_ok=True)
        threads = ThreadPoolExecutor(THREADS)

        def batch(frame: DataFrame, batch_id: int) -> None:
            frame.persist()
            frame.createOrReplaceTempView(STREAM)

            def answer(query: Filter) -> None:
                rows = frame.sparkSession.sql(query.sql)
                if not arrow:
                    rows.coalesce(1).write.mode("append").parquet(str(task.sink(query)))
                    return
                table = rows.toArrow()
                if table.num_rows:
                    name = f"{batch_id:08d}.parquet"  # a repeated batch replaces its files
                    write_file(task.sink(query), name, table, sync=True)

            list(threads.map(answer, queries))
            frame.unpersist()

        streaming = (
            source(spark, task)
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(task.checkpoints / STREAM))
            .start()
        )
        yield watching([streaming])

    return run
