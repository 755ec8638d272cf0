"""kill -9 of an application that reads a topic and writes files and a topic, at random moments.

The files must hold every row once, at every moment. The output topic must hold every row at least
once in the end, and the headers of its records must identify repetitions: without them, each row
is there once. The broker lives on; the rows are in the input topic before the first life begins.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soaking.application import readings, twice
from benchmarks.soaking.kills import Death, Say, end_a_life, end_lives
from examples.kafka.broker import REMEDY, Broker, can_start, connector_jars
from examples.kafka.topics import create, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: More than a life sees before it is ended.
ROWS_PER_LIFE = 4000
PER_TRIGGER, LAST_PER_TRIGGER = 50, 20_000
INPUT, OUTPUT = "kills-in", "kills-warm"


def pipeline(servers: str, per_trigger: int) -> str:
    jars = json.dumps([str(jar) for jar in connector_jars()])
    return f"""
[app]
policy = "stride"
[spark]
jars = {jars}
master = "local[2]"
[classes]
high = 5
low = 1
[streams.readings]
format = "kafka"
schema = "reading INT, temperature INT"
[streams.readings.options]
kafka.bootstrap.servers = "{servers}"
subscribe = "{INPUT}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {per_trigger}
[queries.everything]
class = "low"
sql = "SELECT reading FROM readings"
sink = {{ format = "parquet", path = "out/everything" }}
[queries.warm]
class = "high"
sql = "SELECT reading, temperature FROM readings WHERE temperature > 20"
[queries.warm.sink]
format = "kafka"
options = {{ kafka.bootstrap.servers = "{servers}", topic = "{OUTPUT}" }}
"""


def row(number: int) -> dict[str, int]:
    return {"reading": number, "temperature": number * 7 % 40}


def deaths(count: int, seed: int) -> Iterator[Death]:
    """So many deaths, the first two while it works and just after it has sent records."""
    chance = random.Random(f"{seed}/kafka")
    stages = ["working", "send", "commit", "ingest", "segment listed", "starting", "stage"]
    for number in range(count):
        stage = stages[number] if number < 2 else chance.choice(stages)
        if stage in ("working", "starting"):
            longest_s = 2.0 if stage == "working" else 8.0
            yield Death(stage, chance.uniform(0.0, longest_s), "", chance.random() < 0.5)
        else:
            moment = "after" if number < 2 else chance.choice(("before", "after"))
            yield Death(stage, chance.randint(1, 6), moment, jvm=False)


def kafka_kills(
    count: int,
    seed: int,
    folder: Path,
    broker: Broker,
    spark: SparkSession,
    say: Say = lambda _line: None,
) -> dict[str, Any]:
    """So many lives, each ended as drawn; the last one lives until it has read everything."""
    rows = count * ROWS_PER_LIFE
    create(spark, broker.servers, INPUT, OUTPUT)
    write(spark, broker.servers, INPUT, (json.dumps(row(n)) for n in range(rows)))
    (folder / "pipeline.toml").write_text(pipeline(broker.servers, PER_TRIGGER))
    repeated = 0

    def last_faults() -> list[str]:
        nonlocal repeated
        found, repeated = _differences(folder, spark, broker.servers, rows)
        return found

    ended = end_lives(
        folder,
        deaths(count, seed),
        lambda death: end_a_life(folder, death),
        lambda: twice(folder),
        pipeline(broker.servers, LAST_PER_TRIGGER),
        last_faults,
        say,
    )
    return {**ended, "rows": rows, "repeated": repeated, "seed": seed}


def soak_kafka(count: int, seed: int, folder: Path, say: Say) -> dict[str, Any]:
    """The kills with a broker and a session of their own."""
    from daybreak.spark.session import local_session

    if not can_start():
        return {"skipped": f"no broker: {REMEDY}", "seed": seed, "wrong": []}
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    spark = local_session("kafka soak", 2, jars)
    try:
        with Broker(folder / "broker") as broker:
            return kafka_kills(count, seed, folder, broker, spark, say)
    finally:
        spark.stop()


def _differences(
    folder: Path, spark: SparkSession, servers: str, rows: int
) -> tuple[list[str], int]:
    """What is wrong with the sinks, and how many records came more than once."""
    wrong = []
    if readings(folder, "everything") != list(range(rows)):
        wrong.append("the files do not hold every row once")
    records = read(spark, servers, OUTPUT)
    by_identity: dict[tuple[str, ...], dict[str, Any]] = {}
    for record in records:
        if by_identity.setdefault(record.identity, record.value) != record.value:
            wrong.append(f"{record.identity} is on two different rows")
    due = [row(n) for n in range(rows) if row(n)["temperature"] > 20]
    held = sorted(by_identity.values(), key=lambda value: int(value["reading"]))
    if held != due:
        missing = {d["reading"] for d in due} - {h["reading"] for h in held}
        wrong.append(
            f"the topic without repetitions has {len(held)} rows of {len(due)}, "
            f"{len(missing)} are missing"
        )
    return wrong, len(records) - len(by_identity)
