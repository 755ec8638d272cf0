"""Results of Spark queries over a real link to a remote subscriber."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_sink import LinkSink
from daybreak.links.receiver import LinkReceiver, Received
from daybreak.links.sender import LinkSender
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_subscriber_gets_each_querys_rows_in_the_class_of_its_link(
    spark: SparkSession, tmp_path: Path
) -> None:
    got: list[Received] = []
    classes = [
        LinkClass(name="alarms", value=2, deadline_s=60, m=9, n=10),
        LinkClass(name="rest", value=1, deadline_s=60, m=1, n=10),
    ]
    app = App(spark, name="subscribed")
    app.stream("readings", format="generator", options={"limit": 300})
    with (
        LinkReceiver("127.0.0.1", 0, got.append) as receiver,
        LinkSender(receiver.address, classes, 1e6) as sender,
    ):
        link = LinkSink(sender, {"windy": "alarms", "cold": "rest"})
        app.query(
            "windy", sql="SELECT reading FROM readings WHERE wind > 60", sink=link.of("windy")
        )
        app.query(
            "cold", sql="SELECT reading FROM readings WHERE temperature < 5", sink=link.of("cold")
        )
        app.query("everything", sql="SELECT * FROM readings")
        with app.run("fcfs", run_dir=tmp_path / "run") as run:
            run.drain()
    table = run.rows("everything")
    assert table is not None
    rows = table.to_pylist()
    expected = {
        ("windy", "alarms"): sorted(r["reading"] for r in rows if r["wind"] > 60),
        ("cold", "rest"): sorted(r["reading"] for r in rows if r["temperature"] < 5),
    }
    found: dict[tuple[str, str], list[int]] = {}
    for item in got:
        about = json.loads(item.payload)
        found.setdefault((about["query"], item.cls), []).append(about["row"]["reading"])
    assert {k: sorted(v) for k, v in found.items()} == expected
