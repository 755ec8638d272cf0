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
from daybreak.runtime.control import ControlServer
from daybreak.runtime.eventlog import Emit, EventLog
from daybreak.spark.governed.governed_record import About, GovernedRecord, RecordOnDisk
from daybreak.spark.governed.governor_commands import handle
from daybreak.spark.governed.roster import Roster
from daybreak.spark.log.rundir import OwnedFolder
from daybreak.spark.maintenance import PeriodicTasks, Task

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor


class GovernorFiles:
    """An open run directory. No other process has it until ``close``."""

    def __init__(self, run_dir: Path, name: str) -> None:
        """``ConfigError`` if it is in use, or holds something else than the runs of ``name``."""
        if (run_dir / "state.db").exists():
            raise ConfigError(
                str(run_dir), "is the run directory of an application", "choose another one"
            )
        self._open = ExitStack()
        folder = self._open.enter_context(OwnedFolder.open_folder(run_dir, name))
        self.root, self.record = folder.root, folder.record
        self.events = EventLog(self.root)
        self._open.callback(self.events.close)

    def keep(self, record: RecordOnDisk, emit: Emit) -> None:
        """Writes what is taken for a record, on a thread of its own."""
        tasks = PeriodicTasks([Task("write_record", 1.0, record.write)], emit)
        self._open.callback(tasks.stop)

    def listen(self, governor: Governor) -> None:
        """Answers operators' commands, as an application does."""

        def answer(command: str, values: Mapping[str, Any]) -> Any:
            return handle(governor, command, {"by": "control socket", **values})

        self._open.callback(ControlServer(self.root, answer).close)

    def close(self) -> None:
        """Lets another process open it. Idempotent."""
        self._open.close()


def begin_record(
    files: GovernorFiles | None, roster: Roster, workers: int, about: About, emit: Emit
) -> GovernedRecord:
    """A record in the run directory, or without one in memory."""
    if files is None:
        return GovernedRecord(roster, workers, about)
    record = RecordOnDisk(files.record, roster, workers, about)
    files.keep(record, emit)
    return record
