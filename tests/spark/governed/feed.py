"""A folder that fills with files of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long, station string, at timestamp"


class Feed:
    """Files of rows in a folder, each second of event time one row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self.rows = 0

    def put(self, rows: int = 10) -> None:
        lines = [
            json.dumps({"id": i % 15, "station": f"s{i % 3}", "at": f"2026-01-01T00:{i:02d}:00Z"})
            for i in range(self.rows, self.rows + rows)
        ]
        part = self.folder / f".{self.rows}"
        part.write_text("\n".join(lines))
        part.rename(self.folder / f"{self.rows}.json")
        self.rows += rows

    def read(self, session: SparkSession) -> DataFrame:
        return session.readStream.schema(SCHEMA).json(str(self.folder))
