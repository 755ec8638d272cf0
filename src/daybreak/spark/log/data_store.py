"""The store: the folders of what is too large for the commit log, on a path that outlives a driver.

::

    STORE/store.json     the log that lists what is here
    STORE/segments/      what was ingested, where it is large
    STORE/checkpoints/   Structured Streaming's own checkpoints, one folder a stream
    STORE/state/         checkpoints and steps of stateful queries, one folder a query
    STORE/feed/          segments that stateful queries are reading
    STORE/staging/       results of sinks that are not files, before they are delivered
    STORE/dead/          malformed records, kept aside
    STORE/late/          rows that came after their windows were closed

It is the run directory unless ``[app] store`` names another folder. ``store.json`` is there where
the store or the log lies outside of the run directory: nothing is written while it is missing, so a
folder that is no longer mounted is not mistaken for an empty store.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from daybreak.model import ConfigError
from daybreak.spark.failures import LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import make_folder, write_durably

MARKER = "store.json"
#: Between two looks whether it is back.
LOOK_S = 0.25
_FOLDERS = ("segments", "checkpoints", "staging")


class DataStore:
    """The folders of one application's data. Methods may be called from any thread."""

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        """``shared``: it is not the run directory. ``ConfigError`` if it cannot be written to."""
        self.root = root
        self._shared = shared
        self.segments, self.checkpoints, self.staging = (root / name for name in _FOLDERS)
        self.dead, self.late = root / "dead", root / "late"
        self._marker: Path | None = None
        self._stopping = threading.Event()
        if shared:
            self._refuse_unusable()  # what is missing is made once it is clear whose it is
        else:
            self._make()

    def _make(self) -> None:
        for below in (self.segments, self.checkpoints, self.staging):
            make_folder(below)

    def _refuse_unusable(self) -> None:
        root, place = self.root, f"store {self.root}"
        mount = "mount it, or correct store in [app]"
        if not root.parent.is_dir():
            raise ConfigError(place, f"{root.parent} is not there", mount)
        try:
            found = sorted(path.name for path in root.iterdir()) if root.exists() else []
        except OSError as error:
            finding = f"cannot be used ({error.strerror})"
            raise ConfigError(place, finding, mount) from error
        if not os.access(root if root.exists() else root.parent, os.W_OK | os.X_OK):
            raise ConfigError(place, "cannot be written to", "allow it, or correct store in [app]")
        others = [name for name in found if name not in (*_FOLDERS, "dead", "late")]
        if others and MARKER not in found and f"{MARKER}.partial" not in found:
            finding = f"holds {others[0]!r} and no {MARKER}, so it is no store"
            raise ConfigError(place, finding, "choose a new or an empty folder")

    def claim(self, log: CommitLog) -> None:
        """Ties the store to its log; ``ConfigError`` if they do not belong together."""
        marker, place = self.root / MARKER, f"store {self.root}"
        content = _parsed(marker)
        if content is None:
            if log.queries() or log.segments():
                raise ConfigError(
                    place,
                    f"has no {MARKER}, but {log.database.shown} lists data that is in its store",
                    "mount or restore the store, or correct store in [app]",
                )
            make_folder(self.root)
            text = json.dumps({"log": log.id}).encode()
            write_durably(marker, lambda out: out.write(text))
        elif content != {"log": log.id}:
            raise ConfigError(
                place,
                f"holds the data of another log than {log.database.shown}",
                "give each application a store of its own, or restore its log",
            )
        self._make()
        self._marker = marker

    def confirm(self) -> None:
        """``LogUnavailable`` while the store is out of reach."""
        trouble = self.trouble()
        if trouble is not None:
            raise LogUnavailable(trouble)

    def wait(self) -> None:
        """Waits until the store is there; ``LogUnavailable`` if it is not when the run stops."""
        while self.trouble() is not None:
            if self._stopping.wait(LOOK_S):
                self.confirm()

    def trouble(self) -> str | None:
        """Why nothing can be written now; None if it can."""
        if self._marker is None or self._marker.exists():
            return None
        return f"store {self.root} is out of reach ({self._marker} is not there)"

    def stop_waiting(self) -> None:
        self._stopping.set()


def _parsed(marker: Path) -> object:
    try:
        return json.loads(marker.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        finding = f"{MARKER} cannot be read ({error})"
        raise ConfigError(f"store {marker.parent}", finding, "restore it") from error
