"""Streams of JSON files for tests of modes: rows are written whole, one file after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_S = 1_767_225_600
SCHEMA = "n INT, k STRING, v INT, at TIMESTAMP"


def row(n: int) -> dict[str, Any]:
    at = f"2026-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z"
    return {"n": n, "k": "abc"[n % 3], "v": n * 7 % 11, "at": at}


def write(folder: Path, number: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """One file of the stream whose folder this is."""
    folder.mkdir(exist_ok=True)
    partial = folder.parent / f"{folder.name}-{number}.partial"
    partial.write_text("".join(json.dumps(dict(r)) + "\n" for r in rows))
    os.utime(partial, (FIRST_S + number,) * 2)  # a source reads files in the order of their times
    partial.rename(folder / f"{number:06d}.json")


def declare(spark: SparkSession, folder: Path, *, retain: str | None = "1 hour") -> App:
    """A stream ``rows`` of the files in ``in``, one file per segment."""
    (folder / "in").mkdir(exist_ok=True)
    app = App(spark, folder=folder, name="modes")
    app.stream(
        "rows", format="json", path="in", schema=SCHEMA, retain=retain, time="at",
        watermark="10 seconds", options={"maxFilesPerTrigger": 1},
    )  # fmt: skip
    return app
