"""A sink of one's own: one file of JSON lines per query, appended to, exactly once.

The file begins with nothing; every delivery appends its rows and one line with its number. What
follows the last such line was left by a crash, and is cut off before anything is appended.

    [project.entry-points."daybreak.sinks"]
    spool = "spool:Spool"

makes it the format ``spool`` of every pipeline on this machine. ``python examples/sinks/spool.py``
checks it against the laws of sinks.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from daybreak.spark.sinks.conformance import LAWS, QUERY, SCHEMA, DestinationUnderTest, check
from daybreak.spark.sinks.destination import DeclaredSink, DeliveryId, Destination
from daybreak.spark.sinks.text_formats import write_json_lines

MARK = "#delivered"


class Spool(Destination):
    """Appends rows to a file."""

    options = ("file",)
    exactly_once = True

    def __init__(self, declared: DeclaredSink) -> None:
        super().__init__(declared)
        self._file = Path(declared.need("file", "/var/spool/fire.jsonl"))

    def check(self) -> None:
        if not self._file.parent.is_dir():
            raise self.declared.error(f"{self._file.parent} is no folder", "create it")

    def write(self, rows: pa.Table, delivery: DeliveryId) -> None:
        good, numbers = self._read()
        if numbers.get(delivery.source, -1) >= delivery.number:
            return
        lines = io.BytesIO()
        write_json_lines(rows, lines)
        mark = json.dumps([delivery.source, delivery.number])
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.truncate(good)
            file.seek(good)
            file.write(lines.getvalue() + f"{MARK} {mark}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def has(self, delivery: DeliveryId) -> bool:
        return self._read()[1].get(delivery.source, -1) >= delivery.number

    def _read(self) -> tuple[int, dict[str, int]]:
        """Where the last delivery ends, and the last number of each source."""
        good, at, numbers = 0, 0, dict[str, int]()
        if self._file.exists():
            with self._file.open("rb") as file:
                for line in file:
                    at += len(line)
                    if line.startswith(MARK.encode()) and line.endswith(b"\n"):
                        source, number = json.loads(line[len(MARK) :])
                        good, numbers[source] = at, number
        return good, numbers


class SpoolUnderTest(DestinationUnderTest):
    """How the laws make one, and read what it has written."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "spool.jsonl"

    def destination(self, limit_s: float = 30.0) -> Spool:
        options = {"file": str(self.file)}
        return Spool(DeclaredSink(query=QUERY, options=options, schema=SCHEMA, limit_s=limit_s))

    def rows(self) -> list[int]:
        if not self.file.exists():
            return []
        lines = [line for line in self.file.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line)["number"] for line in lines]

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """A folder lies where the file should be."""
        aside = self.file.with_suffix(".aside")
        if self.file.exists():
            self.file.rename(aside)
        self.file.mkdir()
        yield
        self.file.rmdir()
        if aside.exists():
            aside.rename(self.file)

    def renew(self) -> None:
        self.file.unlink(missing_ok=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for law in LAWS:
            check(law, SpoolUnderTest(Path(folder)), Path(folder) / "laws")
            print(f"ok: {law.__name__.removeprefix('check_').replace('_', ' ')}")


if __name__ == "__main__":
    main()
