"""Sources of offsets read directly: rows and schema are those of a StreamingQuery."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.ingest.both_sources import assert_same, streamed
from tests.spark.ingest.python_sources import register
from tests.until import until

from daybreak.spark.ingest.direct.intake import Intake, IntakeFailed, NoIntake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 10


def walked(intake: Intake, start: str, to: int = 100) -> Iterator[tuple[str, str]]:
    """Ranges from an offset on until nothing is new, at most so many; each is committed."""
    for _ in range(to):
        end = intake.latest(start)
        if end is None:
            return
        yield start, end
        intake.commit(end)
        start = end


@pytest.fixture(scope="module", autouse=True)
def _sources(spark: SparkSession) -> None:
    register(spark)


def numbers(spark: SparkSession, kind: str, folder: Path, **options: str) -> DataFrame:
    given = {"rows": str(ROWS), "commits": str(folder / "commits"), **options}
    return spark.readStream.format(f"numbers_{kind}").options(**given).load()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simple", "ranged", "limited"])
def test_data_sources_in_python(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = numbers(spark, kind, tmp_path)
    intake = Intake(spark, frame, tmp_path / "source")
    assert intake.way == "offsets"
    start = intake.initial()
    assert json.loads(start) == {"n": 0}
    pairs, tables = [], []
    for one, other in walked(intake, start):
        pairs.append((one, other))
        tables.append(intake.read_range(one, other))
        again = intake.read_range(one, other)
        assert_same(tables[-1], again)
        assert_same(tables[-1], intake.frame_of_range(one, other).toArrow())
    direct = pa.concat_tables(tables)
    assert direct["n"].to_pylist() == list(range(ROWS))
    assert len(pairs) == (1 if kind == "ranged" else 3)
    until((tmp_path / "commits").exists)
    committed = (tmp_path / "commits").read_text().split()
    assert committed == [str(json.loads(end)["n"]) for _, end in pairs]
    intake.stop()
    # Asked for all that is there now, a simple reader tells of one batch.
    by_query = streamed(frame, tmp_path / "checkpoint")
    assert by_query.num_rows == (4 if kind == "simple" else ROWS)
    assert_same(by_query, direct.slice(0, by_query.num_rows))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simple", "ranged", "limited"])
def test_a_python_source_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    frame = numbers(spark, kind, tmp_path)
    first = Intake(spark, frame, tmp_path / "source")
    start = first.initial()
    end = first.latest(start)
    assert end is not None
    read = first.read_range(start, end)
    first.stop()
    second = Intake(spark, numbers(spark, kind, tmp_path, rows="14"), tmp_path / "source")
    second.commit(end)
    second.seen(end)
    rest = [second.read_range(a, b) for a, b in walked(second, end)]
    second.stop()
    assert pa.concat_tables([read, *rest])["n"].to_pylist() == list(range(14))


@pytest.mark.slow
def test_a_python_reader_that_raises(spark: SparkSession, tmp_path: Path) -> None:
    intake = Intake(spark, numbers(spark, "ranged", tmp_path, fails="yes"), tmp_path / "source")
    end = intake.latest(intake.initial())
    assert end is not None
    with pytest.raises(IntakeFailed, match="ValueError: the meter does not answer"):
        intake.read_range(intake.initial(), end)
    assert intake.read_range(json.dumps({"n": 0}), json.dumps({"n": 1})).num_rows == 1
    intake.stop()


@pytest.mark.slow
def test_rates_start_where_they_did_before(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    first = Intake(spark, frame, tmp_path / "source")
    start = first.initial()
    until(lambda: first.latest(start))
    end = first.latest(start)
    assert end is not None
    read = first.read_range(start, end)
    first.stop()
    assert sorted(read["value"].to_pylist()) == list(range(100 * int(end)))
    second = Intake(spark, frame, tmp_path / "source")
    assert_same(read, second.read_range(start, end))
    as_job = second.frame_of_range(start, end).toArrow()
    assert_same(read, as_job)
    second.stop()


@pytest.mark.slow
def test_rates_by_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "7")
    frame = reader.option("startTimestamp", "1000").option("numPartitions", "2").load()
    intake = Intake(spark, frame, tmp_path / "source")
    pairs = list(walked(intake, intake.initial(), 3))
    direct = pa.concat_tables([intake.read_range(*pair) for pair in pairs])
    assert sorted(direct["value"].to_pylist()) == list(range(21))
    assert_same(direct.slice(0, 7), streamed(frame, tmp_path / "checkpoint").slice(0, 7))
    intake.stop()


@pytest.mark.slow
def test_lines_of_a_socket(spark: SparkSession, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        reader = spark.readStream.format("socket").option("host", host).option("port", str(port))
        intake = Intake(spark, reader.load(), tmp_path / "source")
        start = intake.initial()

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall("one\ntwö\n".encode())
                stopped.wait(60)

        stopped = threading.Event()
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        until(lambda: intake.latest(start) == "1")
        assert intake.read_range(start, "1").to_pydict() == {"value": ["one", "twö"]}
        stopped.set()
        sender.join(60)
        intake.stop()


def test_an_offset_of_another_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    intake = Intake(spark, spark.readStream.format("rate").load(), tmp_path / "source")
    with pytest.raises(IntakeFailed, match="NumberFormatException"):
        intake.read_range('{"topic": 1}', "3")
    intake.stop()


def test_a_reader_that_a_setting_turns_off_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.streaming.disabledV2MicroBatchReaders"
    provider = "org.apache.spark.sql.execution.streaming.sources.RateStreamProvider"
    spark.conf.set(key, f"some.other, {provider}")
    try:
        with pytest.raises(NoIntake, match="rate is read by Spark's first API"):
            Intake(spark, spark.readStream.format("rate").load(), tmp_path / "source")
    finally:
        spark.conf.unset(key)
