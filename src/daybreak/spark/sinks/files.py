"""Files: one per job, or per partition of a job, which any reader of the format can read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from daybreak.model import EngineBug
from daybreak.model.errors import ConfigError
from daybreak.model.overlaps import LOCK, STAGING
from daybreak.spark.log.durable import make_folder, move_durably, same_folder, write_whole
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.partitioning import partitions
from daybreak.spark.sinks.sink import Staging, Writer, is_gone
from daybreak.spark.sinks.task_writers import TaskWriter

#: Entries of a folder that a start looks at: those of one sink look alike.
_MOST_LOOKED_AT = 1000


class FileSink(Staging):
    """``<path>/[<column>=<value>/...]<job>-<query>.<ext>``, exactly once."""

    exactly_once = True

    def __init__(
        self,
        query: str,
        path: Path,
        extension: str,
        write: Writer,
        partition_by: Sequence[str] = (),
    ) -> None:
        super().__init__(query, path / STAGING, extension, write)
        self.path = path
        self._partition_by = tuple(partition_by)

    @property
    def folder(self) -> Path:
        return self.path

    def stage(self, job: str, table: pa.Table) -> list[StagedFile]:
        """One file for each partition of the rows."""
        if table.num_rows == 0:
            return []
        return [
            self._staged(job, part.rows, self._staging / part.folder)
            for part in partitions(table, self._partition_by)
        ]

    def task_writer(self, job: str, arrival_ns: int) -> TaskWriter:
        del arrival_ns
        return TaskWriter(
            self.query, job, self._staging, self._suffix, self._write, self._partition_by
        )

    def owns(self, file: CommittedFile) -> bool:
        staging = file.path.parents[len(self._partition_by)]
        return same_folder(staging, self._staging) and file.path.suffix == self._suffix

    def deliver(self, file: CommittedFile) -> bool:
        target = self.target(file)
        if file.content is not None:
            self._put(file, file.content, target)
            return True
        if is_gone(file):
            return False
        if target.exists():
            raise EngineBug(f"{target} exists already: job id {file.job} was used twice")
        make_folder(target.parent)
        move_durably(file.path, target)
        return True

    def _put(self, file: CommittedFile, content: bytes, target: Path) -> None:
        """Lets the file appear whole; one that is there, whole or torn by a crash, is replaced.

        As few calls of the system as there can be: each lets go of Python's lock, and a job has
        hundreds of results.
        """
        partial = f"{self._staging}/{file.job}-{file.id}.partial"
        try:
            write_whole(partial, content)
        except FileNotFoundError:
            make_folder(self._staging)
            write_whole(partial, content)
        try:
            os.rename(partial, target)  # noqa: PTH104  # see above
        except FileNotFoundError:
            # Fails again where a driver that took over has swept the file: that one delivers it.
            make_folder(target.parent)
            os.rename(partial, target)  # noqa: PTH104

    def has(self, file: CommittedFile) -> bool:
        return self.target(file).exists()

    def target(self, file: CommittedFile) -> Path:
        return self.path.joinpath(*file.path.parts[-1 - len(self._partition_by) :])

    def staged(self) -> list[Path]:
        found = (path for path in self._staging.rglob("*") if path.is_file())
        return sorted(path for path in found if path.name != LOCK)


def refuse_foreign_folder(path: Path, kind: str, partition_by: Sequence[str], place: str) -> None:
    """``ConfigError`` if a folder holds what this sink would not have written.

    Readers of the folder take every file for a result. What was added to a folder that is ours,
    by name, is the user's business as long as it has our layout.
    """
    if not path.is_dir():
        return
    visible = (entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    entries = sorted(islice(visible, _MOST_LOOKED_AT))
    is_ours = (path / STAGING).is_dir()
    found: str | None = None
    if (path / "_delta_log").is_dir() and kind != "delta":
        found = "a Delta table"
    elif kind == "delta":
        if entries and not (path / "_delta_log").is_dir():
            found = f"{entries[0].name}, and is no Delta table"
    elif entries and not is_ours:
        found = f"{entries[0].name}, which no sink of Daybreak's has written"
    else:
        strange = [e for e in entries if not _belongs(e, kind, partition_by)]
        found = f"{strange[0].name}, of another layout or format" if strange else None
    if found is not None:
        raise ConfigError(
            place,
            f"sink: {path} holds {found}",
            "choose an empty folder, or move its content away",
        )


def _belongs(entry: Path, kind: str, partition_by: Sequence[str]) -> bool:
    if partition_by:
        return entry.is_dir() and entry.name.startswith(f"{partition_by[0]}=")
    return entry.is_file() and entry.suffix == f".{kind}"
