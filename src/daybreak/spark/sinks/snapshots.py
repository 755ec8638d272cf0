"""Sinks of complete mode: each result replaces the one before it, as a whole.

In files, a result is a folder of its own, ``snapshot-NUMBER``, and ``CURRENT`` is a small JSON file
that names the folder of the newest one and the rows it was computed from. ``CURRENT`` is replaced
by a rename, so a reader sees the old result or the new one, never parts of both.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model.errors import ConfigError
from daybreak.model.overlaps import STAGING
from daybreak.spark.log.durable import make_folder, write_durably
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.calls import CallbackSink
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.sink import Staging, Writer

#: The file that names the newest result.
CURRENT = "CURRENT"
_FOLDER = "snapshot-"
#: Under this key a result carries what it was computed from.
RETAINED = b"daybreak.retained"


@dataclass(frozen=True)
class WholeResult:
    """The newest result of a query in complete mode."""

    folder: Path
    rows: int
    #: Of each stream the first segment, the one after the last, and their rows: the result is
    #: that of one batch over exactly these.
    streams: Mapping[str, Mapping[str, int]]
    #: Grows with every result.
    number: int = field(default=0, compare=False)

    def table(self) -> pa.Table:
        """Its rows."""
        return pq.read_table(sorted(self.folder.glob("*.parquet"))[0], partitioning=None)


def read_snapshot(path: Path | str) -> WholeResult | None:
    """The newest result below the path of a sink; None before the first."""
    root, found = Path(path), _pointer(Path(path))
    if found is None:
        return None
    return WholeResult(root / found["folder"], found["rows"], found["streams"], found["number"])


def _pointer(root: Path) -> dict[str, Any] | None:
    """What ``CURRENT`` says; None before the first result."""
    try:
        found: dict[str, Any] = json.loads((root / CURRENT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _log_of(job: str) -> str:
    """The commit log that numbered a job."""
    return job.partition("-")[0]


class SnapshotSink(Staging):
    """``<path>/snapshot-<number>/<job>-<query>.parquet``, and ``<path>/CURRENT``; exactly once."""

    exactly_once = True

    def __init__(self, query: str, path: Path, write: Writer) -> None:
        super().__init__(query, path / STAGING, "parquet", write)
        self.path = path

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        """A result without rows is one, too."""
        return [self._staged(job, table, self._staging)]

    def deliver(self, file: CommittedFile) -> bool:
        if not file.path.exists():
            return False
        if self.has(file):  # a newer one was delivered before this one came again
            file.path.unlink()
            return True
        metadata = pq.read_schema(file.path).metadata or {}
        before = _pointer(self.path)
        # Numbers of another run directory, which wrote here earlier, may be higher.
        number = file.id if before is None else max(file.id, before["number"] + 1)
        folder = make_folder(self.path / f"{_FOLDER}{number:012d}")
        for other in folder.iterdir():  # a crash came before ``CURRENT`` named it
            other.unlink()
        # Its name must not be there before its content: what the log holds it may forget then.
        with file.path.open("rb") as staged:
            write_durably(folder / file.path.name, lambda out: shutil.copyfileobj(staged, out))
        pointer = {
            "folder": folder.name,
            "number": number,
            "delivery": file.id,
            "job": file.job,
            "rows": file.rows,
            "streams": json.loads(metadata.get(RETAINED, b"{}")),
        }
        text = json.dumps(pointer, indent=1, sort_keys=True) + "\n"
        write_durably(self.path / CURRENT, lambda out: out.write(text.encode()))
        file.path.unlink(missing_ok=True)
        self._remove_but({folder.name} | ({before["folder"]} if before else set()))
        return True

    def _remove_but(self, kept: set[str]) -> None:
        """The result before stays a little longer: somebody may be reading it."""
        for old in self.path.glob(f"{_FOLDER}*"):
            if old.name not in kept:
                shutil.rmtree(old, ignore_errors=True)

    def has(self, file: CommittedFile) -> bool:
        newest = _pointer(self.path)
        if newest is None or _log_of(newest["job"]) != _log_of(file.job):
            return False  # numbers of another run directory's results mean nothing here
        return bool(newest.get("delivery", newest["number"]) >= file.id)


class LatestMemory(MemorySink):
    """Keeps the newest result."""

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        return [self._staged(job, table, self._staging)]

    def _keep(self, table: pa.Table, _key: str) -> None:
        with self._guard:
            self._tables = [table]


class WholeConsole(ConsoleSink):
    """Prints each result."""

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        return [self._staged(job, table, self._staging)]


class WholeCallback(CallbackSink):
    """A Python function that is given each result as a whole, those without rows as well."""

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        return [self._staged(job, table, self._staging)]


def refuse_other_content(path: Path, place: str) -> None:
    """``ConfigError`` if a folder holds what is not a result of complete mode."""
    entries: list[Path] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        entries = sorted(path.iterdir())
    strange = [
        entry.name
        for entry in entries
        if entry.name not in (STAGING, CURRENT) and not entry.name.startswith((_FOLDER, "."))
    ]
    if strange:
        raise ConfigError(
            place,
            f"sink: {path} holds {strange[0]}, which is no result of complete mode",
            "choose an empty folder, or move its content away",
        )
