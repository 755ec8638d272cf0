"""All of Nexmark in one application, and each query as a batch over the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from benchmarks.nexmarking.generator import SCHEMAS
from benchmarks.nexmarking.queries import QUERIES, NexmarkQuery

from daybreak.spark.app import App
from daybreak.spark.sinks.snapshots import read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How late bids, auctions and persons may be.
WATERMARK = timedelta(seconds=1)
_COUNT_CHAR = (
    "CREATE OR REPLACE TEMPORARY FUNCTION count_char(s STRING, c STRING) RETURNS INT "
    "RETURN length(s) - length(replace(s, c, ''))"
)
_SIDE = "SELECT id AS key, concat('value ', id) AS value FROM range(100)"

Rows = Counter[tuple[Any, ...]]


def prepare(spark: SparkSession) -> None:
    """What the queries name beside the streams."""
    spark.sql(_COUNT_CHAR)
    spark.sql(_SIDE).createOrReplaceTempView("side_input")


def declare(
    spark: SparkSession, folder: Path, names: Iterable[str] = QUERIES, retain: str = "1 hour"
) -> App:
    """One application over the files in ``folder``, each query with a folder of its own.

    In update mode rows replace others, which file sinks cannot: a function writes them.
    """
    prepare(spark)
    app = App(spark, folder=folder, name="nexmark")
    for stream, schema in SCHEMAS.items():
        (folder / stream).mkdir(parents=True, exist_ok=True)
        app.stream(
            stream, format="json", path=stream, schema=schema, time="dateTime",
            watermark=f"{WATERMARK.total_seconds():g} seconds", retain=retain,
            options={"maxFilesPerTrigger": 1},
        )  # fmt: skip
    for name in names:
        query = QUERIES[name]
        by = {"partition_by": ["day"]} if name == "q10" else {}
        files = {"format": "parquet", "path": f"out/{name}", **by}
        sink = Upserts(folder / "out" / name) if query.mode == "update" else files
        app.query(name, sql=query.sql, mode=query.mode, sink=sink)
    return app


@dataclass(frozen=True)
class Upserts:
    """A sink of rows that replace others: a file for each delivery, named by its key.

    The same delivery writes the same file again, and keys are in the order of deliveries.
    """

    folder: Path

    def __call__(self, rows: pa.Table, key: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{key.partition('/')[0]}.parquet"
        partial = path.with_suffix(".partial")
        pq.write_table(rows, partial)
        partial.rename(path)


def differences(
    spark: SparkSession, folder: Path, results: Mapping[str, pa.Table]
) -> dict[str, str | None]:
    """What each result lacks or has beyond the batch; None where they are equal."""
    prepare(spark)
    for stream, schema in SCHEMAS.items():
        spark.read.schema(schema).json(str(folder / stream)).createOrReplaceTempView(stream)
    newest: datetime = spark.sql("SELECT max(dateTime) AS at FROM bid").toArrow()["at"][0].as_py()
    found: dict[str, str | None] = {}
    for name, result in results.items():
        query = QUERIES[name]
        wanted = _counted(spark.sql(query.sql).toArrow(), query, newest)
        got = _counted(result, query, None)
        found[name] = None if got == wanted else _told(got, wanted)
    return found


def written(folder: Path, name: str) -> pa.Table:
    """What a query has in its files."""
    path = folder / "out" / name
    if QUERIES[name].mode == "complete":
        snapshot = read_snapshot(path)
        assert snapshot is not None, f"{name} has no result"
        return snapshot.table()
    files = sorted(str(file) for file in path.rglob("*.parquet") if "_staging" not in file.parts)
    if QUERIES[name].mode == "update":
        return latest(pa.concat_tables(map(pq.read_table, files)), QUERIES[name].key)
    by = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    return ds.dataset(
        files, format="parquet", partitioning=by if name == "q10" else None
    ).to_table()


def latest(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The newest row of each key: what an upsert leaves."""
    last = {tuple(row[k] for k in key): row for row in rows.to_pylist()}
    return pa.Table.from_pylist(list(last.values()), schema=rows.schema)


def _counted(rows: pa.Table, query: NexmarkQuery, newest: datetime | None) -> Rows:
    """Rows as a multiset, without those whose windows are open at ``newest``."""
    found = rows.to_pylist()
    if newest is not None and query.closed is not None:
        found = [row for row in found if row[query.closed] <= newest - WATERMARK]
    names = sorted(rows.column_names)
    return Counter(tuple(_plain(row[name]) for name in names) for row in found)


def _plain(value: Any) -> Any:
    """Equal for equal values, whichever zone a time is shown in or order a sum was made in."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value)


def _told(got: Rows, wanted: Rows) -> str:
    missing, extra = wanted - got, got - wanted
    some = [f"lacks {row}" for row in list(missing)[:2]] + [f"has {row}" for row in list(extra)[:2]]
    return f"{missing.total()} rows missing, {extra.total()} too many: {'; '.join(some)}"
