"""What it takes to write a large segment to its Parquet file: as the log does, and by default.

Segments are short-lived and read as a whole, so dictionaries and statistics cost more than they
save. Rows are the generator's, and ones with strings; times are processor time, the least of
several calls, both ways in turn.

    python benchmarks/segments.py [--rows 100000] [--json]
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.cli.console import console
from daybreak.report.text import table
from daybreak.spark.ingest.generator import stations
from daybreak.spark.log.segment_files import write_segment

ROUNDS = 9
Write = Callable[[pa.Table, BinaryIO], None]
WAYS: Mapping[str, Write] = {"default": pq.write_table, "segment": write_segment}
HEAD = ["rows", "way", "write", "read", "bytes per row"]


def strings(rows: int) -> pa.Table:
    """Identifiers, names of a few places, and messages that are all different."""
    random = Random(1)
    places = [f"district {i}" for i in range(100)]
    columns = {
        "id": np.arange(rows),
        "place": [random.choice(places) for _ in range(rows)],
        "message": [f"user {random.randrange(10**6)} was seen" for _ in range(rows)],
        "level": [random.random() for _ in range(rows)],
    }
    return pa.table(columns)


def measure(rows: pa.Table) -> dict[str, dict[str, float]]:
    took: dict[str, list[tuple[float, float, int]]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, write in WAYS.items():
            out = io.BytesIO()
            began = time.process_time()
            write(rows, out)
            written = time.process_time()
            pq.read_table(io.BytesIO(out.getvalue()))
            read_s = time.process_time() - written
            took[way].append((written - began, read_s, len(out.getvalue())))
    return {
        way: {
            "write_ms": 1e3 * min(t[0] for t in times),
            "read_ms": 1e3 * min(t[1] for t in times),
            "bytes_per_row": times[0][2] / rows.num_rows,
        }
        for way, times in took.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000, help="of a segment")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    if args.rows < 1:
        parser.error(f"--rows {args.rows}: give at least 1")
    kinds = {
        "stations": stations(1, np.arange(args.rows, dtype=np.int64), 0),
        "strings": strings(args.rows),
    }
    found: dict[str, Any] = {kind: measure(rows) for kind, rows in kinds.items()}
    if args.json:
        sys.stdout.write(json.dumps({"rows": args.rows, "kinds": found}, indent=2) + "\n")
        return 0
    lines = [
        [
            kind,
            way,
            f"{f['write_ms']:.1f} ms",
            f"{f['read_ms']:.1f} ms",
            f"{f['bytes_per_row']:.1f}",
        ]
        for kind, ways in found.items()
        for way, f in ways.items()
    ]
    console().print(table([HEAD, *lines], title=f"A segment of {args.rows:,} rows"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
