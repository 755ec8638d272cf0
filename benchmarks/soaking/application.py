"""What is killed and starved here: filters with sinks of every file format, and windows.

Row n of the generator is always the same row but for its time, and ``everything`` keeps that: so
what every sink must hold in the end follows from the number of rows and from ``everything`` alone.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model.overlaps import LOCK
from daybreak.spark.ingest.generator import KINDS

SEED = 7
LOG = "log.txt"


def pipeline(
    rows: int,
    rate_per_s: float,
    *,
    train: int = 200,
    limits: str = "",
    app: str = "",
    out: str = "out",
) -> str:
    """The text of the pipeline file; ``limits`` and ``app`` are lines of these tables.

    ``out``: the folder of the sinks.
    """
    return f"""
[app]
policy = "stride"
{app}
[policy]
train = {train}
[limits]
{limits}
[classes]
high = 5
low = 1
[streams.readings]
format = "generator"
options = {{ seed = {SEED}, limit = {rows} }}
arrivals = {{ rate_per_s = {rate_per_s} }}
time = "at"
[queries.everything]
class = "low"
sql = "SELECT reading, station, temperature, wind, at FROM readings"
sink = {{ format = "parquet", path = "{out}/everything" }}
[queries.warm]
class = "high"
sql = "SELECT reading, temperature FROM readings WHERE temperature > 20"
sink = {{ format = "json", path = "{out}/warm" }}
[queries.windy]
class = "low"
sql = "SELECT reading FROM readings WHERE wind > 45"
sink = {{ format = "csv", path = "{out}/windy" }}
[queries.tumbling]
class = "high"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"
sink = {{ format = "parquet", path = "{out}/tumbling" }}
[queries.sliding]
class = "low"
sql = '''
SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '2 seconds', '1 second')
'''
sink = {{ format = "parquet", path = "{out}/sliding" }}
"""


def start(
    folder: Path,
    *options: str,
    wrapper: Sequence[str] = ("-m", "daybreak"),
    log: Path | None = None,
    java_options: str | None = None,
) -> subprocess.Popen[bytes]:
    """``daybreak run`` in a process group of its own; all it says goes to ``log``.

    ``wrapper``: what Python runs instead of the command itself.
    """
    options_of_java = {} if java_options is None else {"SPARK_SUBMIT_OPTS": java_options}
    with (log or folder / LOG).open("ab") as said:
        return subprocess.Popen(
            [sys.executable, *wrapper, "run", "pipeline.toml", "--json", *options],
            cwd=folder,
            stdout=said,
            stderr=said,
            env={**os.environ, **options_of_java, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )


def delivered(folder: Path, query: str) -> list[Path]:
    """Files that a reader of the sink sees."""
    return [p for p in (folder / "out" / query).glob("*.*") if p.is_file()]


def readings(folder: Path, query: str) -> list[int]:
    """Column ``reading`` of all that a sink holds, sorted."""
    return sorted(int(row["reading"]) for row in _rows(delivered(folder, query)))


def differences(folder: Path, rows: int) -> list[str]:
    """In what the sinks differ from the oracle over all rows; nothing if in nothing."""
    made = KINDS["stations"].make(SEED, np.arange(rows, dtype=np.int64), 0)
    expected: dict[str, Iterable[tuple[int, ...]]] = {
        "everything": _tuples(made, "reading", "station", "temperature", "wind"),
        "warm": [r for r in _tuples(made, "reading", "temperature") if r[1] > 20],
        "windy": [r[:1] for r in _tuples(made, "reading", "wind") if r[1] > 45],
    }
    columns = {
        "everything": ("reading", "station", "temperature", "wind"),
        "warm": ("reading", "temperature"),
        "windy": ("reading",),
        "tumbling": ("e", "n"),
        "sliding": ("e", "n"),
    }
    seconds = Counter(int(r["at"].timestamp()) for r in _rows(delivered(folder, "everything")))
    expected["tumbling"] = [(s + 1, n) for s, n in seconds.items()]
    ends = {s + past for s in seconds for past in (1, 2)}
    expected["sliding"] = [(e, seconds[e - 1] + seconds[e - 2]) for e in ends]
    wrong = []
    for query, wanted in expected.items():
        held = Counter(
            tuple(_whole(row[c]) for c in columns[query]) for row in _rows(delivered(folder, query))
        )
        due = Counter(wanted)
        if held != due:
            wrong.append(
                f"{query}: {(due - held).total()} rows missing, {(held - due).total()} too many"
            )
    return wrong + left_behind(folder / "out")


def left_behind(out: Path) -> list[str]:
    """What sinks have staged and neither delivered nor removed; their locks stay."""
    found = (path for path in out.rglob("_staging/*") if path.is_file() and path.name != LOCK)
    return [f"{path} was left behind" for path in found]


def twice(folder: Path) -> list[str]:
    """Rows of ``everything`` that a reader sees more than once: at no moment is there any."""
    seen = Counter(readings(folder, "everything"))
    again = [reading for reading, times in seen.items() if times > 1]
    return [f"everything holds {len(again)} rows twice, such as {again[0]}"] if again else []


def _rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        if path.suffix == ".parquet":
            yield from pq.read_table(path, partitioning=None).to_pylist()
        elif path.suffix == ".json":
            yield from map(json.loads, path.read_text().splitlines())
        else:
            with path.open(newline="") as lines:
                yield from csv.DictReader(lines)


def _tuples(table: pa.Table, *columns: str) -> list[tuple[int, ...]]:
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def _whole(value: Any) -> int:
    return int(value.timestamp()) if hasattr(value, "timestamp") else int(value)
