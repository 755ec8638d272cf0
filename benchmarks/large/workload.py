"""Rows of 250 bytes, 25 filters that keep each of them once, and 5 windows.

Row ``n`` has ``k = n % 25`` and an event time that grows with ``n``, so what every sink must hold
follows from the number of rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

SCHEMA = "n BIGINT, k INT, at TIMESTAMP, payload STRING"
FILTERS = 25
#: Rows of one second of event time; of one input file.
PER_SECOND, PER_FILE = 10_000, 250_000
#: A row has two numbers and an instant beside it.
PAYLOAD_BYTES = 226
#: Length and slide in seconds. The last two are computed from panes.
WINDOWS = {
    "w10": (10, 10),
    "w20": (20, 20),
    "w60": (60, 60),
    "w20by10": (20, 10),
    "w120": (120, 120),
}


def generate(folder: Path, rows: int, begin: int = 0) -> None:
    """Parquet files; texts are random, so that they do not compress."""
    folder.mkdir(parents=True)
    for first in range(begin, begin + rows, PER_FILE):
        n = np.arange(first, min(first + PER_FILE, begin + rows), dtype=np.int64)
        letters = np.random.default_rng(first).integers(65, 91, len(n) * PAYLOAD_BYTES, np.uint8)
        ends = np.arange(len(n) + 1, dtype=np.int32) * PAYLOAD_BYTES
        payload = pa.StringArray.from_buffers(len(n), pa.py_buffer(ends), pa.py_buffer(letters))
        at = pa.array(n * (1_000_000 // PER_SECOND)).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"n": n, "k": (n % FILTERS).astype(np.int32), "at": at, "p": payload})
        path = folder / f"{first:012d}.parquet"
        pq.write_table(table.rename_columns(["n", "k", "at", "payload"]), path)


def generate_file(path: Path, first: int, rows: int) -> None:
    """The same as one file."""
    folder = path.parent / f"{path.stem}-parts"
    generate(folder, rows, first)
    parts = sorted(folder.iterdir())
    with pq.ParquetWriter(path, pq.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(pq.read_table(part, partitioning=None), row_group_size=50_000)
            part.unlink()
    folder.rmdir()


def queries(windows: Sequence[str] = tuple(WINDOWS)) -> dict[str, str]:
    """SQL by name."""
    found = {f"f{k:02d}": f"SELECT n, payload FROM events WHERE k = {k}" for k in range(FILTERS)}
    for name in windows:
        length, slide = WINDOWS[name]
        found[name] = (
            "SELECT window.end AS e, k, count(*) AS c, sum(n) AS s FROM events "
            f"GROUP BY window(at, '{length} seconds', '{slide} seconds'), k"
        )
    return found


def wrong(out: Path, rows: int, windows: Sequence[str] = tuple(WINDOWS)) -> list[str]:
    """In what the sinks differ from what they must hold; nothing if in nothing."""
    found = []
    for k in range(FILTERS):
        n = _column(out / f"f{k:02d}", "n")
        due = np.arange(k, rows, FILTERS, dtype=np.int64)
        if not np.array_equal(np.sort(n), due):
            found.append(f"f{k:02d} holds {len(n)} rows, {len(np.unique(n))} of them different, "
                         f"of {len(due)}")  # fmt: skip
    for name in windows:
        length, slide = WINDOWS[name]
        table = _table(out / name, ["c", "s"])
        times = length // slide
        count, total = (pc.sum(table[c]).as_py() or 0 for c in ("c", "s"))
        due_total = times * (rows - 1) * rows // 2
        if (count, total) != (times * rows, due_total):
            found.append(f"{name} counts {count} rows of {times * rows}, sum {total}: {due_total}")
    return found


def _table(folder: Path, columns: list[str]) -> pa.Table:
    if not folder.is_dir():
        return pa.table({name: pa.array([], pa.int64()) for name in columns})
    files = [str(path) for path in folder.glob("*.parquet")]
    return ds.dataset(files, format="parquet").to_table(columns=columns)


def _column(folder: Path, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = _table(folder, [name])[name].to_numpy()
    return found
