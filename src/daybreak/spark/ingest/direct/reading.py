"""Reads the rows of a piece: on this thread, or by a job where that is not enough."""

from __future__ import annotations

import logging

import pyarrow as pa

from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.failures import one_line
from daybreak.spark.ingest.direct.intake import IntakeFailed, IntakeTooLarge
from daybreak.spark.ingest.direct.supply import Piece
from daybreak.spark.ingest.parts import StreamWay

#: A piece that is expected to take more is read by a job where several tasks can share it. Half of
#: it starts jobs, 60 ms each, for what one thread reads in 40; twice as much leaves cores idle.
JOB_BYTES = 4 * 2**20
#: So many direct reads in a row that fail where a job succeeds, and jobs read from then on. One
#: would take a moment's trouble for a lasting one; more repeat reads that never succeed.
MOST_FAILED = 3


class PieceReader:
    """Reads the pieces of one stream, on the stream's thread."""

    def __init__(self, stream: str, ways: dict[str, StreamWay], emit: Emit = silent) -> None:
        self._stream = stream
        self._ways = ways
        self._emit = emit
        known = ways.get(stream)
        self._failed = MOST_FAILED if known is not None and known.way == "jobs" else 0

    @property
    def by_jobs(self) -> bool:
        """True if jobs read this stream, since direct reads have failed too often."""
        return self._failed >= MOST_FAILED

    def read(self, piece: Piece, expected_bytes: int, shards: int) -> pa.Table:
        """All rows of a piece; ``shards``: what tasks could share it.

        A job is the authority: where a direct read fails the job's rows count, or its error.
        """
        if self.by_jobs or (expected_bytes > JOB_BYTES and shards > 1):
            return piece.frame().toArrow()
        try:
            table = piece.read()
        except IntakeTooLarge:
            return piece.frame().toArrow()
        except IntakeFailed as error:
            table = piece.frame().toArrow()
            self._note(error)
        else:
            self._failed = 0
        return table

    def _note(self, error: IntakeFailed) -> None:
        """A job has read what a direct read could not."""
        self._failed += 1
        if self.by_jobs:
            self._ways[self._stream] = StreamWay("jobs", one_line(error))
            why = f"jobs read what direct reads cannot: {one_line(error)}"
            self._emit("ingest-by-jobs", why, level=logging.WARNING, stream=self._stream)
