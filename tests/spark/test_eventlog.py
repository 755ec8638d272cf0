"""What a run on Spark tells its event log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.until import until

from daybreak.model import Arrivals, ConfigError
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.control import call
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from daybreak.spark.run import Run

pytestmark = pytest.mark.spark


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def awaited(folder: Path, name: str, within_s: float = 60.0) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [e for e in events(folder) if e["event"] == name]

    until(found, f"the event {name!r}", within_s=within_s)
    return found()[-1]


class Bursts:
    """Sheds half of one query's tuples in every second review that saw any."""

    def __init__(self) -> None:
        self._turn = 0

    def review(
        self, elapsed_s: float, arrived: Mapping[int, int], backlog: Sequence[float]
    ) -> Mapping[int, float]:
        self._turn += bool(arrived)
        return {0: 0.5} if self._turn % 2 and arrived else {}


def started(spark: SparkSession, folder: Path, well: list[bool]) -> Run:
    app = App(spark, name="told")
    app.query_class("high", 60)
    app.stream("readings", format="generator", arrivals=Arrivals(rate_per_s=200))
    app.query("good", sql="SELECT reading FROM readings WHERE wind > 3", cls="high")

    @app.query(cls="high")
    def bad(readings: DataFrame) -> DataFrame:
        if not well[0]:
            raise ValueError("not today")
        return readings

    app.limits = replace(app.limits, retries=1, retry_s=0.05, admit_load=1e-6)
    return app.run(
        "fcfs", run_dir=folder, shedding=SheddingParams(window_s=0.3), on_failure="report"
    )


def test_a_run_tells_what_happened_to_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.engine.overload.Shedder", lambda *_view, **_spared: Bursts())
    folder, well = tmp_path / "told", [True]  # it is called once to be checked
    with started(spark, folder, well) as run:
        well[0] = False
        parked = awaited(folder, "parked")
        assert (parked["query"], parked["class"], parked["level"]) == ("bad", "high", "error")
        assert parked["error"] == "ValueError: not today"
        failed = [e for e in events(folder) if e["event"] == "job-failed"]
        assert [(e["failures"], e["next"]) for e in failed] == [(1, "retrying"), (2, "parked")]
        assert all(e["tuples"] > 0 and e["run"] == "told" for e in failed)
        well[0] = True
        call(folder, "resume", {"query": "bad"})
        query = {"name": "more", "sql": "SELECT * FROM readings", "class": "high",
                 "weight": 1.0, "qos": None, "sink": {"format": "console", "path": None},
                 "on_full": None}  # fmt: skip
        # What one more query costs is not known before.
        until(lambda: run.parts.inflow.rates.per_s("readings"), "rows arrive")
        with pytest.raises(ConfigError, match="is not admitted"):
            call(folder, "register", {"query": query})
        with pytest.raises(ConfigError, match="priority -1"):
            call(folder, "set-class", {"class": "high", "priority": -1})
        awaited(folder, "shedding-began")
        assert awaited(folder, "shedding-ended")["rows"] >= 0
    told = events(folder)
    names = [e["event"] for e in told]
    assert names[0] == "started"
    assert names[-1] == "stopped"
    assert told[0]["policy"] == "fcfs"
    [resumed] = [e for e in told if e["event"] == "change"]
    assert (resumed["what"], resumed["query"], resumed["by"]) == (
        "resumed", "bad", "control socket"
    )  # fmt: skip
    assert "admission-refused" in names
    refused = [(e["command"], e["by"]) for e in told if e["event"] == "refused"]
    assert refused == [("register", "control socket"), ("set-class", "control socket")]


PIPELINE = """
[app]
name = "noise"
policy = "fcfs"

[streams.readings]
format = "generator"
arrivals = { process = "periodic", rate_per_s = 50 }

[queries.q]
sql = "SELECT reading FROM readings"
sink = { format = "parquet", path = "out/q" }
"""


def test_the_command_writes_json_lines_and_nothing_else_to_standard_error(tmp_path: Path) -> None:
    """Spark's start-up lines included; a signal is told before the end."""
    (tmp_path / "noise.toml").write_text(PIPELINE)
    command = [sys.executable, "-m", "daybreak", "run", "noise.toml", "--log-format", "json"]
    command += ["--dashboard", "--dashboard-address", "127.0.0.1:0", "--express", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines: list[dict[str, Any]] = []
        stopped = False
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "status" and not stopped:
                stopped = True
                [page] = [told["message"] for told in lines if told["event"] == "dashboard"]
                url = page.removeprefix("dashboard: ")
                with urllib.request.urlopen(f"{url}api/snapshot", timeout=60) as answer:
                    assert json.load(answer)["pipeline"] == "noise"
                process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    names = [line["event"] for line in lines]
    assert "spark" in names, "its chatter is marked as such"
    # Plans are probed on a thread of their own.
    assert names.count("prepared-plans") == 1
    ours = [n for n in names if n not in ("spark", "status", "prepared-plans")]
    assert ours == ["started", "dashboard", "stopping", "stopped"]
    [told] = [line for line in lines if line["event"] == "started"]
    assert (told["workers"], told["express"]) == (2, 1)
    kept = [e["event"] for e in events(tmp_path / "runs/noise")]
    assert [n for n in kept if n != "prepared-plans"] == ["started", "stopping", "stopped"]
