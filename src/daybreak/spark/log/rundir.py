"""The run directory: everything a run needs to go on after a crash, owned by one process.

::

    RUN/daybreak.json   layout, the version that made it, pipeline, time zone, when it was created
    RUN/lock            held while a driver runs; names its pid and its JVM's
    RUN/state.db        the commit log, with what is small of segments and results
    RUN/record/         what the monitor saw
    RUN/events.jsonl    what happened, a line of JSON each, over all starts
    RUN/control.sock    where commands reach the run while it is under way
    RUN/scratch/        rows on their way to the executors; of no use after the run

and the folders of the store (``data_store.py``), unless the application has one elsewhere. So it is
with the commit log.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO

from daybreak.model import ConfigError
from daybreak.model.errors import NewerFormat
from daybreak.spark.log.data_store import DataStore
from daybreak.spark.log.durable import file_name, make_folder, write_durably
from daybreak.version import __version__

LAYOUT = 4
#: Layouts that opening makes the present one. 2 had no tables for what operators do; 3 kept the
#: progress of windows as row cursors, and partial aggregates as segments.
_MIGRATES = (2, 3)
#: A layout, and the version that made it, which an earlier Daybreak names as the one to install.
_FORMAT = {"layout": LAYOUT, "daybreak": __version__}
#: What an interrupted creation may have left behind.
_UNBORN = frozenset({"lock", "daybreak.json.partial"})
_POLL_S = 0.05


class OwnedFolder:
    """What every run directory has: its description, its lock and its record.

    No other process has it open until ``close`` or death.
    """

    def __init__(self, locked: _Locked, pipeline: str) -> None:
        self.root = locked.root
        self.pipeline = pipeline
        self.created: str = locked.described["created"]
        self.record = self.root / "record"
        self._lock = locked.lock
        self._folder = locked.folder
        make_folder(self.record)

    @classmethod
    def open_folder(cls, root: Path, pipeline: str) -> Self:
        """Creates or reopens it; ``ConfigError`` as ``RunDirectory.open``."""
        with _locked(root, pipeline) as locked:
            return cls(locked, pipeline)

    def close(self) -> None:
        """Lets another process open it. Stop Spark first; closing twice is allowed."""
        if not self._lock.closed:
            _write_owner(self._lock, {})
            self._lock.close()
            os.close(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RunDirectory(OwnedFolder):
    """An open run directory of an application, with a commit log and a store."""

    def __init__(self, locked: _Locked, pipeline: str, store: Path | None = None) -> None:
        super().__init__(locked, pipeline)
        root = self.root
        self.state_db = root / "state.db"
        self.store = DataStore(store or root, shared=store not in (None, root))
        self.segments, self.staging = self.store.segments, self.store.staging
        self.scratch = root / "scratch"

    @classmethod
    def open(
        cls,
        root: Path,
        pipeline: str,
        timezone: str | None = None,
        jvm_wait_s: float = 10.0,
        store: Path | None = None,
    ) -> Self:
        """Creates or reopens it; ``ConfigError`` if it is in use, foreign or of another layout.

        So it is if its rows were read in another ``timezone``: the same text would be another
        instant from now on. One that was made before time zones were recorded adopts this one.

        The JVM of a driver that was killed lives on for a moment and may still write: it is
        waited for up to ``jvm_wait_s``. ``store``: where its data is; left out: here.
        """
        with _locked(root, pipeline, timezone, jvm_wait_s) as locked:
            return cls(locked, pipeline, store)

    def name_jvm(self, pid: int) -> None:
        """Records the JVM of this driver, which can outlive it."""
        _write_owner(self._lock, {"driver": os.getpid(), "jvm": pid, "jvm_started": _started(pid)})

    def checkpoint(self, stream: str) -> Path:
        return self.store.checkpoints / file_name(stream)


class _Locked(NamedTuple):
    """A folder that no other process has."""

    root: Path
    described: dict[str, Any]
    lock: TextIO
    folder: int


@contextmanager
def _locked(
    root: Path, pipeline: str, timezone: str | None = None, jvm_wait_s: float = 10.0
) -> Iterator[_Locked]:
    """Let go again only where the block raises."""
    root = root.resolve()
    _refuse_foreign(root)
    try:
        make_folder(root)
    except OSError as error:
        raise ConfigError(
            str(root), f"cannot be made ({error.strerror})", "choose another run directory"
        ) from error
    lock, folder = _take_lock(root)
    try:
        _await_jvm(root, lock, jvm_wait_s)
        described = _describe(root, pipeline, timezone)
        _write_owner(lock, {"driver": os.getpid()})
        yield _Locked(root, described, lock, folder)
    except BaseException:
        lock.close()
        os.close(folder)
        raise


def _refuse_foreign(root: Path) -> None:
    """A folder with other things in it is somebody's data, not a run directory."""
    if root.exists() and not root.is_dir():
        raise ConfigError(str(root), "is a file", "choose another run directory")
    if not root.exists() or (root / "daybreak.json").exists():
        return
    others = sorted({entry.name for entry in root.iterdir()} - _UNBORN)
    if others:
        raise ConfigError(
            str(root),
            f"holds {others[0]!r} and no daybreak.json, so it is not a run directory",
            "choose a new or an empty folder",
        )


