"""kill -9 of an application that reads files, at every stage of that way.

Every batch counts as large, so that its rows never pass the driver, or none does. Filters, a
window and a query over a view must hold no row twice at any moment, and every row in the end; what
a kill leaves behind of any stage must be gone then.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benchmarks.soaking.application import left_behind
from benchmarks.soaking.kills import Death, Say, end_a_life, end_lives
from benchmarks.soaking.life import DIRECT_STAGES, LARGE_STAGES

#: More than a life sees before it is ended.
FILES_PER_LIFE, ROWS_PER_FILE = 12, 500
PER_TRIGGER, LAST_PER_TRIGGER = 2, 500
QUERIES = {
    "everything": "SELECT n, text FROM events",
    "odd": "SELECT n FROM events WHERE n % 2 = 1",
    "third": "SELECT n FROM thirds WHERE n % 2 = 0",
}


def pipeline(per_trigger: int, batch_bytes: int = 1) -> str:
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
driver_batch_bytes = {batch_bytes}
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


def deaths(count: int, seed: int, stages: Sequence[str]) -> Iterator[Death]:
    """So many deaths, every stage in turn."""
    chance = random.Random(f"{seed}/large")
    for number in range(count):
        moment = chance.choice(("before", "after"))
        yield Death(stages[number % len(stages)], chance.randint(1, 3), moment, jvm=False)


def large_kills(
    count: int, seed: int, folder: Path, say: Say = lambda _line: None
) -> dict[str, Any]:
    """So many lives, each ended as drawn; the last one lives until it has read everything."""
    return _kills(count, seed, folder, [*LARGE_STAGES, "commit", "deliver"], 1, say)


def direct_kills(
    count: int, seed: int, folder: Path, say: Say = lambda _line: None
) -> dict[str, Any]:
    """The same of batches whose rows pass the driver."""
    stages = [*DIRECT_STAGES, "ingest", "segment listed"]
    random.Random(seed).shuffle(stages)
    return _kills(count, seed, folder, stages, 2**25, say)


def _kills(
    count: int, seed: int, folder: Path, stages: Sequence[str], batch_bytes: int, say: Say
) -> dict[str, Any]:
    rows = count * FILES_PER_LIFE * ROWS_PER_FILE
    _write_input(folder / "in", rows)
    (folder / "pipeline.toml").write_text(pipeline(PER_TRIGGER, batch_bytes))
    ended = end_lives(
        folder,
        deaths(count, seed, stages),
        lambda death: end_a_life(folder, death, "--until-end"),
        lambda: _twice(folder),
        pipeline(LAST_PER_TRIGGER, batch_bytes),
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
        text = "".join(json.dumps(record) + "\n" for record in records) + f"malformed {first}\n"
        (folder / f"{first:08d}.json").write_text(text)


def _numbers(folder: Path, query: str, column: str = "n") -> list[int]:
    paths = (folder / "out" / query).glob("*.parquet")
    return [n for p in paths for n in pq.read_table(p, partitioning=None)[column].to_pylist()]


def _records(path: Path) -> list[str]:
    records: list[str] = pq.read_table(path, partitioning=None)["record"].to_pylist()
    return records


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
    kept = [n for p in (folder / "runs").glob("*/dead/events/*.parquet") for n in _records(p)]
    if sorted(kept) != sorted(f"malformed {first}" for first in range(0, rows, ROWS_PER_FILE)):
        wrong.append("malformed records are not kept once")
    return wrong + left_behind(folder / "out")
