"""A folder is written by one application at a time, whatever ends its driver."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daybreak.model.errors import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.sinks.folder_locks import FolderLocks
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink

#: Takes the lock of the log and the folder that it is given, says so, and stays.
HOLDER = """
import sys, time
from pathlib import Path
from daybreak.model.specs import SinkSpec
from daybreak.spark.sinks.folder_locks import FolderLocks
from daybreak.spark.sinks.make import make_sink
log, folder = sys.argv[1], Path(sys.argv[2])
sink = make_sink("fire", SinkSpec(format="parquet", path="out"), folder, folder / "staging")
FolderLocks(log, folder / "other").take("fire", sink, "here")
print("held", flush=True)
sys.stdin.read()
"""


def sink_of(folder: Path, format: str = "parquet", **more: Any) -> Sink:  # noqa: A002
    spec = SinkSpec(format=format, path="out")
    return make_sink("fire", spec, folder, folder / "staging", **more)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "suspended"])
def test_another_run_is_refused_until_the_first_is_gone(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    command = [sys.executable, "-c", HOLDER, "aaaa", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        locks, sink = FolderLocks("bbbb", tmp_path / "run"), sink_of(tmp_path)
        expected = rf"p\.toml:3: sink: .*out belongs to the run in .*other, process {holder.pid}"
        with pytest.raises(ConfigError, match=expected):
            locks.take("fire", sink, "p.toml:3")
        if end is None:  # its log has another driver by now: that one may write
            holder.send_signal(signal.SIGSTOP)
            standby = FolderLocks("aaaa", tmp_path / "standby")
            assert standby.take("fire", sink, "p.toml:3") is None
            holder.kill()
            holder.wait()
            with pytest.raises(ConfigError, match="belongs to the run"):
                locks.take("fire", sink, "p.toml:3")
            standby.close()
        else:
            holder.send_signal(end)
            holder.wait()
        assert locks.take("fire", sink, "p.toml:3") is None
        assert locks.take("fire", sink, "p.toml:3") is None, "a query holds it once"
        locks.release("fire")
        assert FolderLocks("cccc", tmp_path / "run").take("fire", sink, "p.toml:3") is None


@pytest.mark.parametrize("mode", ["complete", None], ids=["complete", "append"])
def test_what_the_lock_leaves_is_no_content_of_the_folder(tmp_path: Path, mode: Any) -> None:
    locks = FolderLocks("aaaa", tmp_path / "run")
    sink = sink_of(tmp_path, mode=mode)
    locks.take("fire", sink, "here")
    locks.close()
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["_staging"]
    sink_of(tmp_path, mode=mode)
    assert FolderLocks("bbbb", tmp_path / "run").take("fire", sink, "here") is None


def test_only_sinks_with_a_folder_are_locked(tmp_path: Path) -> None:
    sink = make_sink("fire", SinkSpec(format="memory"), tmp_path, tmp_path / "staging")
    assert FolderLocks("aaaa", tmp_path).take("fire", sink, "here") is None
    assert list(tmp_path.iterdir()) == []


def _no_locks(_handle: int, _how: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize("fails", [_no_locks, None], ids=["no locks", "no folder"])
def test_where_no_lock_can_be_held_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[[int, int], None] | None
) -> None:
    sink = sink_of(tmp_path)
    if fails is None:
        (tmp_path / "out").write_text("in the way")
    else:
        monkeypatch.setattr(fcntl, "flock", fails)
    found = FolderLocks("aaaa", tmp_path).take_all({"fire": sink}, {})
    assert found.keys() == {"fire"}
    assert "out cannot be locked (" in found["fire"]
