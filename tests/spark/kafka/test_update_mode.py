"""Update mode into a topic: the newest record of each key is the result; a row needs its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.kafka.broker import Broker
from examples.kafka.topics import create, read
from pyspark.sql import SparkSession
from tests.spark.modes.feeds import declare, row, write
from tests.until import until

from daybreak.model.limits import Limits

pytestmark = pytest.mark.spark


def test_a_result_without_a_key_is_refused_before_its_commit(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(spark, broker.servers, "by-key", "without")
    app = declare(spark, tmp_path)
    for name, topic, k in (("keyed", "by-key", "coalesce(k, '?')"), ("unkeyed", "without", "k")):
        options = {"kafka.bootstrap.servers": broker.servers, "topic": topic, "key": "k"}
        app.query(
            name,
            sql=f"SELECT {k} AS k, count(*) AS n FROM rows GROUP BY {k}",
            mode="update",
            sink={"format": "kafka", "options": options},
        )
    write(tmp_path / "in", 0, map(row, range(30)))
    with app.run(run_dir=tmp_path / "run", limits=Limits(retries=0), on_failure="report") as run:
        run.drain()
        assert run.failures == {}
        write(tmp_path / "in", 1, [{**row(n), "k": None} for n in range(30, 40)])
        until(lambda: run.failures, "the rows without a key")
        run.drain()
        [(name, why)] = run.failures.items()
    assert name == "unkeyed"
    assert "1 rows have NULL in 'k', a column of their key" in why
    newest = {r.key: r.value["n"] for r in read(spark, broker.servers, "by-key")}
    assert newest == {"a": 10, "b": 10, "c": 10, "?": 10}
    sent = {r.key: r.value["n"] for r in read(spark, broker.servers, "without")}
    assert sent == {"a": 10, "b": 10, "c": 10}
