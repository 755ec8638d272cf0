"""Sinks of complete mode: each result replaces the one before it, as a whole.

In files, a result is a folder of its own, ``snapshot-NUMBER``, and ``CURRENT`` is a small JSON file
that names the folder of the newest one and the rows it was computed from. ``CURRENT`` is replaced
by a rename, so a reader sees the old result or the new one, never parts of both.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model.errors import ConfigError
from daybreak.model.overlaps import STAGING
from daybreak.spark.log.durable import make_folder, move_durably
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.calls import CallbackSink
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.sink import Staging, Writer, is_gone, opened, unstage

#: The file that names the newest result.
CURRENT = "CURRENT"
_FOLDER = "snapshot-"
#: Files that are about to become ``CURRENT``.
_NEXT = f".{CURRENT}-"
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


def _write_synced(path: Path, content: BinaryIO) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _log_of(job: str) -> str:
    """The commit log that numbered a job."""
    return job.partition("-")[0]


class SnapshotSink(Staging):
    """``<path>/snapshot-<number>/<job>-<query>.parquet``, and ``<path>/CURRENT``; exactly once."""

    exactly_once = True

    def __init__(self, query: str, path: Path, write: Writer) -> None:
        super().__init__(query, path / STAGING, "parquet", write)
        self.path = path

    @property
    def folder(self) -> Path:
        return self.path

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        """A result without rows is one, too."""
        return [self._staged(job, table, self._staging)]

    def deliver(self, file: CommittedFile) -> bool:
        if is_gone(file):
            return False
        try:
            self._deliver(file)
        except FileNotFoundError:
            if not self.has(file):
                raise
            # A driver that took over has delivered it meanwhile, or a newer one.
        return True

    def _deliver(self, file: CommittedFile) -> None:
        before = _pointer(self.path)
        if not self.has(file):  # else a newer one was delivered before this one came again
            with opened(file) as staged:
                metadata = pq.read_schema(staged).metadata or {}
            # Numbers of another run directory, which wrote here earlier, may be higher.
            number = file.id if before is None else max(file.id, before["number"] + 1)
            folder = self._fill(f"{_FOLDER}{number:012d}", file)
            pointer = {
                "folder": folder.name,
                "number": number,
                "delivery": file.id,
                "job": file.job,
                "rows": file.rows,
                "streams": json.loads(metadata.get(RETAINED, b"{}")),
            }
            if self._point(pointer, file):
                self._remove_before(folder.name, before["folder"] if before else None)
        unstage(file)

    def _fill(self, name: str, file: CommittedFile) -> Path:
        """The folder of a result, with its file and nothing else."""
        with opened(file) as staged:
            folder = make_folder(self.path / name)
            # Its name must not be there before its content: what the log holds it may forget then.
            partial = folder / f".{uuid4().hex}"
            _write_synced(partial, staged)
        move_durably(partial, folder / file.path.name)
        for other in folder.iterdir():  # a crash came before ``CURRENT`` named it
            if other.name != file.path.name:
                other.unlink()
        return folder

    def _point(self, pointer: Mapping[str, Any], file: CommittedFile) -> bool:
        """Lets ``CURRENT`` name a result; False if it names this one or a newer one already.

        A driver may be suspended anywhere here, and another one take over: when it continues, it
        must not put its older result back. So the file that is to become ``CURRENT`` is written
        before the last look at what is there, and a driver that has replaced ``CURRENT`` removes
        such files of others. Either that look finds the newer result, or the file is gone.
        """
        mine = self.path / f"{_NEXT}{uuid4().hex}"
        text = json.dumps(pointer, indent=1, sort_keys=True) + "\n"
        try:
            while True:
                _write_synced(mine, io.BytesIO(text.encode()))
                if self.has(file):
                    return False
                try:
                    move_durably(mine, self.path / CURRENT)
                except FileNotFoundError:  # removed by a driver that has replaced ``CURRENT``
                    continue
                for other in self.path.glob(f"{_NEXT}*"):
                    other.unlink(missing_ok=True)
                # One that had looked before may have renamed its file before it was removed.
                if _pointer(self.path) == pointer:
                    return True
        finally:
            mine.unlink(missing_ok=True)

    def _remove_before(self, newest: str, last: str | None) -> None:
        """The last result stays a little longer: somebody may be reading it."""
        for old in self.path.glob(f"{_FOLDER}*"):
            # What is newer belongs to a driver that took over.
            if old.name < newest and old.name != last:
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
        if entry.name != STAGING and not entry.name.startswith((_FOLDER, CURRENT, "."))
    ]
    if strange:
        raise ConfigError(
            place,
            f"sink: {path} holds {strange[0]}, which is no result of complete mode",
            "choose an empty folder, or move its content away",
        )
