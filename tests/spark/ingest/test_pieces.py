"""A large batch is read in pieces: all its rows, in order, and others have their turn between."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.engine.events import Event, Ingested, SourceShows
from daybreak.engine.instructions import Ingest
from daybreak.spark.ingest.dead_letters import MALFORMED
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.ingest.large_batches import write_files, write_malformed
from daybreak.spark.ingest.pieces import TASK_BYTES, finely_parted, in_pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LINE = '{"n": %8d, "text": "' + "x" * 80 + '"}\n'
ROWS = 5 * TASK_BYTES // len(LINE % 0)


class Granting:
    """Grants each step as it is asked for, so much of it at most."""

    def __init__(self, most: int) -> None:
        self.asked: list[int] = []
        self.ended = 0
        self._most = most
        self.gate = IngestGate(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, SourceShows):
            self.asked.append(event.amount)
            grant = Ingest(len(self.asked), event.stream, 0, self._most)
            threading.Thread(target=self.gate.open, args=(grant,)).start()
        elif isinstance(event, Ingested):
            self.ended += 1


def history(spark: SparkSession, folder: Path, *, bad: int = -1) -> DataFrame:
    path = folder / "history.json"
    lines = [LINE % n for n in range(ROWS)]
    if bad >= 0:
        lines[bad] = '{"n": "no number"}\n'
    path.write_text("".join(lines))
    reader = finely_parted(spark.newSession()).read.option("columnNameOfCorruptRecord", MALFORMED)
    return reader.schema(f"n BIGINT, text STRING, {MALFORMED} STRING").json(str(path))


def numbers(frames: list[DataFrame]) -> list[int]:
    return [row.n for frame in frames for row in frame.select("n").collect()]


def test_pieces_are_all_rows_in_order_each_in_a_step_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame, granting = history(spark, tmp_path), Granting(TASK_BYTES)
    whole = ROWS * len(LINE % 0)
    seen: list[int] = []
    with granting.gate.step("s", whole, 0, threading.Event()) as step:
        for piece in in_pieces(frame, step, whole):
            assert granting.ended == len(granting.asked) - 1, "in a step, and no other is open"
            assert piece.rdd.getNumPartitions() <= max(1, spark.sparkContext.defaultParallelism - 1)
            seen += numbers([piece])
    assert seen == list(range(ROWS))
    assert len(granting.asked) >= 5
    assert granting.asked == sorted(granting.asked, reverse=True), "what is left becomes less"
    assert granting.ended == len(granting.asked)


def test_a_batch_written_in_pieces_keeps_its_order_and_its_malformed_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame, granting = history(spark, tmp_path, bad=ROWS - 1), Granting(TASK_BYTES)
    whole = ROWS * len(LINE % 0)
    with granting.gate.step("s", whole, 0, threading.Event()) as step:
        written = write_files(in_pieces(frame, step, whole), tmp_path / "out", None, 100_000)
        write_malformed(written.suspects, tmp_path / "bad", 7)
    assert (written.footers.rows, written.malformed, len(written.suspects)) == (ROWS - 1, 1, 1)
    read = spark.read.schema("n BIGINT")
    parts = [read.parquet(str(tmp_path / "out" / part.name)) for part in written.footers.parts]
    assert numbers(parts) == list(range(ROWS - 1))
    [bad] = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert bad.record == '{"n": "no number"}'
