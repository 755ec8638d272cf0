"""Weather on Kafka: a broker, a producer, three classes of queries, results to topics and files.

    python examples/kafka/run.py [--seconds 30] [--rate 300] [--out runs/weather]

Starts a Kafka broker of its own on a free port, writes readings to a topic at a steady rate with a
burst in the middle, runs pipeline.toml, and measures how long each result took: from the creation
of the reading to its record in the output topic, or to its file. Ends with a table and a picture.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.kafka.broker import Broker, can_start  # noqa: E402
from examples.kafka.topics import create, read  # noqa: E402

from daybreak.cli.console import console  # noqa: E402
from daybreak.model.pipeline import Pipeline  # noqa: E402
from daybreak.model.specs import SinkSpec  # noqa: E402
from daybreak.report.figures import can_draw, save_figure  # noqa: E402
from daybreak.report.text import table  # noqa: E402
from daybreak.spark.app import App  # noqa: E402
from daybreak.spark.session import open_session  # noqa: E402
from daybreak.spark.sinks.kafka_producer import Producer, Record  # noqa: E402

PIPELINE = Path(__file__).with_name("pipeline.toml")
TOPICS = {"alarms": "alarm", "watch": "watch"}
#: The burst comes between these shares of the time, at so many times the rate.
BURST, TIMES = (0.4, 0.6), 5
EVERY_S = 0.05
WARM_S = 2.0

#: Of each class: when a reading was created, seconds after the start, and how long its result took.
Latencies = dict[str, tuple[list[float], list[float]]]


def reading(chance: random.Random) -> str:
    now = time.time()
    return json.dumps(
        {
            "station": chance.randrange(400),
            "district": chance.randrange(12),
            "temperature": round(chance.gauss(22, 8), 1),
            "humidity": round(chance.uniform(5, 95), 1),
            "wind": round(chance.expovariate(1 / 20), 1),
            "at": datetime.fromtimestamp(now, UTC).isoformat(),
            "created_ms": round(now * 1000),
        }
    )


def feed(servers: str, seconds: float, rate_per_s: float, seed: int = 1) -> int:
    """Writes readings for so long; returns how many."""
    chance, producer = random.Random(seed), Producer({"kafka.bootstrap.servers": servers}, "feed")
    began = time.monotonic()
    written, due, last = 0, 0.0, 0.0
    while (elapsed := time.monotonic() - began) < seconds:
        burst = BURST[0] <= elapsed / seconds < BURST[1]
        due += rate_per_s * (elapsed - last) * (TIMES if burst else 1)
        last = elapsed
        records = [
            Record(str(n).encode(), reading(chance).encode()) for n in range(written, int(due))
        ]
        if records:
            producer.send("readings", records, "feed", "feed")
        written += len(records)
        time.sleep(EVERY_S)
    producer.close()
    return written


def play(
    spark: SparkSession, servers: str, out: Path, seconds: float, rate: float
) -> tuple[int, int, Latencies]:
    """Feeds and runs the pipeline, which finds its broker in the environment.

    Returns how many readings were made and kept, and the latencies.
    """
    create(spark, servers, "readings", "alarms", "watch", "averages", partitions=4)
    declared = Pipeline.read(PIPELINE)
    archive = out / "archive"
    files = SinkSpec(format="parquet", path=str(archive.resolve()))
    queries = [
        replace(query, sink=files) if query.name == "everything" else query
        for query in declared.queries
    ]
    app = App.from_pipeline(replace(declared, queries=tuple(queries)), spark)
    with app.run(run_dir=out / "run") as run:
        # Spark takes seconds to start a source and to compile the first jobs.
        made = [feed(servers, WARM_S, rate)]
        run.drain()
        began = time.time()
        feeder = threading.Thread(target=lambda: made.append(feed(servers, seconds, rate)))
        feeder.start()
        while feeder.is_alive():
            run.wait(0.5)
        run.drain(flush=True)
    found = _from_topics(spark, servers, began)
    kept, found["archive"] = _from_files(archive, began)
    return sum(made), kept, found


def _from_topics(spark: SparkSession, servers: str, began: float) -> Latencies:
    found: Latencies = {}
    for topic, cls in TOPICS.items():
        records = read(spark, servers, topic)
        of = [(r.value["created_ms"] / 1000, r.written_s) for r in records]
        measured = [(created, written) for created, written in of if created >= began]
        found[cls] = ([c - began for c, _ in measured], [w - c for c, w in measured])
    return found


def _from_files(folder: Path, began: float) -> tuple[int, tuple[list[float], list[float]]]:
    """How many rows there are, and the latencies of those that are measured."""
    rows, created, took = 0, list[float](), list[float]()
    for path in folder.glob("*.parquet"):
        seen = pq.read_table(path, columns=["created_ms"])["created_ms"].to_numpy() / 1000
        rows += len(seen)
        measured = seen[seen >= began]
        created += (measured - began).tolist()
        took += (path.stat().st_mtime - measured).tolist()
    return rows, (created, took)


def draw(latencies: Latencies, path: Path) -> Path:
    """Median and 95th percentile of each class, second by second of the readings' creation."""
    from matplotlib.figure import Figure

    def curves(figure: Figure) -> None:
        axes = figure.subplots()
        for n, (cls, (created, took)) in enumerate(latencies.items()):
            seconds = np.floor(created)
            at = np.unique(seconds)
            values = np.array(took)
            for share, style in ((50, ":"), (95, "-")):
                line = [np.percentile(values[seconds == s], share) for s in at]
                axes.plot(at, line, style, color=f"C{n}", label=f"{cls}, {share} %")
        longest = max(max(created, default=0.0) for created, _ in latencies.values())
        axes.axvspan(
            *(share * longest for share in BURST), color="#999999", alpha=0.15, linewidth=0
        )
        axes.set_yscale("log")
        for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            axis("{x:g}")
        axes.set_xlabel("creation of the reading, s after the start (grey: the burst)")
        axes.set_ylabel("until its result is in Kafka or on disk, s")
        axes.legend(ncols=len(latencies), loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return save_figure(curves, path)


@contextmanager
def a_broker() -> Iterator[Broker]:
    if not can_start():
        subprocess.run([sys.executable, str(ROOT / "tools/need_kafka.py")], check=True)
    if not can_start():
        sys.exit("error: there is no broker to start; the line above names the remedy")
    folder = Path(tempfile.mkdtemp(prefix="daybreak-kafka-"))
    try:
        with Broker(folder) as broker:
            yield broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Weather on Kafka, with a broker of its own.")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=300.0, help="readings per second")
    parser.add_argument("--out", type=Path, default=Path("runs/weather"))
    given = parser.parse_args(argv)
    shutil.rmtree(given.out, ignore_errors=True)
    with a_broker() as broker:
        console().print(f"broker at {broker.servers}; {given.seconds:g} s of readings")
        os.environ["KAFKA_SERVERS"] = broker.servers
        settings = Pipeline.read(PIPELINE).spark
        spark = open_session("weather", settings.master or "local[*]", settings=settings)
        made, kept, latencies = play(spark, broker.servers, given.out, given.seconds, given.rate)
        spark.stop()
    rows: list[Sequence[str]] = [("class", "results", "median", "95 %", "longest")]
    for cls, (_, took) in latencies.items():
        figures = [f"{np.percentile(took, q):.2f} s" for q in (50, 95, 100)] if took else ["-"] * 3
        rows.append((cls, str(len(took)), *figures))
    console().print(table(rows, title="from the creation of a reading to its result"))
    console().print(f"{made} readings made, {kept} in the archive, in {given.out / 'archive'}")
    if can_draw():
        console().print(f"picture: {draw(latencies, given.out / 'latencies.png')}")
    return 0 if made == kept else 1


if __name__ == "__main__":
    sys.exit(main())
