"""What a dashboard shows: a run in this process, in another one, or the record of a finished one.

All three are asked in the same way, by the commands of the control socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from daybreak.model.errors import ConfigError
from daybreak.runtime.control import SOCKET, call
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.starts import record_of

Values = Mapping[str, Any]
#: A command and its values; gives what becomes JSON, or raises ``ConfigError``.
Ask = Callable[[str, Values], Any]


class RunFolder:
    """A run directory: asks its run while there is one, and tells its record after that."""

    def __init__(self, folder: Path) -> None:
        """``ConfigError`` if there is neither."""
        self.folder = folder
        self._read: tuple[float, dict[str, Any]] | None = None
        self("snapshot", {})

    def __call__(self, command: str, values: Values) -> Any:
        if command != "snapshot":
            return call(self.folder, command, values, timeout_s=150.0)
        if (self.folder / SOCKET).exists():
            try:
                return call(self.folder, command, values)
            except ConfigError:
                pass  # it ended this moment, or died and left its socket
        return self._recorded()

    def _recorded(self) -> dict[str, Any]:
        report = record_of(self.folder) / "report.json"
        written = report.stat().st_mtime if report.exists() else 0.0
        if self._read is None or self._read[0] != written:
            self._read = (written, snapshot_of_record(self.folder).to_json())
        return self._read[1]
