"""JSON, CSV and the console: every value that a query can have, as text."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.text_formats import write_csv, write_json_lines

RICH: dict[str, tuple[pa.DataType, Any, Any]] = {
    "at": (
        pa.timestamp("us", "Europe/Paris"),
        datetime(2026, 1, 1, 12, 0, 0, 5, UTC),
        "2026-01-01T12:00:00.000005Z",
    ),
    "local": (pa.timestamp("us"), datetime(2026, 1, 1, 12), "2026-01-01T12:00:00"),  # noqa: DTZ001
    "day": (pa.date32(), date(2026, 1, 2), "2026-01-02"),
    "for": (pa.duration("us"), timedelta(seconds=90, milliseconds=5), "PT90.005S"),
    "money": (pa.decimal128(20, 2), Decimal("-1.50"), "-1.50"),
    "raw": (pa.binary(), b"\x00", "AA=="),
    "nan": (pa.float64(), float("nan"), "NaN"),
    "list": (pa.list_(pa.date32()), [date(2026, 1, 2), None], ["2026-01-02", None]),
    "map": (pa.map_(pa.int32(), pa.string()), [(1, "é")], {"1": "é"}),
    "struct": (pa.struct({"x": pa.float64()}), {"x": float("-inf")}, {"x": "-Infinity"}),
}


def rich() -> pa.Table:
    columns = {name: pa.array([value, None], kind) for name, (kind, value, _) in RICH.items()}
    return pa.table({"n": [1, None], **columns})


def test_json_lines_have_iso_times_nulls_and_nested_values() -> None:
    file = io.BytesIO()
    write_json_lines(rich(), file)
    first, second = (json.loads(line) for line in file.getvalue().decode().splitlines())
    assert first == {"n": 1, **{name: shown for name, (_, _, shown) in RICH.items()}}
    assert second == dict.fromkeys(["n", *RICH])


def test_csv_has_iso_times_empty_nulls_and_nested_values_as_json() -> None:
    file = io.BytesIO()
    write_csv(rich(), file, header=False, delimiter=";")
    first, second = file.getvalue().decode().splitlines()
    for name, (kind, _, shown) in RICH.items():
        text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
        quoted = '"' + text.replace('"', '""') + '"'
        assert ("nan" if kind == pa.float64() else quoted) in first, name
    assert second == ";" * len(RICH)


#: Far beyond what Python's datetime holds, as microseconds since 1970, and as text.
FAR = {
    253_402_300_800_000_000: "+10000-01-01T00:00:00",
    -62_135_596_800_000_001: "0000-12-31T23:59:59.999999",
    -62_198_755_200_000_000: "-0001-01-01T00:00:00",
    9_223_372_036_854_775_807: "+294247-01-10T04:00:54.775807",
    -9_223_372_036_854_775_808: "-290308-12-21T19:59:05.224192",
    951_782_400_000_000: "2000-02-29T00:00:00",
}


def test_an_instant_that_python_cannot_hold_reaches_every_text_sink(tmp_path: Path) -> None:
    numbers, texts = pa.array(FAR, pa.int64()), list(FAR.values())
    days = pa.array([2_932_897, -719_528], pa.int32()).cast(pa.date32())
    table = pa.table(
        {
            "at": numbers.cast(pa.timestamp("us", "UTC")),
            "local": numbers.cast(pa.timestamp("us")),
            "all": pa.array([[], None] + [list(FAR)] * 4, pa.list_(pa.int64())).cast(
                pa.list_(pa.timestamp("us"))
            ),
            "day": pa.concat_arrays([days, pa.nulls(4, pa.date32())]),
        }
    )
    file = io.BytesIO()
    write_json_lines(table, file)
    rows = [json.loads(line) for line in file.getvalue().decode().splitlines()]
    assert [row["at"] for row in rows] == [f"{text}Z" for text in texts]
    assert [row["local"] for row in rows] == texts
    assert [row["all"] for row in rows] == [[], None, texts, texts, texts, texts]
    assert [row["day"] for row in rows[:3]] == ["+10000-01-01", "0000-01-01", None]
    file = io.BytesIO()
    write_csv(table, file, header=False, delimiter=",")
    assert file.getvalue().decode().startswith(f'"{texts[0]}Z","{texts[0]}","[]","+10000-01-01"\n')
    shown: list[str] = []
    console = ConsoleSink("far", tmp_path, show=shown.append)
    deliver(console, table.slice(1, 1))
    assert shown == [f"far: at={texts[1]}Z local={texts[1]} all=null day=0000-01-01"]


def test_a_map_with_structs_or_arrays_for_keys_reaches_every_text_sink(tmp_path: Path) -> None:
    pair = pa.struct({"x": pa.int32(), "at": pa.timestamp("us", "UTC")})
    entries = [
        ({"x": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "a"),
        ({"x": None, "at": None}, None),
    ]
    table = pa.table(
        {
            "by_struct": pa.array([[], entries, None], pa.map_(pair, pa.string())),
            "by_list": pa.array(
                [[], [([1, 2], 3)], None], pa.map_(pa.list_(pa.int32()), pa.int32())
            ),
        }
    ).slice(1)  # what lies before a slice is no part of it
    by_struct = {'{"x": 1, "at": "2026-01-01T00:00:00Z"}': "a", '{"x": null, "at": null}': None}
    file = io.BytesIO()
    write_json_lines(table, file)
    first, second = (json.loads(line) for line in file.getvalue().decode().splitlines())
    assert first == {"by_struct": by_struct, "by_list": {"[1, 2]": 3}}
    assert second == {"by_struct": None, "by_list": None}
    file = io.BytesIO()
    write_csv(table, file, header=False, delimiter=",")
    first_cell = next(csv.reader(io.StringIO(file.getvalue().decode())))[0]
    assert json.loads(first_cell) == by_struct
    shown: list[str] = []
    deliver(ConsoleSink("maps", tmp_path, show=shown.append), table)
    assert shown[1] == "maps: by_struct=null by_list=null"


def deliver(sink: ConsoleSink, table: pa.Table) -> None:
    [staged] = sink.stage("job", table)
    sink.deliver(CommittedFile(1, "job", staged.query, staged.path, staged.rows, staged.content))
