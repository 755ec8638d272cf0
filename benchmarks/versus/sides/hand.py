"""What an expert writes who knows all queries in advance: one job per class and batch.

One StreamingQuery. Its ``foreachBatch`` runs, class by class and critical first, one SQL text
with one bit per query, takes the result as Arrow, cuts out every query's rows and writes them
with pyarrow. File names hold the batch id, so a batch that Spark repeats replaces its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.versus.sides.common import session, source, watching, write_file
from benchmarks.versus.workload import CLASSES, COLUMNS, STREAM, Filter, Task
from pyspark.sql import DataFrame

BITS = 62
WRITERS = 4


def settings(*, sync: bool) -> str:
    durable = "fsync of files and folders" if sync else "no fsync, as Spark itself writes"
    return (
        "one StreamingQuery, foreachBatch: one composited SQL per class, critical first, one bit "
        f"per query, toArrow, files by pyarrow in {WRITERS} threads, {durable}; settings as tuned"
    )


def running(*, sync: bool) -> Callable[[Task], AbstractContextManager[Callable[[], Any]]]:
    @contextmanager
    def run(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
        spark = session(task, tuned=True)
        groups = [[q for q in task.filters if q.cls == cls] for cls in CLASSES]
        prepared = [(group, _sql(group)) for group in groups if group]
        for query in task.filters:
            task.sink(query).mkdir(parents=True, exist_ok=True)
        writers = ThreadPoolExecutor(WRITERS)

        def batch(frame: DataFrame, batch_id: int) -> None:
            frame.createOrReplaceTempView(STREAM)

            def write(result: tuple[Filter, pa.Table]) -> None:
                query, rows = result
                if rows.num_rows:
                    write_file(task.sink(query), f"{batch_id:08d}.parquet", rows, sync=sync)

            for group, sql in prepared:
                found = frame.sparkSession.sql(sql).toArrow()
                list(writers.map(write, _cut(group, found)))

        streaming = (
            source(spark, task)
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(task.checkpoints / STREAM))
            .start()
        )
        yield watching([streaming])

    return run


def _sql(group: Sequence[Filter]) -> str:
    """All rows with their bits. No WHERE: Spark would push it below the projection and compute
    every condition twice; together the queries of a class want most rows anyway.
    """
    masks = [
        " + ".join(
            f"IF({query.condition}, {1 << bit}L, 0L)"
            for bit, query in enumerate(group[first : first + BITS])
        )
        for first in range(0, len(group), BITS)
    ]
    named = ", ".join(f"{mask} AS m{i}" for i, mask in enumerate(masks))
    return f"SELECT {', '.join(COLUMNS)}, {named} FROM {STREAM}"


def _cut(group: Sequence[Filter], found: pa.Table) -> Iterator[tuple[Filter, pa.Table]]:
    columns = found.select(list(COLUMNS)).combine_chunks()
    for first in range(0, len(group), BITS):
        mask = found[f"m{first // BITS}"].to_numpy()
        for bit, query in enumerate(group[first : first + BITS]):
            rows = np.flatnonzero(mask & np.int64(1 << bit))
            yield query, columns.take(pa.array(rows))
