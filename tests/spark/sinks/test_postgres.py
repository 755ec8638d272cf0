"""The PostgreSQL sink: what it writes, what it refuses, and what nobody gets to see."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from benchmarks.servers import PostgresServer

from daybreak import extras
from daybreak.model import ConfigError
from daybreak.model.declarations import query_as_json, query_from
from daybreak.model.secrets import forget_all
from daybreak.model.specs import SinkSpec
from daybreak.spark.failures import SinkUnavailable
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.postgres_sink import UpsertAmbiguous
from daybreak.spark.sinks.sink import Sink

pytestmark = pytest.mark.slow

ROWS = pa.table(
    {"station": ["a", "b"], "t": pa.array([41, 38], pa.int32()), "at": pa.array([2, 2], pa.int64())}
)


@pytest.fixture
def dsn(postgres: PostgresServer) -> Iterator[str]:
    do(postgres.dsn, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s")
    yield postgres.dsn
    forget_all()


def do(dsn: str, *statements: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            done = connection.execute(statement)
    return done.fetchall() if done.description else []


def make(tmp_path: Path, dsn: str, schema: pa.Schema | None = ROWS.schema, **options: str) -> Sink:
    options = {"url": dsn, "table": "s.fires", **options}
    spec = SinkSpec(format="postgres", options=options)
    return make_sink("fire", spec, tmp_path, tmp_path / "staging", place="p.toml:3", schema=schema)


def deliver(sink: Sink, table: pa.Table, number: int = 1) -> None:
    [staged] = sink.stage(f"cafe0000-0001-{number:08d}", table)
    job = staged.path.name.removesuffix("-fire.arrow")
    sink.deliver(CommittedFile(number, job, "fire", staged.path, staged.rows, staged.content))


def test_every_type_arrives_as_it_is(tmp_path: Path, dsn: str) -> None:
    at = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
    values: dict[str, tuple[pa.DataType, Any, Any]] = {
        "i8": (pa.int8(), -1, -1),
        "i32": (pa.int32(), 2**31 - 1, 2**31 - 1),
        "i64": (pa.int64(), -(2**63), -(2**63)),
        "f32": (pa.float32(), 0.5, 0.5),
        "f64": (pa.float64(), float("-inf"), float("-inf")),
        "yes": (pa.bool_(), True, True),
        "text": (pa.string(), 'a,"b"\n\\.\n', 'a,"b"\n\\.\n'),
        "empty": (pa.string(), "", ""),
        "none": (pa.string(), None, None),
        "price": (pa.decimal128(20, 3), Decimal("12345.670"), Decimal("12345.670")),
        "day": (pa.date32(), date(2024, 2, 29), date(2024, 2, 29)),
        "at": (pa.timestamp("us", "UTC"), at, at),
        "local": (pa.timestamp("us"), at.replace(tzinfo=None), at.replace(tzinfo=None)),
        "took": (pa.duration("us"), timedelta(seconds=-1.5), timedelta(seconds=-1.5)),
        "raw": (pa.binary(), b"\x00\xff", b"\x00\xff"),
        "list": (pa.list_(pa.int32()), [1, None], [1, None]),
        "deep": (pa.struct([("a", pa.string())]), {"a": "x"}, {"a": "x"}),
    }
    table = pa.table({n: pa.array([given], kind) for n, (kind, given, _) in values.items()})
    sink = make(tmp_path, dsn, table.schema, create="true")
    deliver(sink, table)
    sink.close()
    [row] = do(dsn, "SELECT * FROM s.fires")
    assert dict(zip(values, row, strict=True)) == {n: e for n, (_, _, e) in values.items()}
    make(tmp_path, dsn, table.schema).close()  # what it made is what it takes


def test_upsert_keeps_the_newest_row_of_a_key(tmp_path: Path, dsn: str) -> None:
    sink = make(tmp_path, dsn, key="station", newest="at", create="true")
    deliver(sink, ROWS, 1)
    late = pa.table({"station": ["a", "b", "b"], "t": [1, 50, 51], "at": [1, 3, 4]})
    deliver(sink, late.cast(ROWS.schema), 2)
    sink.close()
    found = do(dsn, "SELECT station, t, at FROM s.fires ORDER BY station")
    assert found == [("a", 41, 2), ("b", 51, 4)]


def test_a_row_without_a_key_is_refused_before_its_commit(tmp_path: Path, dsn: str) -> None:
    do(
        dsn,
        "CREATE TABLE s.fires (station text, t integer, at bigint)",
        "CREATE UNIQUE INDEX ON s.fires (station)",
    )
    sink = make(tmp_path, dsn, key="station")
    without = ROWS.set_column(0, "station", pa.array(["a", None]))
    with pytest.raises(ValueError, match="1 rows have NULL in 'station'"):
        sink.stage("cafe0000-0001-00000001", without)
    deliver(sink, ROWS, 2)
    sink.close()
    assert len(do(dsn, "SELECT * FROM s.fires")) == 2


def test_an_upsert_that_depends_on_the_order_of_rows_is_refused(tmp_path: Path, dsn: str) -> None:
    sink = make(tmp_path, dsn, key="at", create="true")
    with pytest.raises(UpsertAmbiguous, match="same at; give newest"):
        deliver(sink, ROWS)
    sink.close()
    assert do(dsn, "SELECT * FROM s.fires, s.daybreak_deliveries") == []


@pytest.mark.parametrize(
    ("ddl", "options", "expected"),
    [
        ("", {}, r"table s\.fires does not exist; create it \(CREATE TABLE \"s\"\.\"fires\""),
        ("(station text, t int)", {}, "has no column 'at'; ALTER TABLE s.fires ADD COLUMN"),
        ("(station text, t smallint, at bigint)", {}, "'t' of table s.fires is smallint"),
        ("(station text, t int, at bigint, x int NOT NULL)", {}, "needs a value for 'x'"),
        ("(station text, t int, at bigint)", {"key": "station"}, "CREATE UNIQUE INDEX ON s.fires"),
        ("", {"key": "x"}, "key 'x' is not one of its columns; choose from station, t, at"),
        ("", {"table": "nowhere.fires"}, r"schema 'nowhere' does not exist; CREATE SCHEMA"),
        ("", {"table": "nowhere.fires", "create": "true"}, "schema 'nowhere' does not exist"),
        ("", {"newest": "at"}, "newest 'at'"),
        ("", {"keys": "x"}, "unknown option 'keys' of postgres; did you mean 'key'"),
        ("", {"table": ""}, "option table is missing"),
        ("", {"url": "mysql://h/d"}, "url is not one of PostgreSQL"),
        ("", {"url": "postgresql://u:hunter2@127.0.0.1:1/d"}, "holds a password in plain text"),
        ("", {"url": "postgresql://127.0.0.1:1/d"}, "cannot connect .*; start PostgreSQL"),
    ],
)
def test_what_cannot_work_is_refused_with_its_remedy(
    tmp_path: Path, dsn: str, ddl: str, options: dict[str, str], expected: str
) -> None:
    if ddl:
        do(dsn, f"CREATE TABLE s.fires {ddl}")
    with pytest.raises(ConfigError, match=expected) as refused:
        make(tmp_path, dsn, **options)
    assert str(refused.value).startswith("p.toml:3: sink: ")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "column", "fits"),
    [
        (pa.decimal128(10, 3), "numeric(10,2)", False),
        (pa.decimal128(10, 2), "numeric(9,2)", False),
        (pa.decimal128(10, 2), "numeric(12,4)", True),
        (pa.int32(), "numeric(9,0)", False),
        (pa.int32(), "numeric(10)", True),
        (pa.timestamp("us", "UTC"), "timestamp(3) with time zone", False),
        (pa.timestamp("us"), "timestamp(6)", True),
        (pa.duration("us"), "interval(0)", False),
        (pa.duration("us"), "interval day to second", False),
        (pa.duration("us"), "interval", True),
    ],
)
def test_a_column_that_would_round_is_refused(
    tmp_path: Path, dsn: str, kind: pa.DataType, column: str, fits: bool
) -> None:
    do(dsn, f"CREATE TABLE s.fires (v {column})")
    schema = pa.schema([("v", kind)])
    if fits:
        make(tmp_path, dsn, schema).close()
        return
    with pytest.raises(
        ConfigError, match=r"column 'v' of table s\.fires is .*, and the query gives"
    ):
        make(tmp_path, dsn, schema)


def test_a_text_that_is_too_long_is_refused_before_its_commit(tmp_path: Path, dsn: str) -> None:
    do(dsn, "CREATE TABLE s.fires (station varchar(2), t int, at bigint)")
    sink = make(tmp_path, dsn)
    long = ROWS.set_column(0, "station", pa.array(["éé", "abc"]))
    with pytest.raises(ValueError, match="'station' holds a text of 3 characters, more than the 2"):
        sink.stage("cafe0000-0001-00000001", long)
    deliver(sink, long.slice(0, 1), 2)
    sink.close()
    assert do(dsn, "SELECT station FROM s.fires") == [("éé",)]


def test_a_missing_database_is_named(tmp_path: Path, dsn: str) -> None:
    with pytest.raises(ConfigError, match=r'database "nope" does not exist.*createdb'):
        make(tmp_path, dsn.removesuffix("postgres") + "nope")


def test_a_missing_package_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'daybreak\[postgres\]'"):
        make(tmp_path, "postgresql://x/y")


def test_a_password_stays_in_the_environment(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRE_PASSWORD", "hunter2hunter2")
    url = dsn.replace("postgres@", "postgres:${FIRE_PASSWORD}@")
    declared = query_from("fire", {"sql": "x", "sink": {
        "format": "postgres", "options": {"url": url, "table": "s.fires"},
    }})  # fmt: skip
    assert declared.sink is not None
    assert declared.sink.shown == "postgres s.fires"
    assert "hunter2" not in str(query_as_json(declared))
    make(tmp_path, url, create="true").close()
    monkeypatch.setenv("FIRE_URL", url.replace("${FIRE_PASSWORD}", "hunter2hunter2"))
    make(tmp_path, "${FIRE_URL}", create="true").close()
    elsewhere = url.replace("127.0.0.1:", "127.0.0.1:1")[:-10] + "/hunter2hunter2"
    with pytest.raises(ConfigError) as refused:
        make(tmp_path, elsewhere)
    assert "hunter2" not in str(refused.value)


def test_what_postgres_can_never_store_is_refused_before_its_commit(
    tmp_path: Path, dsn: str
) -> None:
    sink = make(tmp_path, dsn, create="true")
    with pytest.raises(ValueError, match=r"'station' holds a NUL .* use replace\(station"):
        sink.stage("j", ROWS.set_column(0, "station", [["a\0", None]]))
    assert list(sink.staged()) == []


def test_an_outage_is_no_failure_of_the_query(tmp_path: Path, dsn: str) -> None:
    """The connection breaks; the next delivery opens another one."""
    sink = make(tmp_path, dsn, create="true")
    deliver(sink, ROWS, 1)
    mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    do(dsn, f"{mine} WHERE application_name = 'daybreak fire'")
    with pytest.raises(SinkUnavailable, match="results are kept"):
        deliver(sink, ROWS, 2)
    deliver(sink, ROWS, 2)
    deliver(sink, ROWS, 1)
    sink.close()
    assert do(dsn, "SELECT count(*) FROM s.fires") == [(4,)]


def test_missing_rights_are_found_at_the_check(tmp_path: Path, dsn: str) -> None:
    """Each grant leads to the next finding; with the last one rows arrive."""
    known = do(dsn, "SELECT 1 FROM pg_roles WHERE rolname = 'clerk'")
    do(dsn, "DROP OWNED BY clerk CASCADE" if known else "CREATE ROLE clerk LOGIN")
    do(dsn, "CREATE TABLE s.fires (station text PRIMARY KEY, t int, at bigint)")
    url = dsn.replace("postgres@", "clerk@")
    for finding, grant in (
        ("user clerk may not use schema 's'", "USAGE ON SCHEMA s"),
        (r"user clerk has no right to INSERT on table s\.fires", "INSERT ON s.fires"),
        (r"no right to SELECT on table s\.fires", "SELECT ON s.fires"),
        (r"no right to UPDATE on table s\.fires", "UPDATE (t, at) ON s.fires"),
        (r"may not create s\.daybreak_deliveries in schema 's'; GRANT CR", "CREATE ON SCHEMA s"),
    ):
        with pytest.raises(ConfigError, match=finding):
            make(tmp_path, url, key="station")
        do(dsn, f"GRANT {grant} TO clerk")
    sink = make(tmp_path, url, key="station")
    deliver(sink, ROWS)
    sink.close()
    assert len(do(dsn, "SELECT * FROM s.fires")) == 2
