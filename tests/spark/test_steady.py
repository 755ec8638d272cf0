"""The short form of the soak: many queries at a steady rate, and nothing grows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.soaking.steady import Flatness, measure, steady_app, verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_handles_threads_and_log_do_not_grow(spark: SparkSession, tmp_path: Path) -> None:
    app = steady_app(spark, tmp_path, queries=30, rate_per_s=200)
    with app.run("stride", run_dir=tmp_path / "run") as run:
        deadline = time.monotonic() + 120
        while min(run.parts.keeping.figures.view.calls) < 2:  # compiled, opened, started
            assert time.monotonic() < deadline, "some query never ran"
            run.wait(0.1)
        samples, calls = [], min(run.parts.keeping.figures.view.calls)
        for _ in range(8):
            run.wait(0.5)
            samples.append(measure(run))
        assert not run.failures
        calls = min(run.parts.keeping.figures.view.calls) - calls
        newest, deadline = run.parts.storage.store.end("readings"), time.monotonic() + 120
        while run.parts.storage.store.begin("readings") < newest:
            assert time.monotonic() < deadline, "segments that all have read stay"
            run.wait(0.1)
    # A sample may fall into a job that holds files, so the fewest of each half are compared: a
    # handle left behind by each of the 30 queries at each call would show.
    assert calls >= 2
    for what in ("Python threads", "Python handles", "JVM handles"):
        values = [sample[what] for sample in samples]
        assert min(values[4:]) - min(values[:4]) <= 4, (what, values)
    assert samples[-1]["answered"] >= samples[0]["answered"] > 0


def judged(values: list[float]) -> Flatness:
    """Of a JVM's handles, one sample every ten seconds."""
    measures = ("JVM heap MB", "Python objects", "JVM handles", "Python handles", "JVM threads")
    others = dict.fromkeys((*measures, "Python threads", "log MB", "segments"), 1.0)
    samples = [{**others, "at_s": 10.0 * i, "JVM handles": v} for i, v in enumerate(values)]
    return verdicts(samples)["JVM handles"]


def test_the_rule_tells_a_leak_from_a_start_and_from_noise() -> None:
    leak = judged([200.0 + 0.5 * i for i in range(60)])
    assert not leak.flat
    assert leak.rise == pytest.approx(30.0)
    assert judged([10.0 * i for i in range(20)] + [200.0] * 40).flat, "the start is not judged"
    assert judged([200.0 + (i % 7) for i in range(60)]).flat
