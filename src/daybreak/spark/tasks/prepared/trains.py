"""Rows on their way to the JVM and back, as Arrow in files in memory.

(Through the gateway's own socket a reply of over 8 KB waits 40 ms for an acknowledgement.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.sql.composite import typed


def write_train(path: Path, table: pa.Table, reads: list[int], layout: pa.Schema) -> None:
    """The columns that are read, typed as the plan's leaf has them."""
    # A stream that never had a row has no columns, either.
    rows = typed(table.select(reads), layout) if table.num_columns else layout.empty_table()
    with path.open("wb") as file, pa.ipc.new_stream(file, layout) as writer:
        for batch in rows.to_batches():
            if batch.num_rows:  # Spark reads batches up to the first empty one
                writer.write_batch(batch)


def read_result(path: Path, schema: pa.Schema) -> pa.Table:
    """What a plan has written."""
    found = list(_streams(path))
    return pa.concat_tables(found) if found else schema.empty_table()


def read_places(path: Path) -> NDArray[np.int32]:
    """Of the rows of a train, the places of those that a result is of."""
    return np.fromfile(path, np.dtype("<i4")).astype(np.int32, copy=False)


def _streams(path: Path) -> Iterator[pa.Table]:
    """Arrow streams one after the other, each behind its length."""
    content = memoryview(path.read_bytes())
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        yield pa.ipc.open_stream(content[4:end]).read_all()
        content = content[end:]
