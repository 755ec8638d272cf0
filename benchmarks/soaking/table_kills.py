"""kill -9 of an application that reads files and writes tables, at random moments.

A Delta table and a table in PostgreSQL must hold no row twice at any moment, and every row in the
end; a table that is upserted by key must hold the newest row of each key. Another engine reads
them: DuckDB the files that the log of the Delta table lists, psycopg the tables in PostgreSQL. The
server lives on; the rows are in files before the first life begins.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from benchmarks.servers import PostgresServer
from benchmarks.soaking.delta_reader import delta_rows
from benchmarks.soaking.kills import Death, Say, end_a_life, end_lives
from benchmarks.soaking.life import TABLE_STAGES

#: More than a life sees before it is ended: it reads ``PER_TRIGGER`` of them each 150 ms.
FILES_PER_LIFE, ROWS_PER_FILE = 60, 40
PER_TRIGGER, LAST_PER_TRIGGER = 1, 500
STATIONS = 7


def pipeline(dsn: str, per_trigger: int) -> str:
    return f"""
[app]
policy = "stride"
[spark]
master = "local[2]"
[streams.readings]
format = "json"
path = "in"
schema = "reading INT, station INT, day INT"
trigger = "150 milliseconds"
options = {{ maxFilesPerTrigger = {per_trigger} }}
[queries.everything]
sql = "SELECT reading, day FROM readings"
[queries.everything.sink]
format = "delta"
path = "out/everything"
partition_by = ["day"]
options = {{ publish_every = "300 milliseconds" }}
[queries.odd]
sql = "SELECT reading, station FROM readings WHERE reading % 2 = 1"
[queries.odd.sink]
format = "postgres"
options = {{ url = "{dsn}", table = "odd", create = true }}
[queries.latest]
sql = "SELECT station, reading FROM readings"
[queries.latest.sink]
format = "postgres"
options = {{ url = "{dsn}", table = "latest", create = true, key = "station", newest = "reading" }}
"""


def row(number: int) -> dict[str, int]:
    return {"reading": number, "station": number * 5 % STATIONS, "day": number // 1000}


def deaths(count: int, seed: int) -> Iterator[Death]:
    """So many deaths: the first one while it works, the second just after rows were written."""
    chance = random.Random(f"{seed}/tables")
    stages = ["working", "working", "starting", "commit", "stage", *TABLE_STAGES]
    for number in range(count):
        stage = chance.choice(stages)
        if number < 2:
            stage = ("working", chance.choice(("append", "write")))[number]
        if stage in ("working", "starting"):
            longest_s = 2.0 if stage == "working" else 8.0
            yield Death(stage, chance.uniform(0.0, longest_s), "", chance.random() < 0.5)
        else:
            moment = "after" if number < 2 else chance.choice(("before", "after"))
            yield Death(stage, chance.randint(1, 6), moment, jvm=False)


def table_kills(
    count: int, seed: int, folder: Path, server: PostgresServer, say: Say = lambda _line: None
) -> dict[str, Any]:
    """So many lives, each ended as drawn; the last one lives until it has read everything."""
    rows = count * FILES_PER_LIFE * ROWS_PER_FILE
    _write_input(folder / "in", rows)
    (folder / "pipeline.toml").write_text(pipeline(server.dsn, PER_TRIGGER))
    ended = end_lives(
        folder,
        deaths(count, seed),
        lambda death: end_a_life(folder, death, files=_files),
        lambda: _twice(folder, server.dsn),
        pipeline(server.dsn, LAST_PER_TRIGGER),
        lambda: _differences(folder, server.dsn, rows),
        say,
    )
    versions = len(list((folder / "out/everything/_delta_log").glob("*.json")))
    return {**ended, "rows": rows, "versions": versions, "seed": seed}


def soak_tables(count: int, seed: int, folder: Path, say: Say) -> dict[str, Any]:
    """The kills with a server of their own."""
    server = PostgresServer()
    try:
        server.start()
        return table_kills(count, seed, folder, server, say)
    finally:
        server.close()


def _write_input(folder: Path, rows: int) -> None:
    folder.mkdir()
    for first in range(0, rows, ROWS_PER_FILE):
        lines = (json.dumps(row(number)) + "\n" for number in range(first, first + ROWS_PER_FILE))
        (folder / f"{first:08d}.json").write_text("".join(lines))


def _files(folder: Path) -> int:
    return len(list((folder / "out/everything").glob("day=*/*.parquet")))


def _held(folder: Path, dsn: str) -> dict[str, Counter[tuple[int, int]]]:
    """What readers of the three tables find."""
    table = folder / "out/everything"
    delta = delta_rows(table, "reading, CAST(day AS INT)") if table.exists() else []
    with psycopg.connect(dsn) as connection:
        known = connection.execute("SELECT to_regclass('odd'), to_regclass('latest')").fetchone()
        odd, latest = known or (None, None)
        return {
            "everything": Counter(delta),
            "odd": Counter(connection.execute("SELECT reading, station FROM odd") if odd else ()),
            "latest": Counter(
                connection.execute("SELECT station, reading FROM latest") if latest else ()
            ),
        }


def _twice(folder: Path, dsn: str) -> list[str]:
    return [
        f"{table} holds {sum(n > 1 for n in held.values())} rows twice"
        for table, held in _held(folder, dsn).items()
        if any(n > 1 for n in held.values())
    ]


def _differences(folder: Path, dsn: str, rows: int) -> list[str]:
    every = [row(number) for number in range(rows)]
    newest = {one["station"]: one["reading"] for one in every}
    expected = {
        "everything": Counter((r["reading"], r["day"]) for r in every),
        "odd": Counter((r["reading"], r["station"]) for r in every if r["reading"] % 2),
        "latest": Counter(newest.items()),
    }
    held = _held(folder, dsn)
    return [
        f"{table}: {(due - held[table]).total()} rows missing, "
        f"{(held[table] - due).total()} too many"
        for table, due in expected.items()
        if held[table] != due
    ]
