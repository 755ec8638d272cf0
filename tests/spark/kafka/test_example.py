"""The example: everything it feeds arrives, and its picture is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.kafka.broker import Broker
from examples.kafka.run import TOPICS, draw, play
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_every_reading_is_in_the_archive_and_the_picture_is_drawn(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SERVERS", broker.servers)
    made, kept, latencies = play(spark, broker.servers, tmp_path, seconds=2, rate=200)
    assert made == kept > 0
    assert latencies.keys() == {*TOPICS.values(), "archive"}
    created, took = latencies["archive"]
    assert len(created) == len(took) > 0
    assert min(took) > 0
    assert draw(latencies, tmp_path / "latencies.png").stat().st_size > 10_000
