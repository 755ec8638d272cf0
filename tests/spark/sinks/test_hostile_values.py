"""Every sink and every value that some sink cannot write: refused before the commit, or written.

A value that is refused only after its commit would hold up all later results of its query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.servers import PostgresServer
from benchmarks.soaking.delta_reader import delta_rows

from daybreak.model.errors import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.kafka_sink import records
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.partitioning import UnfitPartition
from daybreak.spark.sinks.sink import Sink

pytestmark = pytest.mark.slow

ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


def _no_text() -> pa.Array:
    """A string that is not UTF-8, as CAST(X'FF' AS STRING) gives it."""
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])


def _instant(us: int, kind: pa.DataType) -> pa.Array:
    return pa.array([us], pa.int64()).cast(kind)


def _day(day: int) -> pa.Array:
    return pa.array([day], pa.int32()).cast(pa.date32())


def _twice() -> pa.Array:
    return pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])


#: Of each: a column of one value, and the text by which PostgreSQL shows it; None if it has none.
VALUES: dict[str, tuple[Callable[[], pa.Array], str | None]] = {
    "text with NUL": (lambda: pa.array(["a\0b"]), None),
    "NUL in a struct": (lambda: pa.array([{"x": "a\0b"}]), None),
    "NUL in an array": (lambda: pa.array([["a", "a\0b"]]), None),
    "NUL in a map's key": (
        lambda: pa.array([[("a\0", 1)]], pa.map_(pa.string(), pa.int64())), None
    ),
    "NUL deep down": (lambda: pa.array([[{"x": [["\0"]]}]]), None),
    "backslash u0000": (lambda: pa.array([["\\u0000"]]), '["\\\\u0000"]'),
    "NUL before the slice": (lambda: pa.array([["\0"], ["b"]]).slice(1), '["b"]'),
    "not UTF-8": (_no_text, None),
    "not UTF-8, in a struct": (lambda: pa.StructArray.from_arrays([_no_text()], ["x"]), None),
    "one name twice": (_twice, None),
    "long text": (lambda: pa.array(["é" * 3000]), "é" * 3000),
    "text like a path": (lambda: pa.array(["../../x/\n=%\\"]), "../../x/\n=%\\"),
    "empty text": (lambda: pa.array([""]), ""),
    "infinity": (lambda: pa.array([float("inf")]), "Infinity"),
    "not a number, in an array": (lambda: pa.array([[float("nan")]]), '["NaN"]'),
    "decimal": (
        lambda: pa.array(["9" * 38], pa.string()).cast(pa.decimal128(38, 0)), "9" * 38
    ),
    "bytes": (lambda: pa.array([b"\0\xff"]), "\\x00ff"),
    "longest span": (lambda: pa.array([2**63 - 1], pa.duration("us")), "2562047788:00:54.775807"),
    "shortest span": (lambda: pa.array([1 - 2**63], pa.duration("us")), "-2562047788:00:54.775807"),
    "instant in 10000": (
        lambda: _instant(253_402_300_800_000_001, ZONED), "10000-01-01 00:00:00.000001+00"
    ),
    "last instant": (lambda: _instant(2**63 - 1, ZONED), "294247-01-10 04:00:54.775807+00"),
    "instant in year 1": (
        lambda: _instant(-62_135_596_800_000_000, ZONED), "0001-01-01 00:00:00+00"
    ),
    "instant before year 1": (
        lambda: _instant(-62_135_596_800_000_001, ZONED), "0001-12-31 23:59:59.999999+00 BC"
    ),
    "PostgreSQL's first instant": (
        lambda: _instant(-2_440_588 * 86_400_000_000, ZONED), "4714-11-24 00:00:00+00 BC"
    ),
    "instant before PostgreSQL's": (
        lambda: _instant(-2_440_588 * 86_400_000_000 - 1, ZONED), None
    ),
    "first instant": (lambda: _instant(-(2**63) + 1, ZONED), None),
    "local time before year 1": (
        lambda: _instant(-62_135_596_800_000_001, LOCAL), "0001-12-31 23:59:59.999999 BC"
    ),
    "local time in 10000": (
        lambda: _instant(253_402_300_800_000_000, LOCAL), "10000-01-01 00:00:00"
    ),
    "instant in 10000, in an array": (
        lambda: pa.ListArray.from_arrays([0, 1], _instant(253_402_300_800_000_000, ZONED)),
        '["+10000-01-01T00:00:00Z"]',
    ),
    "day in 10000": (lambda: _day(2_932_897), "10000-01-01"),
    "day before year 1": (lambda: _day(-719_163), "0001-12-31 BC"),
    "PostgreSQL's last day": (lambda: _day(2_145_042_905), "5874897-12-31"),
    "day after PostgreSQL's": (lambda: _day(2_145_042_906), None),
    "last day": (lambda: _day(2**31 - 1), None),
    "first day": (lambda: _day(-(2**31)), None),
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """How a sink is declared, and what a reader finds where it writes."""

    spec: SinkSpec
    #: The values of column ``v``; None where only the delivery itself is looked at.
    read: Callable[[Path], Sequence[Any]] | None = None


PLACES = {
    "parquet": Place(
        SinkSpec(format="parquet", path="out"), lambda out: pq.read_table(out)["n"].to_pylist()
    ),
    "partitioned": Place(SinkSpec(format="parquet", path="out", partition_by=("v",))),
    "json": Place(SinkSpec(format="json", path="out")),
    "csv": Place(SinkSpec(format="csv", path="out")),
    "delta": Place(SinkSpec(format="delta", path="out"), lambda out: delta_rows(out, "n")),
    "delta, partitioned": Place(
        SinkSpec(format="delta", path="out", partition_by=("v",)),
        lambda out: delta_rows(out, "n"),
    ),
    "console": Place(SinkSpec(format="console")),
    "memory": Place(SinkSpec(format="memory")),
    "kafka": Place(
        SinkSpec(
            format="kafka",
            options={"topic": "t", "kafka.bootstrap.servers": "127.0.0.1:9", "key": "v"},
        )
    ),
}


@contextmanager
def _opened(spec: SinkSpec, folder: Path, table: pa.Table) -> Iterator[Sink | None]:
    """The sink of a query with these rows; None if such a column is refused at the check."""
    try:
        sink = make_sink(
            "hostile", spec, folder, folder / "staging", schema=table.schema,
            callback=lambda _table, _key: None,
        )  # fmt: skip
    except ConfigError:
        yield None
        return
    try:
        yield sink
    finally:
        sink.close()


def _staged(sink: Sink, table: pa.Table, number: int) -> list[CommittedFile]:
    """Committed files; none if the sink refused the rows, with the column and a remedy."""
    job, refusal = f"cafe0000-0001-{number:08d}", None
    try:
        staged = sink.stage(job, table)
    except (ValueError, UnfitPartition) as error:
        refusal, staged = error, []
    if refusal is not None:
        assert not isinstance(refusal, UnicodeError), "Python's own message names no column"
        assert "'v'" in str(refusal)
        assert "; " in str(refusal), f"no remedy: {refusal}"
    return [
        CommittedFile(10 * number + at, job, "hostile", one.path, one.rows, one.content)
        for at, one in enumerate(staged)
    ]


def _deliver(sink: Sink, table: pa.Table, number: int) -> bool:
    """False if the sink refused the rows before their commit."""
    files = _staged(sink, table, number)
    for file in files:
        assert sink.deliver(file)
        sink.publish(now=True)
        assert sink.settled(file)
    return bool(files)


def _table(value: str) -> pa.Table:
    column = VALUES[value][0]()
    return pa.table({"n": pa.array([1]), "v": column})


@pytest.mark.parametrize("name", PLACES)
def test_what_is_committed_can_be_delivered(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, value in enumerate(VALUES):
        folder, table, place = tmp_path / str(number), _table(value), PLACES[name]
        folder.mkdir()
        with _opened(place.spec, folder, table) as sink:
            if sink is None:
                continue
            try:
                if name == "kafka":  # without a broker, what would be sent to it
                    if _staged(sink, table, number):
                        assert len(records(table, "job/query", "v")) == 1
                elif _deliver(sink, table, number + 1) and place.read is not None:
                    assert len(place.read(folder / "out")) == 1
            except Exception as error:
                raise AssertionError(f"{value} into {name}") from error
    capsys.readouterr()


def test_postgres_stores_what_it_is_given(postgres: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("DROP SCHEMA IF EXISTS hostile CASCADE")
        connection.execute("CREATE SCHEMA hostile")
        for number, (value, (_, shown)) in enumerate(VALUES.items()):
            name, table = f"hostile.t{number}", _table(value)
            options = {"url": postgres.dsn, "table": name, "create": "true"}
            spec = SinkSpec(format="postgres", options=options)
            with _opened(spec, tmp_path, table) as sink:
                assert sink is not None
                try:
                    taken = _deliver(sink, table, number + 1)
                except Exception as error:
                    raise AssertionError(f"{value} into postgres") from error
                assert taken == (shown is not None), value
            if taken:
                found = connection.execute(f"SELECT v::text FROM {name}").fetchone()
                assert found == (shown,), value
