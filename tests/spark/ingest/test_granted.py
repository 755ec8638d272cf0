"""Sources ask the engine before they read for long, whichever way they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.model.specs import IngestWay
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 40_000


@pytest.mark.parametrize("way", ["spark", "direct"])
def test_a_long_step_is_granted_and_its_worker_comes_back(
    spark: SparkSession, tmp_path: Path, way: IngestWay
) -> None:
    (tmp_path / "in").mkdir()
    text = "".join(f'{{"n": {n}}}\n' for n in range(ROWS))
    (tmp_path / "in" / "history.json").write_text(text)
    app = App(spark, name="granted", folder=tmp_path)
    app.stream("history", format="json", schema="n BIGINT", path="in", ingest=way)
    app.query("all", sql="SELECT n FROM history")
    with app.run("fcfs", run_dir=tmp_path / "run", workers=1) as run:
        run.drain()
        steps = run.parts.scheduling.driver.gate.steps("history")
        assert run.rows("all").num_rows == ROWS, "the only worker was free for the query again"
    assert steps.granted >= 1
    assert steps.waited_ns > 0
