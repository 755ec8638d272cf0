"""Records that a source could not read: counted and kept aside, never lost and never in the way.

JSON and CSV sources with a declared schema are read so that Spark keeps the text of a record that
does not fit it. Those texts go to ``RUN/dead/STREAM/BATCH.parquet``, each batch once.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daybreak.spark.log.durable import file_name, make_folder, rows_kept, sync_files, write_durably

#: Column with the text of a record that does not fit the schema; null for all others.
MALFORMED = "_daybreak_malformed"
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._counts: dict[str, int] = {}

    def keep(self, stream: str, batch_id: int, texts: list[str], arrival_ns: int) -> None:
        """Makes the records of a batch durable; a batch that comes again changes nothing."""
        path = self._folder / file_name(stream) / f"{batch_id:012d}.parquet"
        if not texts or path.exists():
            return
        self._forget(path.parent, batch_id)
        table = pa.table(
            {
                "record": pa.array(texts, pa.string()),
                "arrival_ns": pa.repeat(pa.scalar(arrival_ns, pa.int64()), len(texts)),
            }
        )
        make_folder(path.parent)
        write_durably(path, lambda out: pq.write_table(table, out))
        with self._guard:
            if stream in self._counts:
                self._counts[stream] += len(texts)

    def keep_files(
        self, stream: str, batch_id: int, texts: int, write: Callable[[Path], None]
    ) -> None:
        """The same of so many records that executors ``write`` into a folder."""
        folder = make_folder(self._folder / file_name(stream))
        for left in folder.glob(".attempt-*"):  # by a crash
            shutil.rmtree(left, ignore_errors=True)
        attempt = folder / f".attempt-{uuid4().hex}"
        write(attempt)
        self._forget(folder, batch_id)
        for number, path in enumerate(sorted(attempt.glob("*.parquet"))):
            path.rename(folder / f"{batch_id:012d}-{number:05d}.parquet")
        shutil.rmtree(attempt)
        sync_files(folder.glob(f"{batch_id:012d}-*.parquet"))
        with self._guard:
            if stream in self._counts:
                self._counts[stream] += texts

    def _forget(self, folder: Path, batch_id: int) -> None:
        """What a crash left of this batch before it was listed: it comes again, in either way."""
        for path in folder.glob(f"{batch_id:012d}*.parquet"):
            path.unlink()

    def count(self, stream: str) -> int:
        """How many of a stream's records are kept aside, earlier runs included."""
        with self._guard:
            if stream not in self._counts:
                self._counts[stream] = rows_kept(self._folder / file_name(stream))
            return self._counts[stream]
