"""A Python function as a sink, and a Python function in SQL (a UDF).

    python examples/sinks/callbacks.py

Alerts go to a function that keeps the key of every delivery, so that a repetition after a crash is
recognised. The comfort index is a UDF: it is computed on Spark, row by row.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from daybreak import App

ROWS = 2000


class Alerts:
    """Rows in SQLite; one transaction holds the rows and the key of their delivery."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS alerts (station INT, comfort REAL)")
            db.execute("CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY)")

    def __call__(self, rows: pa.Table, key: str) -> None:
        """May be called again with the same key after a crash or a failure."""
        with sqlite3.connect(self._path) as db:  # a connection for each call: threads differ
            if db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount:
                values = zip(*rows.to_pydict().values(), strict=True)
                db.executemany("INSERT INTO alerts VALUES (?, ?)", values)

    def count(self) -> int:
        with sqlite3.connect(self._path) as db:
            found: tuple[int] = db.execute("SELECT count(*) FROM alerts").fetchone()
            return found[0]


def comfort(temperature: int | None, humidity: int | None) -> float | None:
    """Not a function of Spark's, so it is one of ours. It must give the same for the same row."""
    if temperature is None or humidity is None:
        return None
    return temperature - 0.55 * (1 - humidity / 100) * (temperature - 14.5)


def main(folder: Path, spark: SparkSession | None = None) -> int:
    app = App.local("callbacks", cores=2) if spark is None else App(spark, name="callbacks")
    app.spark.udf.register("comfort", udf(comfort, "double", useArrow=False))
    alerts = Alerts(folder / "alerts.db")
    app.stream("readings", format="generator", options={"limit": ROWS, "seed": 7})
    app.query(
        "hot",
        sql="SELECT station, comfort(temperature, humidity) AS comfort FROM readings "
        "WHERE temperature > 30",
        sink=alerts,
    )
    with app.run(run_dir=folder / "run") as run:
        run.drain()
    print(f"{alerts.count()} alerts of {ROWS} readings")
    return alerts.count()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
