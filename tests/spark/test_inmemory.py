"""Folders in memory: a kill leaves one behind, and the next start removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daybreak.spark.tasks.prepared.trains import MemoryFolder

OWNER = """
import sys
from pathlib import Path
from daybreak.spark.tasks.prepared.trains import MemoryFolder
folder = MemoryFolder(Path(sys.argv[1]))
(folder.path / "in").write_bytes(b"rows")
print(folder.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def process(shared: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a folder of its own."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(shared)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        yield owner, Path(owner.stdout.readline().strip())
        owner.kill()


def test_rows_that_a_killed_process_left_in_memory_are_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    with process(tmp_path) as (killed, left), process(tmp_path) as (_, living):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "in").read_bytes() == b"rows"
        mine = MemoryFolder(tmp_path)
        assert not left.exists()
        assert (living / "in").read_bytes() == b"rows", "another process is at work there"
        other = MemoryFolder(tmp_path)
        assert mine.path.is_dir(), "a second one of the same process leaves the first alone"
        other.close()
        mine.close()
        mine.close()
        assert list(tmp_path.iterdir()) == [living]


def test_what_is_not_ours_in_memory_stays(tmp_path: Path) -> None:
    """A folder without a lock file, one that is being made, a link, a file."""
    (tmp_path / "daybreak-unlocked").mkdir()
    (tmp_path / ".daybreak-being-made").mkdir()
    (tmp_path / ".daybreak-being-made" / "lock").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / "daybreak-link").symlink_to(elsewhere)
    (tmp_path / "daybreak-file").touch()
    before = sorted(tmp_path.rglob("*"))
    MemoryFolder(tmp_path).close()
    assert sorted(tmp_path.rglob("*")) == before


def test_without_shared_memory_the_folder_is_a_temporary_one(tmp_path: Path) -> None:
    folder = MemoryFolder(tmp_path / "missing")
    assert folder.path.is_dir()
    assert os.access(folder.path, os.W_OK)
    folder.close()
    assert not folder.path.exists()
