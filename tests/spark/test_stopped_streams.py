"""A source that fails for good stops its own stream; the others are served, and it can go on."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.until import until
from typer.testing import CliRunner

from daybreak.cli.main import app as command
from daybreak.model import Arrivals, ConfigError, QueryFailed
from daybreak.model.limits import Limits
from daybreak.report.run import loss_lines
from daybreak.report.top import top_frame
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.app import App
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LIMITS = Limits(retries=1, retry_s=0.01)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command sends its events to a standard error that ends with it."""
    logger = logging.getLogger("daybreak")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def numbers(path: Path, *values: int) -> None:
    pq.write_table(pa.table({"n": values}), path.with_suffix(".partial"))
    path.with_suffix(".partial").rename(path)


def instants(path: Path, *seconds: int) -> None:
    at = pa.array([s * 10**6 for s in seconds], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at}), path.with_suffix(".partial"))
    path.with_suffix(".partial").rename(path)


def test_a_corrupt_file_stops_its_stream_alone_until_it_is_resumed(
    spark: SparkSession, tmp_path: Path
) -> None:
    arriving = tmp_path / "in"
    arriving.mkdir()
    (arriving / "bad.parquet").write_bytes(b"this is no Parquet at all")
    app = App(spark, name="stopped", folder=tmp_path)
    app.stream("files", format="parquet", schema="n BIGINT", path="in")
    app.stream("readings", format="generator", arrivals=Arrivals(rate_per_s=100))
    app.query("copied", sql="SELECT n FROM files")
    app.query("made", sql="SELECT reading FROM readings")
    run = app.run("fcfs", run_dir=tmp_path / "run", limits=LIMITS, workers=1, on_failure="report")
    with run:
        until(lambda: run.stopped_streams, "it is given up")
        [(name, why)] = run.stopped_streams.items()
        assert name == "files"
        assert "in/bad.parquet: " in why, "which file"
        assert "is not a Parquet file" in why, "what its reader says of it"
        assert "Traceback" not in why
        assert "\n" not in why

        before = run.rows("made").num_rows
        until(lambda: run.rows("made").num_rows > before + 20, "the other stream is served")
        run.healthy()
        shown = {row.name: row for row in Snapshot.from_json(run.snapshot().to_json()).streams}
        assert (shown["files"].stopped, shown["files"].error) == (True, why)
        assert not shown["readings"].stopped
        to = Console(width=1000, record=True, file=StringIO())
        to.print(top_frame(run.snapshot(), None, [], "name", 10))
        assert f"stream files stopped: {why}" in to.export_text()

        with pytest.raises(ConfigError, match="is not declared"):
            run.resume("nothing")
        (arriving / "bad.parquet").unlink()
        numbers(arriving / "bad.parquet", 1, 2)
        assert run.resume("files") == 0
        until(lambda: run.rows("copied").num_rows == 2, "the stream goes on")
        assert not run.stopped_streams
        assert run.changes[-1]["subject"] == "files"
    events = [json.loads(e) for e in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    [stopped] = [e for e in events if e["event"] == "stream-stopped"]
    assert (stopped["stream"], stopped["level"]) == ("files", "error")
    assert stopped["error"] == why


def test_a_stopped_stream_is_not_waited_for_and_its_windows_stay_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whoever asked for the end of the input is told that it was not reached."""
    app = App(spark, name="ends", folder=tmp_path)
    counted = "SELECT window.end AS e, count(*) AS n FROM {} GROUP BY window(at, '10 seconds')"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        instants(tmp_path / name / "0.parquet", 1, 2)
        app.stream(name, format="parquet", schema="at TIMESTAMP", path=name, time="at")
        app.query(f"of_{name}", sql=counted.format(name))

    def run_to_the_end() -> Run:
        with app.run("fcfs", run_dir=tmp_path / "run", limits=LIMITS, workers=1) as run:
            run.drain()
            (tmp_path / "b/bad.parquet").write_bytes(b"this is no Parquet at all")
            until(lambda: run.stopped_streams, "it is given up")
            run.drain(flush=True)
            assert run.rows("of_a")["n"].to_pylist() == [2]
            assert run.rows("of_b").num_rows == 0
            ran.append(run)
        raise AssertionError("nothing was raised")

    ran: list[Run] = []
    with (
        pytest.warns(RuntimeWarning, match="stream 'b' stopped"),
        pytest.raises(QueryFailed, match=r"stream 'b' stopped: .*bad\.parquet") as raised,
    ):
        run_to_the_end()
    assert raised.value.failures == {}
    [run] = ran
    [line] = [line for line in loss_lines(run.report()) if "stream b" in line]
    assert line.endswith("correct it and start again, nothing is lost")
    again = {row.name: row for row in snapshot_of_record(tmp_path / "run").streams}
    assert again["b"].stopped
    assert not again["a"].stopped

    instants(tmp_path / "b/bad.parquet", 3)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=LIMITS, workers=1) as run:
        run.drain(flush=True)
        assert run.rows("of_b")["n"].to_pylist() == [3], "no row was late"


def test_a_run_ends_when_every_stream_has_stopped(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/bad.parquet").write_bytes(b"this is no Parquet at all")
    app = App(spark, name="none", folder=tmp_path)
    app.stream("files", format="parquet", schema="n BIGINT", path="in")
    app.query("copied", sql="SELECT n FROM files")
    run = app.run("fcfs", run_dir=tmp_path / "run", limits=LIMITS, workers=1, on_failure="report")
    with run, pytest.raises(ConfigError, match=r"stream 'files': its source failed: .*bad.parquet"):
        run.drain()


def test_the_command_serves_the_others_to_their_end_and_exits_with_1(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        numbers(tmp_path / name / "0.parquet", 1, 2)
    (tmp_path / "bad/bad.parquet").write_bytes(b"this is no Parquet at all")
    streams = "".join(
        f"""
[streams.{name}]
format = "parquet"
schema = "n BIGINT"
path = "{name}"
[queries.of_{name}]
sql = "SELECT n FROM {name}"
sink = {{ format = "json", path = "out/{name}" }}
"""
        for name in ("bad", "good")
    )
    text = f'[app]\npolicy = "fcfs"\n[limits]\nretries = 0\n{streams}'
    (tmp_path / "pipeline.toml").write_text(text)
    done = CliRunner().invoke(command, ["run", "pipeline.toml", "--until-end", "--json"])
    assert done.exit_code == 1, done.output
    assert "stream bad stopped: " in done.stderr
    assert "is not a Parquet file" in done.stderr
    assert list(json.loads(done.stdout)["stopped_streams"]) == ["bad"]
    lines = [p.read_text().splitlines() for p in (tmp_path / "out/good").glob("*.json")]
    assert sum(map(len, lines)) == 2
