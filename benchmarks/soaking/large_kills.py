"""kill -9 of an application whose rows never pass the driver, at every stage of that way.

Every micro-batch counts as large. Filters, a window and a query over a view must hold no row twice
at any moment, and every row in the end; what a kill leaves behind of any stage must be gone then.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benchmarks.soaking.application import left_behind
from benchmarks.soaking.kills import Death, Say, end_a_life, end_lives
from benchmarks.soaking.life import LARGE_STAGES

#: More than a life sees before it is ended.
FILES_PER_LIFE, ROWS_PER_FILE = 12, 500
PER_TRIGGER, LAST_PER_TRIGGER = 2, 500
QUERIES = {
    "everything": "SELECT n, text FROM events",
    "odd": "SELECT n FROM events WHERE n % 2 = 1",
    "third": "SELECT n FROM thirds WHERE n % 2 = 0",
}


def pipeline(per_trigger: int) -> str:
    queries = "".join(
        f'[queries.{name}]\nsql = "{sql}"\nsink = {{ format = "parquet", path = "out/{name}" }}\n'
        for name, sql in QUERIES.items()
    )
    return f"""
[app]
policy = "stride"
[spark]
master = "local[2]"
[limits]
driver_batch_bytes = 1
[streams.events]
format = "json"
path = "in"
schema = "n BIGINT, text STRING, at TIMESTAMP"
time = "at"
options = {{ maxFilesPerTrigger = {per_trigger} }}
[views.thirds]
sql = "SELECT n, text FROM events WHERE n % 3 = 0"
[queries.seconds]
sql = "SELECT window.end AS e, count(*) AS c FROM events GROUP BY window(at, '10 seconds')"
sink = {{ format = "parquet", path = "out/seconds" }}
{queries}"""


def deaths(count: int, seed: int) -> Iterator[Death]:
    """So many deaths, every stage in turn."""
    chance = random.Random(f"{seed}/large")
    stages = [*LARGE_STAGES, "commit", "deliver"]
    for number in range(count):
        moment = chance.choice(("before", "after"))
        yield Death(stages[number % len(stages)], chance.randint(1, 3), moment, jvm=False)


def large_kills(
    count: int, seed: int, folder: Path, say: Say = lambda _line: None
) -> dict[str, Any]:
    """So many lives, each ended as drawn; the last one lives until it has read everything."""
    rows = count * FILES_PER_LIFE * ROWS_PER_FILE
    _write_input(folder / "in", rows)
    (folder / "pipeline.toml").write_text(pipeline(PER_TRIGGER))
    ended = end_lives(
        folder,
        deaths(count, seed),
        lambda death: end_a_life(folder, death, "--until-end"),
        lambda: _twice(folder),
        pipeline(LAST_PER_TRIGGER),
        lambda: _wrong(folder, rows),
        say,
    )
    return {**ended, "rows": rows, "seed": seed}


def _write_input(folder: Path, rows: int) -> None:
    folder.mkdir()
    for first in range(0, rows, ROWS_PER_FILE):
        records = (
            {"n": n, "text": f"row {n}", "at": f"2024-01-01T{n // 3600:02d}:{n // 60 % 60:02d}:00Z"}
            for n in range(first, first + ROWS_PER_FILE)
        )
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{first:08d}.json").write_text(text)


def _numbers(folder: Path, query: str, column: str = "n") -> list[int]:
    paths = (folder / "out" / query).glob("*.parquet")
    return [n for p in paths for n in pq.read_table(p, partitioning=None)[column].to_pylist()]


def _twice(folder: Path) -> list[str]:
    held = Counter(_numbers(folder, "everything"))
    return [f"{n} came twice" for n, times in held.items() if times > 1][:1]


def _wrong(folder: Path, rows: int) -> list[str]:
    due = {
        "everything": range(rows),
        "odd": range(1, rows, 2),
        "third": range(0, rows, 6),
    }
    wrong = [
        f"{query} does not hold {len(wanted)} rows once"
        for query, wanted in due.items()
        if sorted(_numbers(folder, query)) != list(wanted)
    ]
    if sum(_numbers(folder, "seconds", "c")) != rows:
        wrong.append("windows do not count every row once")
    return wrong + left_behind(folder / "out")
