"""Places that our own sinks write to, for the laws of ``daybreak.spark.sinks.conformance``."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from benchmarks.soaking.delta_reader import delta_rows

from daybreak.model.specs import SinkSpec
from daybreak.spark.sinks.calls import CallbackSink
from daybreak.spark.sinks.conformance import QUERY, SCHEMA, SinkUnderTest
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.sink import Sink


def table_numbers(path: Path, *, header: bool = True) -> list[int]:
    if path.suffix == ".parquet":
        return pq.read_table(path, partitioning=None)["number"].to_pylist()  # type: ignore[no-any-return]
    if path.suffix == ".json":
        return [json.loads(line)["number"] for line in path.read_text().splitlines()]
    names = None if header else SCHEMA.names
    found = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(column_names=names),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
    )
    return found["number"].to_pylist()  # type: ignore[no-any-return]


class Files(SinkUnderTest):
    """A folder of files, in one of the formats."""

    def __init__(self, folder: Path, kind: str, **more: Any) -> None:
        self.folder, self.kind, self.more = folder, kind, more

    @property
    def path(self) -> Path:
        return self.folder / "out"

    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        spec = SinkSpec(format=self.kind, path="out", **self.more)
        return make_sink(QUERY, spec, self.folder, staging, schema=SCHEMA, limit_s=limit_s)

    def rows(self) -> list[int]:
        files = (p for p in self.path.rglob("*.*") if "_staging" not in p.parts)
        header = self.more.get("options", {}).get("header") != "false"
        return [number for path in files for number in table_numbers(path, header=header)]

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Something else lies where the folder was."""
        aside = self.folder / "aside"
        if self.path.exists():
            self.path.rename(aside)
        self.path.write_text("in the way")
        try:
            yield
        finally:
            self.path.unlink()
            if aside.exists():
                aside.rename(self.path)

    def renew(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Calls(SinkUnderTest):
    """A function, called by the sinks that know no other place."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.found: list[int] = []
        self.fails = False
        self.open = threading.Event()
        self.open.set()

    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        if self.kind == "memory":
            return _Remembering(staging, self.found)
        if self.kind == "console":
            return ConsoleSink(QUERY, staging, show=self._shown)
        return CallbackSink(QUERY, staging, self._take, limit_s)

    def rows(self) -> list[int]:
        return list(self.found)

    def _take(self, table: pa.Table, _key: str) -> None:
        assert self.open.wait(60)
        if self.fails:
            raise OSError("the receiver is down")
        self.found += table["number"].to_pylist()

    def _shown(self, line: str) -> None:
        if self.fails:
            raise BrokenPipeError("nobody reads")
        if f"{QUERY}: number=" in line:
            self.found.append(int(line.split("number=")[1].split(maxsplit=1)[0]))

    def refusing(self) -> AbstractContextManager[None] | None:
        return None if self.kind == "memory" else self._refusing()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        self.fails = True
        yield
        self.fails = False

    def slow(self) -> AbstractContextManager[None] | None:
        return self._slow() if self.kind == "python" else None

    @contextmanager
    def _slow(self) -> Iterator[None]:
        self.open.clear()
        yield
        self.open.set()

    def renew(self) -> None:
        self.found.clear()


class _Remembering(MemorySink):
    """What memory sinks of earlier lives held; a reader of the process sees it once."""

    def __init__(self, staging: Path, found: list[int]) -> None:
        super().__init__(QUERY, staging)
        self._found = found

    def _keep(self, table: pa.Table, key: str) -> None:
        super()._keep(table, key)
        self._found += table["number"].to_pylist()


class DeltaTables(Files):
    """A Delta table, read by DuckDB as its log says."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, "delta", **more)

    def rows(self) -> list[int]:
        return [row[0] for row in delta_rows(self.path, "number")]

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The log of the table is in the way."""
        log, aside = self.path / "_delta_log", self.folder / "aside"
        if log.exists():
            log.rename(aside)
        self.path.mkdir(exist_ok=True)
        log.write_text("in the way")
        try:
            yield
        finally:
            log.unlink()
            if aside.exists():
                aside.rename(log)


class PostgresTable(SinkUnderTest):
    """A table of a real server."""

    def __init__(self, dsn: str, **options: str) -> None:
        self.dsn, self.options = dsn, options

    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        options = {"url": self.dsn, "table": "laws.numbers", **self.options}
        spec = SinkSpec(format="postgres", options=options)
        return make_sink(QUERY, spec, staging, staging, schema=SCHEMA, limit_s=limit_s)

    def _do(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self) -> list[int]:
        with psycopg.connect(self.dsn) as connection:
            return [n for (n,) in connection.execute("SELECT number FROM laws.numbers").fetchall()]

    @contextmanager
    def refusing(self) -> Iterator[None]:
        self._do("ALTER TABLE laws.numbers ADD CONSTRAINT no CHECK (number < 0) NOT VALID")
        yield
        self._do("ALTER TABLE laws.numbers DROP CONSTRAINT no")

    @contextmanager
    def slow(self) -> Iterator[None]:
        with psycopg.connect(self.dsn) as connection, contextlib.ExitStack() as ended:
            connection.execute("LOCK TABLE laws.numbers IN SHARE MODE")
            ended.callback(connection.rollback)
            yield

    def renew(self) -> None:
        self._do(
            "DROP SCHEMA IF EXISTS laws CASCADE",
            "CREATE SCHEMA laws",
            "CREATE TABLE laws.numbers (number bigint PRIMARY KEY, text text)"
            if "key" in self.options
            else "CREATE TABLE laws.numbers (number bigint, text text)",
        )
