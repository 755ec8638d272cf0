"""``daybreak top`` against a control socket that serves snapshots."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.runtime.snapshots import snapshot

from daybreak.report.top import SORTS, ingest_lines, top_frame
from daybreak.runtime.control import ControlServer

COMMAND = [sys.executable, "-m", "daybreak", "top"]


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[Mapping[str, Any]]]:
    """A run directory with a socket; what it was asked for."""
    (tmp_path / "daybreak.json").write_text("{}")
    asked: list[Mapping[str, Any]] = []

    def handle(command: str, args: Mapping[str, Any]) -> Any:
        assert command == "snapshot"
        asked.append(args)
        return snapshot(30).to_json()

    server = ControlServer(tmp_path, handle)
    yield asked
    server.close()


def top(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_one_frame_shows_classes_queries_and_jobs(tmp_path: Path, asked: list[Any]) -> None:
    done = top(str(tmp_path), "--once", "--queries", "3", "--sort", "tuples")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "wildfire under stride" in shown
    assert "scheduler 1.2%" in shown
    assert "log 38% full" in shown
    for part in ("critical", "starving", "parked", "OSError: [Errno 28] No space left on [device]",
                 "query-29", "query-28", "and 27 more", "along", "failed", "prune"):  # fmt: skip
        assert part in shown, part
    assert "query-1 " not in shown.split("jobs")[0]


@pytest.mark.slow
def test_json_is_the_snapshot_itself(tmp_path: Path, asked: list[Any]) -> None:
    done = top(str(tmp_path), "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(snapshot(30).to_json()))


@pytest.mark.slow
def test_a_run_that_does_not_go_on_is_told_of_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "daybreak.json").write_text("{}")
    for args, finding in (
        ((str(tmp_path),), "no run is there now"),
        ((str(tmp_path / "nowhere"),), "is not a run directory"),
        ((str(tmp_path), "--sort", "wating"), "did you mean 'waiting'"),
    ):
        done = top(*args)
        assert done.returncode == 2
        text = done.stderr.replace("\n", " ")
        assert finding in text
        assert "Traceback" not in text
        if finding == "no run is there now":
            assert "daybreak report" in text
            assert "daybreak dashboard" in text


@pytest.mark.slow
def test_a_terminal_is_followed_until_ctrl_c_and_only_news_are_asked_for(
    tmp_path: Path, asked: list[Mapping[str, Any]]
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path), "--every-s", "0.1"], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
    )  # fmt: skip
    os.close(theirs)
    seen, until = b"", time.monotonic() + 60
    while len(asked) < 3 and time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # once nobody writes any more
        while time.monotonic() < until:
            seen += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(timeout=10) == 0
    assert b"wildfire" in seen
    assert asked[0] == {"jobs_after": -1, "points_after": -1}
    assert asked[1] == {"jobs_after": 4, "points_after": 7}


@pytest.mark.parametrize("sort", SORTS)
def test_frames_fit_eighty_columns(sort: str) -> None:
    found = snapshot(30)
    to = Console(width=80, file=StringIO(), force_terminal=True, color_system="standard")
    to.print(top_frame(found, found.last, found.jobs, sort, 10))
    with_colours = to.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1;31mparked" in with_colours
    assert "\x1b[32mrunning" in with_colours
    to = Console(width=80, file=StringIO())
    to.print(top_frame(found, found.last, found.jobs, sort, 10))
    lines = to.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line and "odd" not in line], "headings are whole"
    for part in (
        "critical",
        "88 412",
        "query-",
        "OSError: [Errno 28] No space left on [device]",
        "2.5 s",
        "12.5 µs",
    ):
        assert any(part in line for line in lines), part
    parked = next(i for i, line in enumerate(lines) if "parked" in line)
    assert parked < next(i for i, line in enumerate(lines) if "running" in line)


def test_streams_that_waited_for_their_turn_are_named() -> None:
    seen = snapshot()
    waited = seen.streams[0]._replace(ingest="direct", ingest_work_s=3.0, ingest_waited_s=9.5)
    lines = ingest_lines(replace(seen, streams=(waited, seen.streams[1])))
    assert lines == ["stream readings was read for 3 s and waited 9.5 s for its turn"]
    assert ingest_lines(seen) == []