def _describe(root: Path, pipeline: str, timezone: str | None) -> dict[str, Any]:
    """What daybreak.json says, written now if it is missing."""
    path = root / "daybreak.json"
    zone = {} if timezone is None else {"timezone": timezone}
    if not path.exists():
        created = datetime.now(UTC).isoformat(timespec="seconds")
        new = {**_FORMAT, "pipeline": pipeline, **zone, "created": created}
        write_durably(path, lambda file: file.write(json.dumps(new, indent=2).encode()))
        return new
    found = _parsed(path.read_bytes())
    _check_layout(path, found)
    if found.get("pipeline") != pipeline:
        raise ConfigError(
            str(root),
            f"belongs to application {found.get('pipeline')!r}, not {pipeline!r}",
            "choose another run directory (run_dir, --run-dir), or rename the application",
        )
    recorded = found.get("timezone", timezone)
    if timezone is not None and recorded != timezone:
        raise ConfigError(
            str(root),
            f"was made in time zone {recorded!r}, and this run's is {timezone!r}",
            f'add timezone = "{recorded}" to [app], or choose a new run directory',
        )
    # The commit log migrates itself.
    present = {**found, **(_FORMAT if found["layout"] != LAYOUT else {}), **zone}
    if found != present:
        write_durably(path, lambda file: file.write(json.dumps(present, indent=2).encode()))
    return present


def _check_layout(path: Path, found: dict[str, Any]) -> None:
    layout = found.get("layout")
    if isinstance(layout, bool) or not isinstance(layout, int):
        finding, remedy = "names no layout", "restore it, or choose a new run directory"
    elif layout > LAYOUT:
        by, otherwise = found.get("daybreak"), "choose another run directory"
        raise NewerFormat(str(path), "layout", layout, LAYOUT, written_by=by, otherwise=otherwise)
    elif layout != LAYOUT and layout not in _MIGRATES:
        finding = f"layout {layout} is too old for this Daybreak, whose layout is {LAYOUT}"
        remedy = "let the Daybreak that wrote it finish, then choose a new run directory"
    elif not isinstance(found.get("created"), str):
        finding, remedy = f"layout {layout}, but no date", "restore it, or choose a new one"
    else:
        return
    raise ConfigError(str(path), finding, remedy)


def _take_lock(root: Path) -> tuple[TextIO, int]:
    """The lock file, and the folder itself, locked as well: a lock file can be removed."""
    # Opened without truncating: until the lock is ours, the content is the owner's.
    handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    lock = os.fdopen(handle, "r+", encoding="utf-8", errors="replace")
    folder = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with _where_supported():
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = _read_owner(lock)
        lock.close()
        os.close(folder)
        raise ConfigError(
            str(root),
            f"is in use by process {owner.get('driver', 'unknown')}",
            "stop that run first, or choose another run directory",
        ) from error
    return lock, folder


@contextmanager
def _where_supported() -> Iterator[None]:
    """Some network file systems lock no folders; there the lock file alone has to do."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError:
        return


def _await_jvm(root: Path, lock: TextIO, wait_s: float) -> None:
    owner = _read_owner(lock)
    pid = owner.get("jvm")
    if not isinstance(pid, int):
        return
    deadline = time.monotonic() + wait_s
    while _is_that_jvm(pid, owner.get("jvm_started")):
        if time.monotonic() >= deadline:
            raise ConfigError(
                str(root),
                f"its last driver is gone, but that driver's JVM, process {pid}, still runs",
                f"end it (kill {pid}) and start again",
            )
        time.sleep(_POLL_S)


def _is_that_jvm(pid: int, started: str | None) -> bool:
    """Pids are used again, quickly so in a container: the program and its start must agree."""
    stat = _stat(pid)
    if stat is not None:
        return stat[0] == "java" and stat[1] != "Z" and started in (None, stat[2])
    if Path("/proc/self/stat").exists():
        return False
    shown = subprocess.run(  # noqa: S603  # a number of our own
        ["ps", "-o", "comm=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return Path(shown.stdout.strip()).name == "java"


def _started(pid: int) -> str | None:
    stat = _stat(pid)
    return stat[2] if stat else None


def _stat(pid: int) -> tuple[str, str, str] | None:
    """Program, state and start time of a process, where there is a /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # pid (comm) state ppid ...: comm may hold blanks and parentheses; start time is field 22.
    head, tail = text.rsplit(")", 1)
    fields = tail.split()
    return head.split("(", 1)[1], fields[0], fields[19]


def _read_owner(lock: TextIO) -> dict[str, Any]:
    lock.seek(0)
    return _parsed(lock.read().encode())


def _write_owner(lock: TextIO, owner: dict[str, Any]) -> None:
    """Over what was there, which takes no room: a full disk must not keep a run from its end."""
    lock.seek(0)
    json.dump(owner, lock)
    lock.truncate()


def _parsed(content: bytes) -> dict[str, Any]:
    """A JSON object; empty if a crash or an editor left something else."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
