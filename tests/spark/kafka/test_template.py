"""``daybreak init --template kafka``: the pipeline runs as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from examples.kafka.broker import Broker
from examples.kafka.topics import create, read, write
from pyspark.sql import SparkSession
from tests.until import until
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.model.pipeline import Pipeline
from daybreak.spark.app import App

pytestmark = pytest.mark.spark


def test_hot_readings_go_to_the_topic_of_alarms(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ["init", str(tmp_path / "mine"), "--template", "kafka"]
    assert CliRunner().invoke(app, make, catch_exceptions=False).exit_code == 0
    monkeypatch.setenv("KAFKA_SERVERS", broker.servers)
    file = tmp_path / "mine/pipeline.toml"  # topics of its own: others use this broker, too
    text = file.read_text().replace('subscribe = "readings"', 'subscribe = "my-readings"')
    file.write_text(text.replace('topic = "alarms"', 'topic = "my-alarms"'))
    create(spark, broker.servers, "my-readings", "my-alarms")
    rows = [
        {"station": n, "temperature": 30.0 + 5 * n, "at": "2026-07-01T12:00:00Z"} for n in range(5)
    ]
    write(spark, broker.servers, "my-readings", map(json.dumps, rows))
    declared = Pipeline.read(file)
    out = tmp_path / "mine/out/everything"
    with App.from_pipeline(declared, spark).run(run_dir=tmp_path / "run") as run:
        until(lambda: sum(pq.read_metadata(f).num_rows for f in out.glob("*.parquet")) == 5, "rows")
        until(lambda: len(list(read(spark, broker.servers, "my-alarms"))) == 2, "alarms")
    assert run.failures == {}
    found = {r.value["station"] for r in read(spark, broker.servers, "my-alarms")}
    assert found == {3, 4}
