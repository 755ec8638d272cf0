"""The short form of the soak: many queries at a steady rate, and nothing grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.soak import measure, steady_app, verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_handles_threads_and_log_do_not_grow(spark: SparkSession, tmp_path: Path) -> None:
    app = steady_app(spark, tmp_path, queries=30, rate_per_s=200)
    with app.run("stride", run_dir=tmp_path / "run") as run:
        run.wait(4.0)  # everything has run once: compiled, opened, started
        samples = []
        for _ in range(8):
            run.wait(0.5)
            samples.append(measure(run))
        assert not run.failures
    flat = verdicts(samples)
    for what in ("python threads", "handles", "segments"):
        assert flat[what].flat, flat[what]
    assert samples[-1]["answered"] > samples[0]["answered"] > 0
