"""Steps: what each micro-batch of a stateful query reads, decided before Spark plans it.

A step names the segments of one micro-batch and how far it moves the query. Its file is durable
before Spark may plan the micro-batch, so one that Spark repeats after a crash reads what it read
before. The newest step stays: Spark asks a source for the last micro-batch when it restarts.

A step is written once. Of two drivers that plan the same one, since the lease of the first ended
while it was suspended, the later finds the step there and makes that one: so both read the same
rows in the same micro-batch, and its state is the same, whoever writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daybreak.model.errors import ConfigError
from daybreak.spark.log.durable import create_durably, make_folder
from daybreak.spark.log.rows import Cursor, CursorMove


class StepTaken(Exception):
    """Another driver has planned this step; the next try makes that one."""


@dataclass(frozen=True)
class FeedStep:
    """One micro-batch with rows."""

    number: int
    #: From where to where it moves the query, by stream.
    moves: Mapping[str, tuple[Cursor, Cursor]]
    files: Mapping[str, Sequence[str]]

    def begins_at(self, places: Mapping[str, Cursor]) -> bool:
        return all(places[stream] == old for stream, (old, _) in self.moves.items())

    def ends_at(self, places: Mapping[str, Cursor]) -> bool:
        return all(places[stream] == new for stream, (_, new) in self.moves.items())

    def cursor_moves(self, query: str) -> list[CursorMove]:
        return [CursorMove(query, stream, *at) for stream, at in self.moves.items()]


def named_files(states: Path) -> set[str]:
    """The files of the feed that steps of any query name; ``states``: the folder of all."""
    found: set[str] = set()
    for path in states.glob("*/steps/*.json"):
        with suppress(FileNotFoundError):  # a step that has just been forgotten
            data = json.loads(path.read_text(encoding="utf-8"))
            found.update(file for of in data["files"].values() for file in of)
    return found


class Steps:
    """The steps of one query."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)
        self.newest = self._newest()

    def pending(self, places: Mapping[str, Cursor], query: str) -> FeedStep | None:
        """The newest step, where the query has not made it yet."""
        step = self.newest
        if step is None or step.ends_at(places):
            return None
        if not step.begins_at(places):
            raise ConfigError(
                f"query {query!r}",
                "rows that its checkpoint has planned to read were given up",
                f"restart it with --reset-query {query}",
            )
        return step

    def add(
        self,
        moves: Mapping[str, tuple[Cursor, Cursor]],
        files: Mapping[str, Sequence[str]],
    ) -> FeedStep:
        """The next step, durable when this returns; ``StepTaken`` if another driver wrote one."""
        step = FeedStep(0 if self.newest is None else self.newest.number + 1, moves, files)
        content = json.dumps({"moves": step.moves, "files": step.files}).encode()
        try:
            create_durably(self._path(step.number), content)
        except FileExistsError:
            self.newest = self._newest()
            raise StepTaken(f"step {step.number} was planned by another driver") from None
        self.newest = step
        return step

    def forget_before(self, step: FeedStep) -> None:
        """Spark has committed a step: those before it are not asked for again."""
        for path in self.folder.glob("*.json"):
            if int(path.stem) < step.number:
                path.unlink(missing_ok=True)

    def find(self, number: int) -> FeedStep:
        if self.newest is not None and self.newest.number == number:
            return self.newest
        return self._read(number)

    def _newest(self) -> FeedStep | None:
        numbers = [int(path.stem) for path in self.folder.glob("*.json")]
        return self._read(max(numbers)) if numbers else None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.json"

    def _read(self, number: int) -> FeedStep:
        data = json.loads(self._path(number).read_text(encoding="utf-8"))
        moves = {s: (Cursor(*old), Cursor(*new)) for s, (old, new) in data["moves"].items()}
        return FeedStep(number, moves, data["files"])
