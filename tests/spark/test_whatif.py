"""What-if on a run that goes on, and by command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.model import Arrivals, ConfigError
from daybreak.simulation.whatif import Wanted, WhatIf, what_if
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_run_that_goes_on_is_replayed_as_far_as_it_is_recorded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of the record are written and joined meanwhile; changes are in the replay."""
    monkeypatch.setattr("daybreak.spark.upkeep.maintenance.PART_S", 0.2)
    monkeypatch.setattr("daybreak.runtime.record.MOST_PARTS", 3)
    app = App(spark, name="alive")
    app.query_class("high", 60)
    app.query_class("low", 10)
    app.stream("readings", format="generator", arrivals=Arrivals(rate_per_s=500))
    for i in range(4):
        cls = "high" if i % 2 else "low"
        app.query(f"q{i}", sql=f"SELECT reading FROM readings WHERE wind > {i}", cls=cls)
    app.query("w", sql="SELECT reading, part FROM readings LATERAL VIEW explode(array(1, 2)) t "
                       "AS part", cls="low")  # fmt: skip
    folder = tmp_path / "run"
    spans: list[float] = []
    with app.run("stride", run_dir=folder) as run:
        until = time.monotonic() + 60
        while len(spans) < 3 and time.monotonic() < until:
            found = _tried(folder)
            if found is not None and (not spans or found.edges_s[-1] > spans[-1]):
                spans.append(float(found.edges_s[-1]))
                if len(spans) == 1:
                    run.change_class_priority("low", 50)
        assert len(spans) == 3, "the record grows"
    command = [sys.executable, "-m", "daybreak", "whatif", str(folder), "--policy", "fcfs",
               "--policy", 'round-robin {"train": 200}']  # fmt: skip
    png = tmp_path / "curves.png"
    done = subprocess.run(
        [*command, "--png", str(png)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    trust = "calibration: stride replayed is within a factor of"
    replays = ("stride, replayed", "fcfs, replayed", "round-robin, replayed")
    for part in ("recorded", *replays, trust, f"picture: {png}"):
        assert part in done.stdout, part
    assert png.stat().st_size > 10_000
    told = json.loads(subprocess.run(
        [*command, "--json"], capture_output=True, text=True, timeout=120, check=True
    ).stdout)  # fmt: skip
    assert told["caveats"] == []
    assert [r["policy"] for r in told["runs"]] == ["stride", "stride", "fcfs", "round-robin"]
    recorded, own = (r["summary"]["results"] for r in told["runs"][:2])
    assert recorded / 10 < own < recorded * 10


def _tried(folder: Path) -> WhatIf | None:
    try:
        return what_if(folder, [Wanted("fcfs")])
    except ConfigError as error:
        if "has recorded n" in str(error):  # nothing is written yet, or no arrival
            return None
        raise  # there must never be a head without its series
