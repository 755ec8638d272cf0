"""Records and run directories of earlier versions open; those of later ones are refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.earlier import PACKED, ROWS, unpacked
from typer.testing import CliRunner

from daybreak.cli.main import app, main
from daybreak.dashboard.source import RunFolder
from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.report import FORMAT, RunReport
from daybreak.runtime.starts import load_run
from daybreak.simulation.recorded import RecordedRun
from daybreak.simulation.whatif import what_if
from daybreak.spark.jobs.adhoc import Kept, retained
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.migration import VERSION
from daybreak.spark.log.rundir import LAYOUT, RunDirectory

#: Everything that reads a record.
READERS: dict[str, Callable[[Path], Any]] = {
    "report": load_run,
    "last start": lambda run: RunReport.load(run / "record"),
    "replay": RecordedRun.load,
    "what if": lambda run: what_if(run, []),
    "snapshot": snapshot_of_record,
    "dashboard": RunFolder,
}


@pytest.fixture(params=PACKED, ids=[packed.name.removesuffix(".tar.gz") for packed in PACKED])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


def rewrite(report: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(report.read_text())
    change(data)
    report.write_text(json.dumps(data))


def heads(run: Path) -> list[Path]:
    return sorted((run / "record").rglob("report.json"))


def test_the_present_version_is_among_those_that_are_kept() -> None:
    assert any(p.name == f"layout-{LAYOUT}-record-{FORMAT}.tar.gz" for p in PACKED), (
        "run python -m tests.runtime.earlier, and commit what it writes"
    )


@pytest.mark.parametrize("numbered", [True, False])
def test_an_earlier_record_opens(earlier: Path, numbered: bool) -> None:
    """Also where the starts of one run have different formats, or none."""
    if not numbered:
        rewrite(heads(earlier)[-1], lambda data: data.pop("format"))
    report = load_run(earlier)
    assert len(report.manifest["starts"]) == 2
    assert report.manifest["starts_unreadable"] == 0
    answers = {name: s.count for name, s in report.by_query().items()}
    assert (answers["all"], answers["even"]) == (ROWS, 0)
    assert sum(j.tuples for j in RecordedRun.load(earlier).jobs if "all" in j.queries) == ROWS // 2
    assert what_if(earlier, []).tuples > 0
    assert snapshot_of_record(earlier).pipeline == "earlier"
    for arguments in (["report", str(earlier), "--json"], ["whatif", str(earlier), "--json"]):
        shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize("reader", READERS)
def test_a_later_record_is_refused_with_the_remedy(
    earlier: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(data: dict[str, Any]) -> None:
        data["format"] = FORMAT + 1
        data["manifest"]["daybreak"] = "99.1"
        del data["spent"]  # nothing is to be expected of a later format

    def no_second_attempt(_seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr("time.sleep", no_second_attempt)
    rewrite(earlier / "record/report.json", later)
    with pytest.raises(
        NewerFormat,
        match=rf"record format {FORMAT + 1}, written by Daybreak 99\.1, is newer than this "
        rf"Daybreak's {FORMAT}; install that version or a later one",
    ):
        READERS[reader](earlier)


def test_a_later_record_of_an_earlier_start_is_not_passed_over(earlier: Path) -> None:
    """The report would look complete."""
    [first] = (earlier / "record/starts").glob("*/report.json")
    rewrite(first, lambda data: data.update(format=FORMAT + 1))
    with pytest.raises(NewerFormat, match=r"starts/000001: .* newer"):
        load_run(earlier)


@pytest.mark.parametrize("command", ["report", "whatif"])
def test_commands_refuse_a_later_record_without_a_stack_trace(
    earlier: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rewrite(earlier / "record/report.json", lambda data: data.update(format=FORMAT + 1))
    monkeypatch.setattr("sys.argv", ["daybreak", command, str(earlier)])
    with pytest.raises(SystemExit, match="2"):
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("error: ")
    assert said.endswith("or a later one")


@pytest.mark.parametrize("number", [0, -1, True, "1", None, 1.5])
def test_a_format_that_is_no_number_is_no_record(earlier: Path, number: object) -> None:
    rewrite(earlier / "record/report.json", lambda data: data.update(format=number))
    with pytest.raises(ConfigError, match="holds no readable run report"):
        RunReport.load(earlier / "record")


def test_an_earlier_run_directory_opens_with_every_place(earlier: Path) -> None:
    RunDirectory.open(earlier, "earlier", "UTC").close()
    log = CommitLog(earlier / "state.db")
    read = {query: cursor.seq for (query, _), cursor in log.cursors().items()}
    written = log.segments("readings")
    assert sum(s.rows for s in written) == ROWS
    assert (read["all"], read["even"]) == (written[-1].seq + 1, 0)
    assert set(log.progress()) == {"counts"}
    assert log.partials("counts"), "of rows before its cursor"
    log.close()


def user_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_a_log_carries_its_format_and_one_without_gets_it(earlier: Path, tmp_path: Path) -> None:
    CommitLog(tmp_path / "new.db").close()
    assert user_version(tmp_path / "new.db") == VERSION
    with closing(sqlite3.connect(earlier / "state.db")) as db:
        db.execute("PRAGMA user_version = 0")
    CommitLog(earlier / "state.db").close()
    assert user_version(earlier / "state.db") == VERSION


def test_a_later_log_is_refused_before_anything_is_done_to_it(tmp_path: Path) -> None:
    """It may have other tables under our names, which our statements would trip over or change."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE files (something TEXT)")
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    remedy = "install the Daybreak that wrote it or a later one, or choose another run directory"
    refused = rf"commit log format {VERSION + 1} is newer than this Daybreak's {VERSION}; {remedy}"
    with pytest.raises(NewerFormat, match=refused):
        CommitLog(path)
    with pytest.raises(NewerFormat, match=refused):
        retained(Kept(tmp_path), "readings")  # as `daybreak query` does
    assert path.read_bytes() == before


def test_a_later_layout_names_the_version_to_install(earlier: Path) -> None:
    rewrite(earlier / "daybreak.json", lambda d: d.update(layout=LAYOUT + 1, daybreak="99.1"))
    with pytest.raises(NewerFormat, match=r"layout \d+, written by Daybreak 99\.1, is newer"):
        RunDirectory.open(earlier, "earlier")
