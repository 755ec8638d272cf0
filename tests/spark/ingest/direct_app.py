"""An application over a folder of numbers in JSON files."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def application(spark: SparkSession, folder: Path, **declared: Any) -> App:
    """Answers every number ``n`` of stream ``r``, which is read directly unless declared else."""
    (folder / "in").mkdir(exist_ok=True)
    app = App(spark, name="numbers", folder=folder)
    stream = {"format": "json", "schema": "n BIGINT", "path": "in", "ingest": "direct"}
    app.stream("r", **{**stream, **declared})
    app.query("all", sql="SELECT n FROM r", sink={"format": "json", "path": "out"})
    return app


def arrive(folder: Path, name: str, *numbers: int) -> Path:
    """A file with these numbers, moved into the folder whole; old enough to be read at once."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / "in" / f".{name}"
    hidden.write_text("".join(f'{{"n": {n}}}\n' for n in numbers))
    at_s = time.time() - 60
    os.utime(hidden, (at_s, at_s))
    return hidden.rename(folder / "in" / f"{name}.json")


def answered(folder: Path) -> list[int]:
    """All numbers that the sink was given."""
    files = (folder / "out").glob("*.json")
    return sorted(json.loads(line)["n"] for f in files for line in f.read_text().splitlines())
