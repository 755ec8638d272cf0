"""The event log: one line per event, in the file and on standard error."""

from __future__ import annotations

import json
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daybreak.runtime import eventlog
from daybreak.runtime.eventlog import EventLog, log_to_standard_error, only_json


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    logger = logging.getLogger("daybreak")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_events_become_lines_of_json_and_outlive_restarts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "wild"
    folder.mkdir()
    for start in range(2):
        log = EventLog(folder)
        about = {"query": "q", "class": None, "rows": 7, "start": start}
        log.emit("gave-up", "7 rows\n(full) 100%", level=logging.WARNING, fields=about)
        log.emit("job", "too fine", level=logging.DEBUG, fields={})
        log.close()
        log.close()
    found = lines(folder)
    assert [e["start"] for e in found] == [0, 1]
    assert found[0] | {"time": ""} == {
        "time": "", "level": "warning", "run": "wild", "event": "gave-up",
        "message": "7 rows\n(full) 100%", "query": "q", "rows": 7, "start": 0,
    }  # fmt: skip
    assert found[0]["time"].endswith("Z")
    assert capfd.readouterr().err == "", "a library says nothing by itself"


@pytest.mark.parametrize("form", ["text", "json"])
def test_standard_error_gets_the_same_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: eventlog.Format
) -> None:
    log_to_standard_error(form, "warning")
    log_to_standard_error(form, "warning")  # once more does not say everything twice
    assert only_json() == (form == "json")
    log = EventLog(tmp_path)
    about = {"query": "fire", "class": "critical"}
    log.emit("parked", "OSError: first\n\x1b[31msecond ü", level=logging.ERROR, fields=about)
    log.emit("started", "is not shown at this level", level=logging.INFO, fields={})
    log.close()
    logging.getLogger("daybreak.links").warning("a link is %s", "down")
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 2
    if form == "json":
        assert json.loads(shown[0]) == lines(tmp_path)[0]
        assert json.loads(shown[1])["message"] == "a link is down"
        assert json.loads(shown[1])["event"] == "links"
    else:
        assert shown[0].endswith(
            " error parked query=fire class=critical: OSError: first\\n\\x1b[31msecond ü"
        )
        assert shown[1].endswith(" warning links: a link is down")
    assert len(lines(tmp_path)) == 1, "the level holds for the file, too"


def test_the_file_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "MAX_BYTES", 2000)
    log = EventLog(tmp_path)
    for i in range(200):
        log.emit("tick", str(i), level=logging.INFO, fields={})
    log.close()
    assert {p.name for p in tmp_path.iterdir()} == {"events.jsonl", "events.jsonl.1"}
    assert all(p.stat().st_size <= 2000 for p in tmp_path.iterdir())
    assert lines(tmp_path)[-1]["message"] == "199"


def test_a_disk_that_takes_nothing_disturbs_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    log = EventLog(tmp_path)
    for _ in range(3):
        log.emit("tick", "lost", level=logging.INFO, fields={})
    log.close()
    assert capfd.readouterr().err == ""


@contextmanager
def no_file_beyond(most_bytes: int) -> Iterator[None]:
    """Files of this process grow no further; a line that does not fit is written by half."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_without_room_waits_for_it_and_is_never_there_by_half(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.emit("tick", "0", level=logging.INFO, fields={})
    size = (tmp_path / "events.jsonl").stat().st_size
    with no_file_beyond(size + 10):
        for i in (1, 2):
            log.emit("tick", str(i), level=logging.INFO, fields={})
            assert [e["message"] for e in lines(tmp_path)] == ["0"]
    log.emit("tick", "3", level=logging.INFO, fields={})
    log.close()
    assert [e["message"] for e in lines(tmp_path)] == ["0", "1", "2", "3"]


def test_half_a_line_of_an_earlier_process_is_removed(tmp_path: Path) -> None:
    for i in range(2):
        log = EventLog(tmp_path)
        log.emit("tick", f"{i}\udc80", level=logging.INFO, fields={})
        log.close()
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write('{"time": "2026-')
    log = EventLog(tmp_path)
    log.emit("tick", "2", level=logging.INFO, fields={})
    log.close()
    assert [e["message"] for e in lines(tmp_path)] == ["0\udc80", "1\udc80", "2"]
