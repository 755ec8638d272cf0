"""A report over all starts of a run directory, and classes as they were when queries answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.engine.state import SystemState
from daybreak.model import Box, ConfigError, Network, Query, QueryClass, Stream
from daybreak.report.run import starts_lines
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import RecordParts
from daybreak.runtime.report import RunReport
from daybreak.runtime.starts import load_run

S = 1_000_000_000


class Start:
    """One start of a run on Spark, as far as it is recorded."""

    def __init__(self, record: Path, *queries: str, started_s: float = 0.0) -> None:
        self.record = record
        network = Network(
            streams=[Stream(name="s")],
            boxes=[Box(name=q, inputs=("s",), cost_ns=1) for q in queries],
            queries=[Query(name=q, output=q, cls="low") for q in queries],
            classes=[QueryClass(name="high", priority=9), QueryClass(name="low", priority=1)],
        )
        self.state, self.monitor = SystemState(network), Monitor(network)
        self.number = {q.name: n for n, q in enumerate(network.queries)}
        assert list(self.number) == [b.name for b in network.boxes]
        self.parts = RecordParts(record, 2**30)
        self.about = {"world": "spark", "policy": "stride", "started_s": started_s}
        self.now_ns = 0

    def move(self, query: str, cls: int) -> None:
        self.state.query_class[self.number[query]] = cls

    def answer(self, name: str, tuples: int, rows: int, latency_s: float = 1.0) -> None:
        """One job, a second after the one before."""
        query = self.number[name]
        self.now_ns += S
        arrived_ns = self.now_ns - round(latency_s * S)
        cls = self.state.query_class[query]
        self.monitor.answered(query, arrived_ns, self.now_ns, tuples, cls)
        if rows:
            self.monitor.was_stale(query, arrived_ns, self.now_ns)
        self.state.tuples_out[query] += rows
        self.monitor.decisions += 1

    def write(self) -> None:
        self.monitor.sample(self.now_ns, self.state)
        self.parts.add(self.monitor.take())
        self.parts.write()
        self.monitor.head(self.state, self.now_ns, 2, self.about).save_head(self.record)


def test_answers_count_for_the_class_the_query_had_at_that_time(tmp_path: Path) -> None:
    """Also in parts: some were written before the change, some after it."""
    start = Start(tmp_path, "a", "b")
    start.answer("a", tuples=10, rows=1)
    start.write()
    start.answer("a", tuples=5, rows=0)
    start.move("a", 0)
    start.answer("a", tuples=3, rows=0)
    start.answer("b", tuples=2, rows=0)
    start.write()
    report = RunReport.load(tmp_path)
    assert {name: s.count for name, s in report.by_class().items()} == {"high": 3, "low": 17}
    assert {name: s.count for name, s in report.by_query().items()} == {"a": 18, "b": 2}
    again = RunReport.load(report.save(tmp_path / "copy"))
    assert {name: s.count for name, s in again.by_class().items()} == {"high": 3, "low": 17}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two starts: the second drops one query, has another one, and moves the third."""
    record = tmp_path / "run/record"
    first = Start(record, "gone", "kept", started_s=1000)
    first.answer("gone", tuples=100, rows=2)
    first.answer("kept", tuples=10, rows=1)
    first.write()
    second = Start(record, "new", "kept", started_s=2000)
    second.move("kept", 0)
    second.answer("new", tuples=1000, rows=0)
    second.answer("kept", tuples=10, rows=4, latency_s=3.0)  # it waited while nothing ran
    second.answer("kept", tuples=10, rows=0)
    second.write()
    return tmp_path / "run"


def test_a_report_covers_all_starts(run: Path) -> None:
    report = load_run(run)
    assert {name: s.count for name, s in report.by_query().items()} == {
        "new": 1000, "kept": 30, "gone": 100,
    }  # fmt: skip
    assert {name: s.count for name, s in report.by_class().items()} == {"high": 20, "low": 1110}
    assert dict(zip(report.queries, report.result_rows or (), strict=True)) == {
        "new": 0, "kept": 5, "gone": 2,
    }  # fmt: skip
    assert report.duration_s == 5
    assert report.manifest["decisions"] == 5
    assert [s["started_s"] for s in report.manifest["starts"]] == [1000, 2000]
    # Response times are what they were, and the starts follow each other.
    assert report.by_query()["kept"].mean_s == pytest.approx((1 + 3 + 1) / 3)
    assert report.outputs.departure_ns.max() == 5 * S
    assert report.backlog.at_ns.tolist() == [2 * S, 5 * S]
    # "kept" was stale for a second of the first start and for two of the second.
    assert report.staleness[report.queries.index("kept")] == pytest.approx(3 / 5)
    assert load_run(run / "record").duration_s == 5


def test_a_start_that_has_no_report_yet_shows_the_earlier_ones(run: Path) -> None:
    Start(run / "record", "new")
    assert load_run(run).duration_s == 5


def test_a_start_that_cannot_be_read_is_counted(run: Path) -> None:
    (run / "record/starts/000001/report.json").write_text("{")
    report = load_run(run)
    assert report.duration_s == 3
    assert report.manifest["starts_unreadable"] == 1


def test_starts_that_made_room_are_counted(run: Path) -> None:
    Start(run / "record", "new").write()
    shutil.rmtree(run / "record/starts/000001")
    report = load_run(run)
    assert len(report.manifest["starts"]) == 2
    assert report.manifest["starts_dropped"] == 1
    assert "1 earlier starts made room for newer ones" in starts_lines(report)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no readable run report"):
        load_run(tmp_path)


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["report", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "record"])
def test_the_command_takes_a_run_directory_or_its_record(run: Path, folder: str) -> None:
    text = shown(str(run / folder))
    assert "start 1 at 1970-01-01 00:16:40 UTC: 2 s, stride" in text
    assert "start 2" in text


@pytest.mark.slow
def test_the_command_names_answers_and_rows(run: Path) -> None:
    text = shown(str(run))
    assert "answers" in text
    assert "rows" in text
    assert "results" not in text
    found = json.loads(shown(str(run), "--json"))
    assert found["overall"]["answers"] == 1130
    assert (found["queries"]["kept"]["answers"], found["queries"]["kept"]["rows"]) == (30, 5)


def test_the_command_can_show_the_last_start_alone(run: Path) -> None:
    found = json.loads(shown(str(run), "--last-start", "--json"))
    assert found["overall"]["answers"] == 1020
    assert found["duration_s"] == 3
