"""Records that a source could not read: counted and kept aside, never lost and never in the way.

JSON and CSV sources with a declared schema are read so that Spark keeps the text of a record that
does not fit it. Those texts go to ``RUN/dead/STREAM/BATCH.parquet``, each batch once.

A stream that is read directly lists them in the transaction of their batch: a few are in the log
itself, many in a file whose name has the epoch of the log. Both are moved to their places later.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import (
    file_name,
    make_folder,
    rows_kept,
    sync_files,
    sync_folder,
    write_durably,
)
from daybreak.spark.log.positions import Malformed
from daybreak.spark.log.tables import ipc_bytes

#: Column with the text of a record that does not fit the schema; null for all others.
MALFORMED = "_daybreak_malformed"
#: Records up to this size are kept in the commit log. Half of it makes a file, and two waits for
#: the disk, of more batches; twice as much doubles what a commit of the log may have to write.
SMALL_BYTES = 2**18
_FORMATS = ("json", "csv")
_OPTION = "columnNameOfCorruptRecord"


def reads_malformed(form: str | None, schema: str | None, options: dict[str, str]) -> bool:
    """Whether malformed records are told apart: unless the declaration sees to it itself."""
    own = {key.lower() for key in options} & {"mode", _OPTION.lower()}
    return form in _FORMATS and bool(schema and schema.strip()) and not own


def with_malformed(schema: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Schema and options of a reader that keeps malformed records in a column of their own."""
    return f"{schema}, {MALFORMED} STRING", {**options, _OPTION: MALFORMED}


