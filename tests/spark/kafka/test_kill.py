"""SIGKILL while rows pass from a topic to files and a topic; twenty of them in ``make soak``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.soaking.kafka_kills import kafka_kills
from examples.kafka.broker import Broker
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = 2


def test_files_hold_every_row_once_and_the_topic_every_row_at_least_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found = kafka_kills(KILLS, seed, tmp_path, broker, spark, print)
    assert found["wrong"] == [], (tmp_path / "log.txt").read_text()[-3000:]
    assert found["kills"] == KILLS
    assert found["repeated"] > 0, "records of a job that was killed after sending are sent again"
