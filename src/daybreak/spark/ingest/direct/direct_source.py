"""A stream that is read directly: discover what is new, then take it step by step.

A step reads one piece with Spark's readers on the stream's own thread and keeps it in one
transaction: rows, event time, malformed records and the position of the source. So a step is done
or has not happened, whatever ends the process; what comes after it, or before, can be repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.engine.inbox import Tick
from daybreak.model.secrets import without_secrets
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import disk_is_full
from daybreak.spark.ingest.backpressure import Stopped
from daybreak.spark.ingest.dead_letters import parted
from daybreak.spark.ingest.direct.intake import Intake, IntakeFailed, IntakeInterrupted
from daybreak.spark.ingest.direct.reading import PieceReader
from daybreak.spark.ingest.direct.supply import Piece, Supply
from daybreak.spark.ingest.direct.time_pace import TimePace
from daybreak.spark.ingest.gate import SourceStep
from daybreak.spark.ingest.kafka_source import KafkaPosition
from daybreak.spark.ingest.large_batches import (
    BatchSizes,
    can_be_files,
    write_files,
    write_malformed,
)
from daybreak.spark.ingest.parts import IngestParts
from daybreak.spark.ingest.pieces import in_pieces
from daybreak.spark.ingest.source_failure import SourceFailure
from daybreak.spark.kafka.outage import explained, passes
from daybreak.spark.log.positions import Malformed, Position, SourceMove
from daybreak.spark.log.rows import Part

_LOOK_S = 0.05
#: A thread that is to end is interrupted so often.
_STOP_S = 0.5
#: A source that has nothing new is looked at so often, whatever announces its rows. Half of it
#: doubles what that costs; twice as long, and rows that nothing announced come later.
WAIT_S = 10.0


class NewRows(NamedTuple):
    """Rows that a source has and the log has not."""

    #: What the next step would take in memory, if nothing cuts it.
    bytes: int
    #: By the clock of the run.
    shown_at_ns: int


class PieceRead(NamedTuple):
    """The outcome of a step."""

    rows: int
    #: Bytes of the rows in memory, and those that the source stated.
    bytes: int
    stated_bytes: int | None


class DirectSource:
    """One stream. ``start`` runs it on a thread of its own."""

    def __init__(
        self,
        stream: str,
        form: str | None,
        session: SparkSession,
        schema: StructType,
        intake: Intake,
        open_supply: Callable[[], tuple[Position, Supply]],
        parts: IngestParts,
        trigger_s: float,
        kafka: KafkaPosition | None = None,
    ) -> None:
        """``session``: the source's own. ``open_supply`` gives the position in the log, and what
        follows it; called on the thread, since it may have to wait for a broker. ``trigger_s``:
        how often the watermark moves at most."""
        self.name = stream
        #: How far a Kafka source has read; None for other sources.
        self.position = kafka
        self._session = session
        self._can_be_files = can_be_files(schema)
        self._intake = intake
        self._open_supply = open_supply
        self._parts = parts
        self._sizes = BatchSizes(form)
        self._reader = PieceReader(stream, parts.ways, parts.emit)
        self._time = TimePace(parts.store, stream, trigger_s)
        self._at: Position | None = None
        self._supply: Supply | None = None
        #: True if the source has shown rows that are not read yet.
        self._behind = False
        self._drains: list[threading.Event] = []
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._failure: SourceFailure | None = None
        self._tag = f"daybreak-ingest-{uuid4().hex}"
        self._thread = threading.Thread(target=self._run, name=f"ingest-{stream}", daemon=True)

    def start(self) -> None:
        # Rows may be there until it has asked: the stream is not silent.
        self._parts.backpressure.shows(self.name)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        while self._thread.is_alive():  # it may just be about to read, or to start a job
            if self._supply is not None:
                self._supply.wake()
            self._intake.interrupt()
            self._session.sparkContext.cancelJobsWithTag(self._tag)
            self._thread.join(_STOP_S)

    def failure(self) -> SourceFailure | None:
        return None if self._stopping.is_set() else self._failure

    def drain(self) -> None:
        """Waits until everything that is there has been read."""
        done = threading.Event()
        with self._guard:
            self._drains.append(done)
        if self._supply is not None:
            self._supply.wake()
        while not done.wait(_LOOK_S) and self._thread.is_alive():
            """The thread, or its end, sets it."""
        self._parts.dead_letters.place()

    # On the stream's thread

    def _run(self) -> None:
        try:
            self._session.sparkContext.addJobTag(self._tag)
            self._at, self._supply = self._open_supply()
            if self.position is not None:
                self.position.read_to(self._at.place)
            self._loop(self._supply)
        except (Stopped, IntakeInterrupted):
            pass  # what it would have read comes with the next start
        except Exception as error:
            self._failure = self._judged(error)
        finally:
            if self._supply is not None:
                self._supply.close()
            with suppress(IntakeFailed):  # of the source's own; nothing is read any more
                self._intake.stop()

    def _loop(self, supply: Supply) -> None:
        while not self._stopping.is_set():
            began_s = time.monotonic()
            with self._guard:
                asked, self._drains = self._drains, []
            if asked:
                supply.ask()
            shown = self.discover()
            if shown is None:
                self._idle(asked, supply)
                continue
            self._put_back(asked)
            while shown is not None:
                self._parts.backpressure.wait(self._stopping)
                self._parts.store.wait()
                with self._parts.gate.step(
                    self.name, shown.bytes, shown.shown_at_ns, self._stopping
                ) as granted:
                    self.step(granted)
                shown = self.left()
            supply.rest(self._stopping)
            least_s = self._parts.load.least_s()
            self._stopping.wait(max(0.0, began_s + least_s - time.monotonic()))

    def _idle(self, asked: list[threading.Event], supply: Supply) -> None:
        """Nothing is new: those who wait for that hear of it, and this thread waits."""
        settled = supply.is_settled
        held_s = self._time.due_s()
        if held_s is not None and (held_s <= 0 or (asked and settled)):
            self._move_time()
            held_s = None
        if settled:
            for done in asked:
                done.set()
        else:
            self._put_back(asked)
        supply.wait(WAIT_S if held_s is None else held_s, self._stopping)

    def _put_back(self, asked: list[threading.Event]) -> None:
        with self._guard:
            self._drains += asked

    def _move_time(self) -> None:
        """No row follows for now, so the watermark need not be held any longer."""
        watermark_us = self._time.move()
        if watermark_us is not None:
            self._parts.on_tick(Tick(CLOCK.now_ns(), self.name, 0, watermark_us))

    def discover(self) -> NewRows | None:
        """What is to be read; None if nothing is new. It stays until steps have taken it."""
        supply, backpressure = self._opened(), self._parts.backpressure
        self._behind = supply.discover()
        if self._behind:
            backpressure.shows(self.name)
        else:
            backpressure.is_empty(self.name, listening=supply.listens)
        return self.left()

    def left(self) -> NewRows | None:
        """What is left of that."""
        if not self._behind:
            return None
        piece = self._piece(self._parts.driver_batch_bytes)
        return NewRows(max(1, self._expected(piece)), piece.shown_at_ns)

    def step(self, granted: SourceStep) -> PieceRead:
        """Takes the next piece of what was discovered, of about as many bytes as were granted."""
        piece = self._piece(granted.most)
        records, expected = self._records(piece), self._expected(piece)
        if expected > self._parts.driver_batch_bytes and self._can_be_files:
            done = self._write(piece, in_pieces(piece.frame(), granted, expected))
        else:
            done = self._collect(piece, expected)
            granted.took = done.bytes
        self._opened().passed(piece)
        self._sizes.learn(done.bytes, done.rows, piece.stated_bytes, records)
        if self.position is not None and piece.range is not None:
            self.position.read_to(piece.range[1])
        self._behind = not piece.is_last
        return done

    def _collect(self, piece: Piece, expected: int) -> PieceRead:
        """Through the driver."""
        shards = max(1, len(piece.files), self._partitions(piece))
        table, malformed = parted(self._reader.read(piece, expected, shards))
        began_s = time.monotonic()
        dead, batch_id = self._parts.dead_letters, self._batch_id
        kept = dead.prepare(self.name, batch_id, malformed, piece.shown_at_ns)
        move = self._move(piece, kept)
        self._parts.store.append(
            self.name, move.position.checkpoint_id, batch_id, piece.offsets, table,
            piece.shown_at_ns, self._parts.on_segment, move,
            moves_time=self._time.moves(is_last=piece.is_last),
        )  # fmt: skip
        self._passed(move)
        self._parts.load.spent(time.monotonic() - began_s)
        return PieceRead(table.num_rows, table.nbytes, piece.stated_bytes)

    def _write(self, piece: Piece, frames: Iterable[DataFrame]) -> PieceRead:
        """Past the driver; ``frames`` are its rows, in steps of their own."""
        dead, batch_id = self._parts.dead_letters, self._batch_id
        move, took, rows = self._move(piece, None), 0, 0

        def write(folder: Path, time_column: str | None) -> tuple[Part, ...]:
            nonlocal move, took, rows
            written = write_files(frames, folder, time_column, self._sizes.file_rows)
            took, rows = written.footers.bytes, written.footers.rows
            if written.malformed:
                kept = dead.prepare_files(
                    self.name, batch_id, written.malformed,
                    lambda aside: write_malformed(written.suspects, aside, piece.shown_at_ns),
                )  # fmt: skip
                move = self._move(piece, kept)
            return written.footers.parts

        self._parts.store.append_files(
            self.name, move.position.checkpoint_id, batch_id, piece.offsets, write,
            piece.shown_at_ns, self._parts.on_segment, lambda: move,
            moves_time=self._time.moves(is_last=piece.is_last),
        )  # fmt: skip
        self._passed(move)
        return PieceRead(rows, took, piece.stated_bytes)

    @property
    def _batch_id(self) -> int:
        assert self._at is not None
        return self._at.batch_id + 1

    def _move(self, piece: Piece, malformed: Malformed | None) -> SourceMove:
        assert self._at is not None
        position = replace(self._at, batch_id=self._batch_id, place=piece.place)
        return SourceMove(position=position, files=piece.files, malformed=malformed)

    def _passed(self, move: SourceMove) -> None:
        """The log holds a batch."""
        self._at = move.position
        if move.malformed is not None:
            self._parts.dead_letters.noted(self.name, move.malformed.records)

    def _opened(self) -> Supply:
        assert self._supply is not None
        return self._supply

    def _piece(self, most_bytes: int) -> Piece:
        return self._opened().piece(self._sizes.stated_of(most_bytes))

    def _expected(self, piece: Piece) -> int:
        """Bytes that a piece will take in memory."""
        return self._sizes.expected_of(piece.stated_bytes, self._records(piece))

    def _records(self, piece: Piece) -> int | None:
        if self.position is None or piece.range is None:
            return None
        return self.position.records_to([piece.range[1]])

    def _partitions(self, piece: Piece) -> int:
        """Partitions of Kafka, which tasks can share; of other ranges only one is certain."""
        if self.position is None or piece.range is None:
            return 1
        return sum(map(len, self.position.read.values()))

    def _judged(self, error: Exception) -> SourceFailure:
        """Why the source has stopped, and whether it passes by itself."""
        found = SourceFailure.of(error)
        whole = without_secrets(f"{error} {error.__cause__ or ''}")
        if passes(whole):
            where = found.why if self.position is None else explained(whole, self.position.servers)
            return SourceFailure(where, "outage")
        return SourceFailure(found.why, "storage") if disk_is_full(whole) else found
