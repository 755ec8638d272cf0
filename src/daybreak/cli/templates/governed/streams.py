"""An ordinary Structured Streaming program: nothing in it knows Daybreak.

Alone:       python streams.py
Scheduled:   daybreak run-script streams.py --classes classes.toml -- --seconds 20
"""

from __future__ import annotations

import argparse
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to run")
    parser.add_argument("--rate", type=int, default=50, help="rows per second")
    asked = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("streams")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    # Replace it with your own source.
    rows = spark.readStream.format("rate").option("rowsPerSecond", asked.rate).load()
    readings = rows.select(
        (f.col("value") % 5).alias("station"),
        (10 + f.col("value") * 7 % 40).alias("temperature"),
        f.col("timestamp").alias("at"),
    )
    with tempfile.TemporaryDirectory() as checkpoints:
        writers = {
            "alarm": readings.where("temperature > 45").writeStream,
            "averages": readings.groupBy("station")
            .avg("temperature")
            .writeStream.outputMode("complete"),
            "distinct": readings.dropDuplicates(["station", "temperature"]).writeStream,
        }
        queries = [
            writer.queryName(name)
            .format("memory")
            .option("checkpointLocation", f"{checkpoints}/{name}")
            .start()
            for name, writer in writers.items()
        ]
        spark.streams.awaitAnyTermination(asked.seconds)  # raises if one fails
        for query in queries:
            query.stop()
    for name in writers:
        print(f"{name}: {spark.table(name).count()} rows")


if __name__ == "__main__":
    main()
