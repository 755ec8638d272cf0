"""Rows of an older schema are read as the present one where that loses nothing, else not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daybreak.model import ConfigError
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SMALL_BYTES, SegmentStore
from daybreak.spark.log.widening import SchemaChanged, widened

INT, BIGINT, TEXT = pa.int32(), pa.int64(), pa.string()
STRUCT = pa.struct([("x", INT), ("y", pa.list_(pa.float32()))])
WIDE_STRUCT = pa.struct([("x", BIGINT), ("y", pa.list_(pa.float64()))])


@contextmanager
def opened(root: Path, small_bytes: int = SMALL_BYTES) -> Iterator[SegmentStore]:
    with RunDirectory.open(root, "p") as rundir:
        log = CommitLog(rundir.state_db)
        try:
            yield SegmentStore(rundir, log, memory_bytes=0, small_bytes=small_bytes)
        finally:
            log.close()


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (pa.int8(), pa.int16(), -128),
        (INT, BIGINT, -(2**31)),
        (pa.float32(), pa.float64(), 0.25),
        (pa.decimal128(8, 2), pa.decimal128(12, 3), Decimal("123456.78")),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC"), None),
        (TEXT, pa.large_string(), "x"),
        (STRUCT, WIDE_STRUCT, {"x": 3, "y": [0.5, None]}),
        (pa.map_(TEXT, INT), pa.map_(TEXT, BIGINT), [("k", 1)]),
    ],
)
def test_wider_types_hold_the_same_values(old: pa.DataType, new: pa.DataType, value: Any) -> None:
    table = pa.table({"v": pa.array([value, None], old)})
    found = widened(table, pa.schema([("n", TEXT), ("v", new)]))
    assert found.column_names == ["n", "v"]
    assert found["v"].type == new
    assert found["v"].to_pylist() == [value, None]
    assert found["n"].to_pylist() == [None, None], "a new column is NULL"


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (("v", BIGINT), ("v", INT), "column 'v' was BIGINT and is INT now"),
        (("v", INT), ("v", TEXT), "column 'v' was INT and is STRING now"),
        (("v", BIGINT), ("v", pa.float64()), "column 'v' was BIGINT and is DOUBLE now"),
        (("v", pa.decimal128(8, 2)), ("v", pa.decimal128(9, 4)), "was DECIMAL"),
        (("v", pa.timestamp("us")), ("v", pa.timestamp("us", "UTC")), "was TIMESTAMP_NTZ"),
        (("v", INT), ("w", INT), "column 'v' is gone"),
        (("v", STRUCT), ("v", pa.struct([("x", INT)])), "column 'v' was STRUCT"),
    ],
)
def test_what_could_lose_something_is_refused(old: Any, new: Any, finding: str) -> None:
    table = pa.schema([old]).empty_table()
    with pytest.raises(SchemaChanged, match=finding):
        widened(table, pa.schema([new]))


def test_a_column_that_must_not_be_null_is_neither_new_nor_null() -> None:
    strict = pa.schema([pa.field("v", BIGINT, nullable=False)])
    assert widened(pa.table({"v": pa.array([1], INT)}), strict)["v"].to_pylist() == [1]
    with pytest.raises(SchemaChanged, match="holds NULL"):
        widened(pa.table({"v": pa.array([None], INT)}), strict)
    more = pa.schema([("v", INT), pa.field("w", INT, nullable=False)])
    with pytest.raises(SchemaChanged, match="'w' is new and must not be NULL"):
        widened(pa.table({"v": pa.array([1], INT)}), more)


@pytest.mark.parametrize("small_bytes", [0, SMALL_BYTES], ids=["file", "in-log"])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "older-log"])
def test_a_stream_is_read_from_the_first_segment_that_fits(
    tmp_path: Path, small_bytes: int, recorded: bool
) -> None:
    """Over several starts, and with what older layouts did not record."""
    starts = [("v", TEXT, ["x"]), ("v", INT, [1, 2]), ("v", BIGINT, [3])]
    for k, (name, kind, values) in enumerate(starts):
        with opened(tmp_path, small_bytes) as store:
            if recorded:
                store.read_as("r", pa.schema([(name, kind)]))
            store.append("r", "cp", k, {}, pa.table({name: pa.array(values, kind)}), 1)
    with opened(tmp_path, small_bytes) as store:
        store.read_as("r", pa.schema([("v", BIGINT), ("w", TEXT)]))
        assert store.begin("r") == Cursor(1, 0)
        assert store.unreadable("r", Cursor(0, 0)) == "column 'v' was STRING and is BIGINT now"
        assert store.unreadable("r", Cursor(1, 0)) is None
        found = store.read(store.waiting("r", store.begin("r")))
        assert found.select(["v", "w"]).to_pylist() == [{"v": n, "w": None} for n in (1, 2, 3)]
        with pytest.raises(ConfigError, match="'v' was STRING and is BIGINT now"):
            store.table(store.segments("r")[0])
    with opened(tmp_path, small_bytes) as store:
        store.read_as("r", pa.schema([("v", INT)]))
        assert store.begin("r") == store.end("r"), (
            "what was wider is not read as something narrower"
        )
        store.append("r", "cp", 3, {}, pa.table({"v": pa.array([4], INT)}), 1)
        assert store.read(store.waiting("r", store.begin("r")))["v"].to_pylist() == [4]
        store.remove_below("r", Cursor(3, 0))
    with opened(tmp_path, small_bytes) as store:
        store.read_as("r", pa.schema([("v", INT)]))
        assert store.begin("r") == Cursor(3, 0)
        assert store._log.schemas("r")[0][0] == 3, "what is removed is forgotten"


def test_a_declaration_that_wrote_no_segment_leaves_no_trace(tmp_path: Path) -> None:
    """A start that was refused, for instance."""
    for k, kind in enumerate((INT, TEXT, INT, INT)):
        with opened(tmp_path) as store:
            store.read_as("r", pa.schema([("v", kind)]))
            if kind == INT:
                assert store.begin("r") == Cursor(0, 0)
                store.append("r", "cp", k, {}, pa.table({"v": pa.array([k], kind)}), 1)
    with opened(tmp_path) as store:
        store.read_as("r", pa.schema([("v", BIGINT)]))
        assert store.read(store.waiting("r", Cursor(0, 0)))["v"].to_pylist() == [0, 2, 3]


def test_rows_that_do_not_fit_the_declaration_are_not_taken_in(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.read_as("r", pa.schema([("v", INT)]))
        with pytest.raises(ConfigError, match="stream 'r': has rows of another schema"):
            store.append("r", "cp", 0, {}, pa.table({"v": ["x"]}), 1)
        assert store.segments("r") == []
