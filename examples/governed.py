"""An ordinary Spark program with six stateful streaming queries. It knows nothing of Daybreak.

    python examples/governed.py
    daybreak run-script examples/governed.py --classes examples/governed.toml

Both print the same results. Under ``run-script`` the alarm, which the file puts into a class of its
own, is answered first when there is more to do than the machine can. One of the six queries,
``transformWithStateInPandas``, needs the packages pandas and protobuf; without them it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation has it

SCHEMA = "id long, station string, at timestamp, celsius double, created double"
#: Event time of the first reading, and how many of them make an hour of event time.
BEGIN_S, PER_HOUR = 1_767_225_600, 2_000
HOT = 60.0


def write_readings(folder: Path, rows: int, rate: int, every_s: float = 0.25) -> None:
    """Files of readings, in order of event time; each tenth reading comes twice."""
    written, began = 0, time.time()
    while written < rows:
        upto = min(rows, written + max(1, round(rate * every_s)))
        lines = []
        for i in range(written, upto):
            n = i - 1 if i % 10 == 9 else i
            at = BEGIN_S + n * 3600 / PER_HOUR
            reading = {
                "id": n,
                "station": f"s{n % 7}",
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
                "celsius": float(n * 37 % 90),
                "created": time.time(),
            }
            lines.append(json.dumps(reading))
        part = folder / f".{upto:08d}"
        part.write_text("\n".join(lines) + "\n")
        part.rename(folder / f"{upto:08d}.json")
        written = upto
        time.sleep(max(0.0, began + written / rate - time.time()))


class Alarms:
    """What a ``foreachBatch`` does: keeps the hot readings, and how long each took to get here."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.delays_s: list[float] = []

    def __call__(self, batch: DataFrame, number: int) -> None:
        found = batch.select("id", "created").collect()
        self.rows[number] = [row["id"] for row in found]  # by number: a repeated batch replaces
        self.delays_s += [time.time() - row["created"] for row in found]


def hottest(readings: DataFrame) -> DataFrame:
    """The highest temperature of each station so far, in a state of its own."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Hottest(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.top = handle.getValueState("top", "celsius double")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            before = self.top.get() or (0.0,)
            now = float(max([before[0], *(part["celsius"].max() for part in rows)]))
            self.top.update((now,))
            yield pd.DataFrame({"station": [key[0]], "celsius": [now]})

        def close(self) -> None:
            pass

    return readings.groupBy("station").transformWithStateInPandas(
        statefulProcessor=Hottest(),
        outputStructType="station string, celsius double",
        outputMode="Update",
        timeMode="None",
    )


def queries(spark: SparkSession, source: Path, out: Path, alarms: Alarms) -> Iterator[Any]:
    """Starts them all; names are what a file of classes refers to."""
    raw = spark.readStream.schema(SCHEMA).json(str(source))
    timed = raw.withWatermark("at", "10 minutes")

    def write(frame: DataFrame, name: str, mode: str = "append") -> Any:
        checkpoint = str(out / "checkpoints" / name)
        writer = frame.writeStream.queryName(name).outputMode(mode)
        return writer.option("checkpointLocation", checkpoint)

    def to_files(frame: DataFrame, name: str) -> Any:
        return write(frame, name).format("json").start(str(out / name))

    yield to_files(raw.dropDuplicates(["id"]).select("id", "station"), "distinct")
    counts = raw.groupBy("station").agg(F.count("*").alias("readings"), F.max("celsius").alias("m"))
    yield write(counts, "counts", "complete").format("memory").start()
    sessions = timed.where("celsius > 88").groupBy(
        "station", F.session_window("at", "5 minutes").alias("spell")
    )
    yield to_files(sessions.count().select("station", "spell.start", "count"), "spells")
    hot = timed.where("celsius > 85").selectExpr("id AS hot", "station AS there", "at AS hot_at")
    cold = timed.where("celsius < 5").selectExpr("id AS cold", "station", "at")
    near = F.expr(
        "station = there AND at BETWEEN hot_at - INTERVAL 2 MINUTES AND hot_at + INTERVAL 2 MINUTES"
    )
    yield to_files(hot.join(cold, near).select("hot", "cold"), "swings")
    if find_spec("pandas") and find_spec("google") and find_spec("google.protobuf"):
        spark.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        yield write(hottest(raw), "hottest", "update").format("memory").start()
    yield write(raw.where(f"celsius > {HOT}"), "alarm").foreachBatch(alarms).start()


def results(spark: SparkSession, out: Path, alarms: Alarms) -> dict[str, Any]:
    """What the queries have found, in numbers that do not depend on when they ran."""
    found: dict[str, Any] = {
        "alarm": len({n for rows in alarms.rows.values() for n in rows}),
        "alarm_rows": sum(map(len, alarms.rows.values())),
        "counts": {r["station"]: r["readings"] for r in spark.table("counts").collect()},
    }
    for name in ("distinct", "spells", "swings"):
        rows = spark.read.json(str(out / name))
        found[name] = [rows.count(), rows.distinct().count()]
    if spark.catalog.tableExists("hottest"):
        top = spark.table("hottest").groupBy("station").agg(F.max("celsius").alias("top"))
        found["hottest"] = {r["station"]: r["top"] for r in top.collect()}
    return found


def main() -> None:
    parse = argparse.ArgumentParser(description="Six stateful queries over one folder of files.")
    parse.add_argument("--rows", type=int, default=20_000)
    parse.add_argument("--rate", type=int, default=1_000, help="readings per second")
    asked = parse.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers find what this finds
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("six stateful queries")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "readings", Path(folder) / "out"
        source.mkdir()
        alarms = Alarms()
        feed = threading.Thread(target=write_readings, args=(source, asked.rows, asked.rate))
        running = list(queries(spark, source, out, alarms))
        feed.start()
        feed.join()
        for query in running:
            query.processAllAvailable()
        print(json.dumps(results(spark, out, alarms), sort_keys=True))
        delays = statistics.quantiles(alarms.delays_s, n=20)
        print(f"alarm: median {delays[9]:.2f} s, p95 {delays[18]:.2f} s")
        for query in running:
            query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
