"""The run directory of a governor: its record, its events, and the socket for operators.

It has the layout of an application's, as far as there is something to keep: offsets, checkpoints
and results belong to Spark and to the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.runtime.control import ControlServer
from daybreak.runtime.eventlog import Emit, EventLog
from daybreak.runtime.record import RecordParts
from daybreak.spark.governed.governed_record import About, GovernedRecord, RecordOnDisk
from daybreak.spark.governed.governor_commands import handle
from daybreak.spark.governed.roster import Roster
from daybreak.spark.log.rundir import OwnedFolder
from daybreak.spark.upkeep.maintenance import PeriodicTask, PeriodicTasks

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor


def own_run_dir(run_dir: Path, name: str) -> OwnedFolder:
    """``ConfigError`` if it is in use, or holds something else than governed runs of ``name``."""
    if (run_dir / "state.db").exists():
        raise ConfigError(
            str(run_dir), "is the run directory of an application", "choose another one"
        )
    return OwnedFolder.open_folder(run_dir, name)


class GovernorFiles:
    """An open run directory. No other process has it until ``close``.

    Whatever may be refused is refused by the constructor: no query is governed by then.
    """

    def __init__(self, run_dir: Path, name: str) -> None:
        """Keeps the record of an earlier start aside. ``ConfigError``: see ``own_run_dir``."""
        self._governor: Governor | None = None
        with ExitStack() as opened:
            folder = opened.enter_context(own_run_dir(run_dir, name))
            self.root = folder.root
            self.events = EventLog(self.root)
            opened.callback(self.events.close)
            self._parts = RecordParts(folder.record, Limits().record_max_bytes)
            opened.callback(ControlServer(self.root, self._answer).close)
            self._open = opened.pop_all()

    def begin_record(self, roster: Roster, workers: int, about: About, emit: Emit) -> RecordOnDisk:
        """A record that is written on a thread of its own."""
        record = RecordOnDisk(self._parts, roster, workers, about)
        tasks = PeriodicTasks([PeriodicTask("write_record", 1.0, record.write)], emit)
        self._open.callback(tasks.stop)
        return record

    def listen(self, governor: Governor) -> None:
        """Answers operators' commands from now on, as an application does."""
        self._governor = governor

    def _answer(self, command: str, values: Mapping[str, Any]) -> Any:
        if self._governor is None:
            raise ConfigError(str(self.root), "its governor is only just starting", "try again")
        return handle(self._governor, command, {"by": "control socket", **values})

    def close(self) -> None:
        """Lets another process open it. Idempotent."""
        self._open.close()


def begin_record(
    files: GovernorFiles | None, roster: Roster, workers: int, about: About, emit: Emit
) -> GovernedRecord:
    """A record in the run directory, or without one in memory."""
    if files is None:
        return GovernedRecord(roster, workers, about)
    return files.begin_record(roster, workers, about, emit)
