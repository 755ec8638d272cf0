"""The examples of the page about sinks, and its measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.sinks import measure, specs
from examples.sinks import callbacks, spool

from daybreak.spark.sinks.conformance import SCHEMA, check_all
from daybreak.spark.sinks.destination import DeliveryId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_sink_of_ones_own_obeys_the_laws(tmp_path: Path) -> None:
    check_all(spool.SpoolUnderTest(tmp_path), tmp_path / "laws")


def test_what_a_crash_has_torn_is_cut_off(tmp_path: Path) -> None:
    place = spool.SpoolUnderTest(tmp_path)
    rows = SCHEMA.empty_table()
    place.destination().write(rows, DeliveryId("q", "a-1-1", 1))
    with place.file.open("a") as file:
        file.write('{"number": 7}\n#deliv')
    place.destination().write(rows, DeliveryId("q", "a-1-2", 2))
    assert place.file.read_text().count("\n") == 2
    assert place.rows() == []


@pytest.mark.soak
def test_callbacks_and_udfs(spark: SparkSession, tmp_path: Path) -> None:
    assert 0 < callbacks.main(tmp_path, spark) < callbacks.ROWS


@pytest.mark.parametrize("name", ["parquet, partitioned", "python", "delta, every 0.5 s"])
def test_the_measurement_sees_every_result(tmp_path: Path, name: str) -> None:
    found = measure(name, specs("")[name], tmp_path, jobs=3, rows=8)
    assert found["sink"] == name
    assert found["visible_p95_ms"] >= found["visible_p50_ms"] > 0
