"""The strongest program by hand that we know: no Spark SQL after the source, every filter in numpy.

One StreamingQuery. Its ``foreachBatch`` takes the batch as Arrow once, filters its columns in the
driver, query by query, critical ones first, and writes the files in four threads. It knows that all
queries are conditions on three numbers; no general system could. File names hold the batch id, so a
batch that Spark repeats replaces its files.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.versus.sides.common import session, source, watching
from benchmarks.versus.workload import COLUMNS, STREAM, Filter, Task
from pyspark.sql import DataFrame

WRITERS = 4


def settings(*, sync: bool) -> str:
    durable = "fsync of files and folders" if sync else "no fsync, as Spark itself writes"
    return (
        "one StreamingQuery, foreachBatch: toArrow once, every filter in numpy, critical first, "
        f"files by pyarrow in {WRITERS} threads, {durable}; settings as tuned"
    )


def running(*, sync: bool) -> Callable[[Task], AbstractContextManager[Callable[[], Any]]]:
    @contextmanager
    def run(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
        spark = session(task, tuned=True)
        for query in task.filters:
            task.sink(query).mkdir(parents=True, exist_ok=True)
        folders = {query.name: str(task.sink(query)) for query in task.filters}
        writers = ThreadPoolExecutor(WRITERS)

        def batch(frame: DataFrame, batch_id: int) -> None:
            rows = frame.toArrow()
            columns = rows.select(list(COLUMNS)).combine_chunks()
            temperature, wind = rows["temperature"].to_numpy(), rows["wind"].to_numpy()

            def answer(query: Filter) -> None:
                passes = (temperature >= query.low) & (temperature < query.high)
                found = np.flatnonzero(passes & (wind > query.wind))
                if len(found):
                    path = f"{folders[query.name]}/{batch_id:08d}.parquet"
                    _write(path, columns.take(pa.array(found)), sync=sync)

            list(writers.map(answer, task.filters))

        streaming = (
            source(spark, task)
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(task.checkpoints / STREAM))
            .start()
        )
        yield watching([streaming])

    return run


def _write(path: str, rows: pa.Table, *, sync: bool) -> None:
    """A whole file or none, with as few calls of the system as that takes."""
    encoded = io.BytesIO()
    pq.write_table(rows, encoded)
    folder, name = os.path.split(path)
    partial = f"{folder}/_{name}.partial"
    _put(partial, encoded.getbuffer(), sync=sync)
    os.rename(partial, path)  # noqa: PTH104  # pathlib takes longer
    if sync:
        _sync_folder(folder)


def _put(path: str, content: memoryview, *, sync: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.write(handle, content)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
