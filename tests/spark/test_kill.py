"""The whole process and real signals: told to stop it ends well, killed it loses nothing."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks.soaking.application import delivered, left_behind, pipeline, start
from benchmarks.soaking.kills import await_delivery, kills
from benchmarks.soaking.large_kills import direct_kills
from benchmarks.soaking.life import (
    DIRECT_STAGES,
    KAFKA_STAGES,
    LARGE_STAGES,
    STAGES,
    TABLE_STAGES,
    holder_of,
)
from benchmarks.soaking.quick_jvm import quick_jvm

from daybreak.runtime.report import RunReport

pytestmark = pytest.mark.spark

KILLS = 3


@pytest.mark.parametrize(
    "told", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM]
)
def test_told_to_stop_it_ends_in_a_report(tmp_path: Path, told: signal.Signals) -> None:
    (tmp_path / "pipeline.toml").write_text(pipeline(20_000, 300))
    process = start(tmp_path, java_options=quick_jvm())
    await_delivery(process, tmp_path, 0)
    process.send_signal(told)
    said = tmp_path / "log.txt"
    assert process.wait(timeout=120) == 0, said.read_text()
    assert "stopping: jobs under way end first" in said.read_text()
    assert "Traceback" not in said.read_text()
    report = RunReport.load(tmp_path / "runs/pipeline/record")
    read = sum(pq.read_table(f).num_rows for f in delivered(tmp_path, "everything"))
    assert report.by_query()["everything"].count == read > 0
    assert not left_behind(tmp_path / "out"), "what was decided is delivered"
    assert not (tmp_path / "runs/pipeline/control.sock").exists()
    assert json.loads((tmp_path / "runs/pipeline/lock").read_text()) == {}, "nobody holds it"


@pytest.mark.parametrize(
    "stage", [*STAGES, *KAFKA_STAGES, *TABLE_STAGES, *LARGE_STAGES, *DIRECT_STAGES]
)
def test_every_stage_is_one_that_the_process_comes_to(stage: str) -> None:
    """A kill at a function that was renamed would never come."""
    holder, name = holder_of(stage)
    assert callable(getattr(holder, name))


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """The short form of the soak's hundred kills."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found = kills(KILLS, seed, tmp_path, print)
    assert found["wrong"] == []
    assert found["kills"] == KILLS


@pytest.mark.parametrize("count", [KILLS, pytest.param(60, marks=pytest.mark.soak)])
def test_a_stream_that_is_read_directly_loses_nothing_at_any_stage(
    tmp_path: Path, count: int
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found = direct_kills(count, seed, tmp_path, print)
    assert found["wrong"] == [], (tmp_path / "log.txt").read_text()[-3000:]
    assert found["kills"] == count