def parted(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The rows that fit the schema, and the texts that did not."""
    if MALFORMED not in table.column_names:
        return table, []
    texts = table[MALFORMED]
    rows = table.drop_columns([MALFORMED])
    if texts.null_count == len(texts):
        return rows, []
    # Spark passes on what it read: bytes that need not be UTF-8.
    bad = texts.drop_null().cast(pa.binary()).to_pylist()
    return rows.filter(pc.is_null(texts)), [text.decode(errors="replace") for text in bad]


class DeadLetters:
    """The malformed records of one run directory. Methods may be called from any thread."""

    def __init__(self, folder: Path, log: CommitLog) -> None:
        self._folder = folder
        self._log = log
        #: Held while records are moved to their places.
        self._placing = threading.Lock()
        self._guard = threading.Lock()
        self._counts: dict[str, int] = {}

    def keep(self, stream: str, batch_id: int, texts: list[str], arrival_ns: int) -> None:
        """Makes the records of a batch durable; a batch that comes again changes nothing."""
        path = self._folder / file_name(stream) / f"{batch_id:012d}.parquet"
        if not texts or path.exists():
            return
        self._forget(path.parent, batch_id)
        table = _records(texts, arrival_ns)
        make_folder(path.parent)
        write_durably(path, lambda out: pq.write_table(table, out))
        self.noted(stream, len(texts))

    def prepare(
        self, stream: str, batch_id: int, texts: list[str], arrival_ns: int
    ) -> Malformed | None:
        """Records for the transaction that lists their batch; call ``noted`` after it."""
        if not texts:
            return None
        table = _records(texts, arrival_ns)
        if table.nbytes <= SMALL_BYTES:
            return Malformed(records=len(texts), content=ipc_bytes(table))
        with self._guard:
            self._counted(stream)  # while the file is not there
        name = self._unplaced(batch_id)
        folder = make_folder(self._folder / file_name(stream))
        write_durably(folder / f"{name}.parquet", lambda out: pq.write_table(table, out))
        return Malformed(records=len(texts), file=name)

    def prepare_files(
        self, stream: str, batch_id: int, records: int, write: Callable[[Path], None]
    ) -> Malformed:
        """The same of so many records that executors ``write`` into a folder."""
        with self._guard:
            self._counted(stream)
        name = self._unplaced(batch_id)
        self._written(stream, name, write)
        return Malformed(records=records, file=name)

    def noted(self, stream: str, records: int) -> None:
        """So many more records are durable, or will be with the log."""
        with self._guard:
            if stream in self._counts:
                self._counts[stream] += records

    def place(self) -> None:
        """Moves what the log lists to its places."""
        with self._placing:
            listed = self._log.kept_malformed()
            for stream, batch_id, found in listed:
                self._place(self._folder / file_name(stream), batch_id, found)
            if listed:
                self._log.place_malformed((stream, batch_id) for stream, batch_id, _ in listed)

    def recover(self) -> None:
        """Sees to what a crash has left: moves what is listed, and removes what is not."""
        self.place()
        for path in self._folder.glob("*/*-e*.parquet"):
            path.unlink()
        with self._guard:
            self._counts.clear()

    def forget_from(self, stream: str, batch_id: int) -> None:
        """Removes records of batches from this one on: their rows come again."""
        for path in (self._folder / file_name(stream)).glob("*.parquet"):
            if int(path.name[:12]) >= batch_id:
                path.unlink()
        with self._guard:
            self._counts.pop(stream, None)

    def _unplaced(self, batch_id: int) -> str:
        """With the epoch: a driver that was replaced must not write over its successor's."""
        return f"{batch_id:012d}-e{self._log.run:04d}"

    def _place(self, folder: Path, batch_id: int, found: Malformed) -> None:
        if not found.file:
            self._forget(make_folder(folder), batch_id)
            table = pa.ipc.open_stream(found.content).read_all()
            path = folder / f"{batch_id:012d}.parquet"
            write_durably(path, lambda out: pq.write_table(table, out))
            return
        for path in sorted(folder.glob(f"{found.file}*.parquet")):
            path.rename(folder / f"{batch_id:012d}{path.name.removeprefix(found.file)}")
        sync_folder(folder)

    def keep_files(
        self, stream: str, batch_id: int, texts: int, write: Callable[[Path], None]
    ) -> None:
        """The same of so many records that executors ``write`` into a folder."""
        self._forget(self._folder / file_name(stream), batch_id)
        self._written(stream, f"{batch_id:012d}", write)
        self.noted(stream, texts)

    def _written(self, stream: str, name: str, write: Callable[[Path], None]) -> None:
        """Lets executors write files that are named so, with a number each; they are durable."""
        folder = make_folder(self._folder / file_name(stream))
        for left in folder.glob(".attempt-*"):  # by a crash
            shutil.rmtree(left, ignore_errors=True)
        attempt = folder / f".attempt-{uuid4().hex}"
        write(attempt)
        for number, path in enumerate(sorted(attempt.glob("*.parquet"))):
            path.rename(folder / f"{name}-{number:05d}.parquet")
        shutil.rmtree(attempt)
        sync_files(folder.glob(f"{name}-*.parquet"))

    def _forget(self, folder: Path, batch_id: int) -> None:
        """What a crash left of this batch before it was listed: it comes again, in either way."""
        for path in folder.glob(f"{batch_id:012d}*.parquet"):
            path.unlink()

    def count(self, stream: str) -> int:
        """How many of a stream's records are kept aside, earlier runs included.

        While the log is out of reach, or another driver's, those that are at their places: a run
        that lost its lease ends with a report all the same.
        """
        with self._guard:
            try:
                return self._counted(stream)
            except (LogUnavailable, LeaseLost):
                return rows_kept(self._folder / file_name(stream))

    def _counted(self, stream: str) -> int:
        if stream not in self._counts:
            placed = rows_kept(self._folder / file_name(stream))
            self._counts[stream] = placed + self._in_log().get(stream, 0)
        return self._counts[stream]

    def _in_log(self) -> Mapping[str, int]:
        """Records that the log holds, by stream."""
        held: dict[str, int] = {}
        for stream, _, found in self._log.kept_malformed():
            if not found.file:
                held[stream] = held.get(stream, 0) + found.records
        return held


def _records(texts: list[str], arrival_ns: int) -> pa.Table:
    arrival = pa.repeat(pa.scalar(arrival_ns, pa.int64()), len(texts))
    return pa.table({"record": pa.array(texts, pa.string()), "arrival_ns": arrival})
