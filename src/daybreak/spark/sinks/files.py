"""Files: one per job in a folder, which any reader of the format can read."""

from __future__ import annotations

from pathlib import Path

from daybreak.model import EngineBug
from daybreak.model.overlaps import STAGING
from daybreak.spark.log.durable import move_durably
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.sink import Staging, Writer


class FileSink(Staging):
    """One file per job in a folder: ``<path>/<job>-<query>.<ext>``, exactly once."""

    exactly_once = True

    def __init__(self, query: str, path: Path, extension: str, write: Writer) -> None:
        super().__init__(query, path / STAGING, extension, write)
        self.path = path

    def deliver(self, file: CommittedFile) -> bool:
        target = self.target(file)
        if not file.path.exists():
            return False
        if target.exists():
            raise EngineBug(f"{target} exists already: job id {file.job} was used twice")
        if file.content is None:
            move_durably(file.path, target)
        else:
            file.path.rename(target)
        return True

    def has(self, file: CommittedFile) -> bool:
        return self.target(file).exists()

    def target(self, file: CommittedFile) -> Path:
        return self.path / file.path.name

    def restore(self, file: CommittedFile) -> None:
        if file.content is not None:
            self.target(file).unlink(missing_ok=True)
        super().restore(file)
