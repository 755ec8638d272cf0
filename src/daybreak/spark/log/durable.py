"""Files that survive a power cut: written, synced, then renamed into place."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model.errors import ConfigError

#: Linux alone has it.
_SYNCFS: Callable[[int], int] | None = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def write_durably(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Makes ``path`` exist whole or not at all, and durably, once this returns; gives its size.

    A crash leaves at most ``path`` with ``.partial`` added, which the next call overwrites.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
    except BaseException:
        with suppress(OSError):
            partial.unlink()  # a full disk has better uses for its room
        raise
    move_durably(partial, path)
    return size


def write_whole(path: str, content: bytes) -> None:
    """Writes a file that need not survive a power cut; removes what a full disk took of it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
    except OSError:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108  # as above
        raise
    finally:
        os.close(handle)


def create_durably(path: Path, content: bytes) -> None:
    """As ``write_durably``, of a file that must not be there: ``FileExistsError`` if it is.

    Of two processes that create it at once, one succeeds, where the file system has links.
    """
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:  # no links there
            if path.exists():
                raise FileExistsError(path) from None
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()
    sync_folder(path.parent)


def move_durably(source: Path, target: Path) -> None:
    """Renames within one file system; after a crash the file is at one place or the other."""
    source.replace(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def sync_files(paths: Iterable[Path]) -> None:
    """Makes files and their names durable; one that is gone was taken away by a reader.

    Linux can sync a whole file system: one wait for hundreds of files. Syncing them one by one
    makes others that create files meanwhile wait as often.
    """
    if _SYNCFS is None:
        for path in paths:
            with suppress(FileNotFoundError):
                _sync(path, os.fsync)
                sync_folder(path.parent)
        return
    by_device: dict[int, Path] = {}
    for folder in {path.parent for path in paths}:
        with suppress(FileNotFoundError):
            by_device[folder.stat().st_dev] = folder
    for folder in by_device.values():
        _sync(folder, partial(_checked, _SYNCFS))


def _checked(syncfs: Callable[[int], int], handle: int) -> None:
    if syncfs(handle) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _sync(path: Path, how: Callable[[int], None]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        how(handle)
    finally:
        os.close(handle)


def boot_id() -> str | None:
    """Another text after each start of the machine; None where the kernel does not say.

    What a process wrote outlives that process, synced or not; it may not outlive the machine.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def make_folder(path: Path) -> Path:
    """The folder, made durably with its parents where they are missing."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)
    return path


def remove_unfinished(checkpoint: Path) -> None:
    """Removes what Spark had begun to write to a checkpoint; call it while no query uses that.

    A full disk or a kill leaves such files. Nothing reads them, but before its first micro-batch
    Spark takes them for another query's, and never starts.
    """
    for folder in ("", "offsets", "commits", "sources/*"):
        for pattern in (".*.tmp", ".*.tmp.crc"):
            for path in checkpoint.glob(f"{folder}/{pattern}".lstrip("/")):
                path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable; syncing a file alone does not."""
    _sync(path, os.fsync)


def same_folder(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder, by whatever links; it need not be there yet."""
    if one == other:
        return True
    with suppress(OSError):
        return one.samefile(other)
    return one.resolve() == other.resolve()


def rows_kept(folder: Path) -> int:
    """Rows of all Parquet files of a folder; ``ConfigError`` if one cannot be read."""
    total = 0
    for path in folder.glob("*.parquet"):
        try:
            total += pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException) as error:
            finding = f"is damaged ({str(error).splitlines()[0]})"
            raise ConfigError(str(path), finding, "restore it, or move it away") from error
    return total


def file_name(name: str) -> str:
    """A stream's or query's name as one path component, different for different names."""
    quoted = quote(name, safe=" ")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


#: What a file name may take, less a job's number and the longest ending.
LONGEST_NAME_BYTES = 200


def refuse_long_name(name: str, place: str) -> None:
    """``ConfigError`` if no file can be named after a stream or query."""
    taken = len(file_name(name))
    if taken > LONGEST_NAME_BYTES:
        raise ConfigError(
            place,
            f"its name takes {taken} bytes in the names of files, more than {LONGEST_NAME_BYTES}",
            "shorten it; letters other than a-z, digits and blanks take three bytes or more",
        )
