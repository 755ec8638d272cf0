"""Files that survive a power cut: written, synced, then renamed into place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote


def write_durably(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Makes ``path`` exist whole or not at all, and durably, once this returns; gives its size.

    A crash leaves at most ``path`` with ``.partial`` added, which the next call overwrites.
    """
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    move_durably(partial, path)
    return size


def move_durably(source: Path, target: Path) -> None:
    """Renames within one file system; after a crash the file is at one place or the other."""
    source.replace(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def sync_file(path: Path) -> None:
    """Makes what a file holds durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
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


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable; syncing a file alone does not."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_name(name: str) -> str:
    """A stream's or query's name as one path component, different for different names."""
    quoted = quote(name, safe=" ")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted
