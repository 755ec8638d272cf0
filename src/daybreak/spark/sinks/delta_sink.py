"""Delta tables as sinks, exactly once, through the ``deltalake`` library: no JVM, no jar.

Every version of a table is a file in its log, so a version per job would be too many. Results are
gathered for some seconds, written as one Parquet file per partition, and registered by one
transaction that also stores the number of the last delivery (a ``txn`` action). After a crash that
number says what is there. Until then the commit log of the run keeps what was gathered.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.extras import need_package
from daybreak.model.durations import duration_us
from daybreak.model.errors import ConfigError
from daybreak.spark.failures import FULL, SinkUnavailable, disk_is_full
from daybreak.spark.log.durable import (
    file_name,
    make_folder,
    same_folder,
    sync_files,
    write_durably,
)
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.calls import read_staged, write_arrow
from daybreak.spark.sinks.delta_schema import check_table, delta_schema, statistics
from daybreak.spark.sinks.destination import DeliveryId
from daybreak.spark.sinks.partitioning import Partition, partitions
from daybreak.spark.sinks.sink import Staging, is_gone, unstage

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

LOG = "_delta_log"
OPTIONS = ("publish_every", "publish_files", "compact_every", "compression")
#: Gathered rows are held in memory: beyond so many bytes they are published at once.
MOST_GATHERED_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class DeltaOptions:
    """How often a table gets a new version."""

    publish_every_s: float = 2.0
    #: Results that are gathered at most.
    publish_files: int = 100
    #: How often small files are merged into larger ones; None: never.
    compact_every_s: float | None = None
    compression: str = "snappy"

    @classmethod
    def read(cls, options: Mapping[str, str], place: str, compression: str) -> DeltaOptions:
        every = options.get("compact_every", "never")
        files = options.get("publish_files", "100")
        if not files.isdecimal() or int(files) < 1:
            finding = f"sink: publish_files {files!r}"
            raise ConfigError(place, finding, "give a whole number, 1 or more")
        return cls(
            publish_every_s=_seconds(
                options.get("publish_every", "2 seconds"), place, "publish_every"
            ),
            publish_files=int(files),
            compact_every_s=None if every == "never" else _seconds(every, place, "compact_every"),
            compression=compression,
        )


class _Gathered(NamedTuple):
    file: CommittedFile
    rows: pa.Table


class DeltaSink(Staging):
    """Appends to a Delta table in a folder."""

    exactly_once = True

    def __init__(
        self,
        query: str,
        path: Path,
        staging: Path,
        partition_by: tuple[str, ...] = (),
        options: DeltaOptions | None = None,
    ) -> None:
        super().__init__(query, staging / file_name(query), "arrow", write_arrow)
        self.path = path
        self._partition_by = partition_by
        self._options = options or DeltaOptions()
        self._guard = threading.RLock()
        self._gathered: dict[int, _Gathered] = {}
        self._since = self._compacted = time.monotonic()
        #: The number of the last delivery in the table; None: to be looked up.
        self._last: int | None = None
        #: The last attempt to publish has failed: the next delivery tries again at once.
        self._failed = False
        self._compaction: threading.Thread | None = None
        self._compaction_failed: Exception | None = None

    @property
    def folder(self) -> Path:
        return self.path

    def owns(self, file: CommittedFile) -> bool:
        return same_folder(file.path.parent, self._staging)

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        # Refuses values that cannot be a partition: once they are committed, rows must be written.
        deque(partitions(table, self._partition_by), maxlen=0)
        return super().stage(job, table)

    def deliver(self, file: CommittedFile) -> bool:
        with self._guard:
            if file.id not in self._gathered:
                if is_gone(file):
                    return False
                if self.has(file):
                    unstage(file)
                    return True
                if not self._gathered:
                    self._since = time.monotonic()
                self._gathered[file.id] = _Gathered(file, read_staged(file))
            if self._failed or self._is_full():
                self._publish()
            return True

    def has(self, file: CommittedFile) -> bool:
        with self._guard:
            return self._last_number(DeliveryId.of(file).source) >= file.id

    def discard(self, file: CommittedFile) -> None:
        with self._guard:
            self._gathered.pop(file.id, None)
            super().discard(file)

    def publish(self, *, now: bool) -> None:
        with self._guard:
            is_due = time.monotonic() - self._since >= self._options.publish_every_s
            if self._gathered and (now or is_due):
                self._publish()
        if not now:
            self._compact_if_due()

    def settled(self, file: CommittedFile) -> bool:
        with self._guard:
            return file.id not in self._gathered

    def _is_full(self) -> bool:
        held = sum(one.rows.nbytes for one in self._gathered.values())
        return len(self._gathered) >= self._options.publish_files or held > MOST_GATHERED_BYTES

    def _publish(self) -> None:
        """One version of the table with all that was gathered."""
        files = [one.file for one in self._gathered.values()]
        newest = max(files, key=lambda file: file.id)
        self._failed, self._since = True, time.monotonic()
        source = DeliveryId.of(newest).source
        last, self._last = self._last_number(source), None  # unknown if the next step fails
        rows = [one.rows for one in self._gathered.values() if one.file.id > last]
        if rows:
            try:
                self._append(pa.concat_tables(rows), source, newest)
            except Exception as error:
                if not _means_full(error):
                    raise
                raise SinkUnavailable(
                    f"there is no room for rows in {self.path}; results are kept and published "
                    "when there is"
                ) from None
        self._last, self._failed = max(last, newest.id), False
        for file in files:
            unstage(file)
        self._gathered.clear()

    def _append(self, rows: pa.Table, source: str, newest: CommittedFile) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction

        schema = delta_schema(rows.schema)
        if self._table() is None:
            make_folder(self.path)
            DeltaTable.create(
                self.path, schema, mode="ignore", partition_by=list(self._partition_by)
            )
        table = DeltaTable(self.path)
        check_table(table, rows.schema, self._partition_by, f"query {self.query!r}", self.path)
        actions: list[AddAction | RemoveAction] = [
            self._write_part(part, newest) for part in partitions(rows, self._partition_by)
        ]
        table.create_write_transaction(
            actions,
            "append",
            schema,
            list(self._partition_by) or None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(source, newest.id)],
                custom_metadata={"daybreak.job": newest.job},
            ),
        )
        table.update_incremental()
        sync_files([self.path / LOG / f"{table.version():020d}.json"])

    def _write_part(self, part: Partition, newest: CommittedFile) -> AddAction:
        """A Parquet file of the table, durable before the transaction that registers it."""
        from deltalake.transaction import AddAction

        name = f"{newest.job}-{file_name(self.query)}.parquet"
        path = make_folder(self.path / part.folder) / name
        size = write_durably(path, partial(_write_parquet, part.rows, self._options.compression))
        return AddAction(
            path=(part.folder / name).as_posix(),  # which the library encodes
            size=size,
            partition_values=part.values,
            modification_time=time.time_ns() // 10**6,
            data_change=True,
            stats=json.dumps(statistics(part.rows)),
        )

    def _table(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        return DeltaTable(self.path) if _has_versions(self.path) else None

    def _last_number(self, source: str) -> int:
        if self._last is None:
            table = self._table()
            found = None if table is None else table.transaction_version(source)
            self._last = -1 if found is None else found
        return self._last

    def _compact_if_due(self) -> None:
        """Beside the deliveries: merging the files of a large table takes its time."""
        failure, self._compaction_failed = self._compaction_failed, None
        if failure is not None:
            raise failure
        every_s = self._options.compact_every_s
        is_idle = self._compaction is None or not self._compaction.is_alive()
        if every_s is not None and is_idle and time.monotonic() - self._compacted >= every_s:
            self._compacted = time.monotonic()
            self._compaction = threading.Thread(
                target=self._compact, name=f"compact {self.query}", daemon=True
            )
            self._compaction.start()

    def _compact(self) -> None:
        try:
            table = self._table()
            if table is not None:
                table.optimize.compact()
        except Exception as error:  # reported by the next call of ``publish``
            self._compaction_failed = error


def open_delta(
    query: str,
    path: Path,
    staging: Path,
    schema: pa.Schema | None,
    partition_by: tuple[str, ...],
    options: DeltaOptions,
    place: str,
) -> DeltaSink:
    """A sink that appends to the table in a folder; ``ConfigError`` if it cannot."""
    need_package("deltalake", "delta", place)
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if schema is not None:
        delta_schema(schema, place)
    if _has_versions(path):
        try:
            table = DeltaTable(path)
        except (DeltaError, OSError) as error:
            raise ConfigError(
                place, f"sink: {path} is no Delta table that can be read ({error})", "restore it"
            ) from error
        if schema is not None:
            check_table(table, schema, partition_by, place, path)
    return DeltaSink(query, path, staging, partition_by, options)


def _has_versions(path: Path) -> bool:
    """Whether there is a table; a full disk may have left an empty log."""
    return any((path / LOG).glob("[0-9]*"))


def _means_full(error: Exception) -> bool:
    """Whether the disk is full; the library tells it by a text alone."""
    return getattr(error, "errno", None) in FULL or disk_is_full(str(error))


def _seconds(text: str, place: str, key: str) -> float:
    return duration_us(text, place, key) / 1e6


def _write_parquet(rows: pa.Table, compression: str, out: BinaryIO) -> Any:
    pq.write_table(rows, out, compression=compression)
