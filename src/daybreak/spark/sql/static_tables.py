"""Static tables: rows that queries join with, declared once and read again from time to time.

A table's rows are held in memory, as one version. A refresh reads them apart from all jobs and then
replaces the versions of all tables that have changed at once; a job takes the versions of its
beginning and keeps them to its end, so all queries of a job see the same rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from daybreak.extras import need_package
from daybreak.model.durations import duration_us
from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError
from daybreak.model.secrets import keep_within
from daybreak.model.specs import TableSpec
from daybreak.spark.failures import one_line
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.composite import quoted

#: What the rows of a table may take: they are in the plans of queries, and in the driver's memory.
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class TableVersion:
    """The rows of a table as they were read once."""

    number: int
    rows: pa.Table
    schema: StructType
    #: The rows in the JVM, for any session.
    plan: Plan = field(compare=False, repr=False)


@dataclass(frozen=True)
class TableVersions:
    """One version of every table."""

    by_name: Mapping[str, TableVersion] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return self.by_name[name].number if name in self.by_name else 0


#: Where no tables are declared.
NO_TABLES = TableVersions()


class SessionTables:
    """The tables as temporary views of one session, for one thread."""

    def __init__(self, session: SparkSession, catalyst: Catalyst) -> None:
        self._session = session
        self._catalyst = catalyst
        self._used = NO_TABLES

    def use(self, versions: TableVersions) -> None:
        """Registers the versions that differ from those used last."""
        if versions is self._used:
            return
        for name, version in versions.by_name.items():
            if self._used.number(name) != version.number:
                frame = self._catalyst.frame(version.plan, self._session)
                frame.createOrReplaceTempView(quoted(name))
        self._used = versions


class StaticTables:
    """The declared tables of an application. ``current`` may be read by any thread."""

    def __init__(
        self, spark: SparkSession, specs: Sequence[TableSpec] = (), folder: Path = Path()
    ) -> None:
        """Reads every table; ``ConfigError`` if one cannot be read."""
        self._spark = spark
        self._specs = {spec.name: spec for spec in specs}
        self._folder = folder
        self._guard = threading.Lock()
        self._every_s = {
            spec.name: duration_us(spec.refresh, spec.place, "refresh") / 1e6
            for spec in specs
            if spec.refresh is not None
        }
        began = time.monotonic()
        found = {spec.name: self._version(1, spec, *self._read(spec)) for spec in specs}
        self.current = TableVersions(found) if found else NO_TABLES
        self._due = {name: began + every_s for name, every_s in self._every_s.items()}

    @property
    def refreshes(self) -> bool:
        return bool(self._every_s)

    def refresh(
        self, on_change: Callable[[str, int], None] = lambda _name, _rows: None, now: bool = False
    ) -> None:
        """Reads the tables whose time has come, or all of them ``now``.

        Those that cannot be read keep the rows they have; the first reason is raised in the end.
        """
        with self._guard:
            due = [n for n, at in self._due.items() if now or time.monotonic() >= at]
            changed: dict[str, TableVersion] = {}
            failure: ConfigError | None = None
            for name in due:
                self._due[name] = time.monotonic() + self._every_s[name]
                try:
                    changed |= self._changed(name)
                except ConfigError as error:
                    failure = failure or error
            if changed:
                self.current = TableVersions({**self.current.by_name, **changed})
        for name, version in changed.items():
            on_change(name, version.rows.num_rows)
        if failure is not None:
            raise failure

    def _changed(self, name: str) -> dict[str, TableVersion]:
        spec, known = self._specs[name], self.current.by_name[name]
        rows, schema = self._read(spec)
        if schema != known.schema:
            raise ConfigError(
                spec.place,
                f"has other columns than at the start ({schema.simpleString()}, "
                f"was {known.schema.simpleString()}); queries keep the rows they have",
                "bring the columns back, or start again",
            )
        if rows.equals(known.rows):
            return {}
        return {name: self._version(known.number + 1, spec, rows, schema)}

    def _version(
        self, number: int, spec: TableSpec, rows: pa.Table, schema: StructType
    ) -> TableVersion:
        # Of several batches Spark reads those before the first empty one, and says nothing.
        data = rows.combine_chunks() if rows.num_rows else []
        frame = self._spark.createDataFrame(data, schema)
        return TableVersion(number, rows, schema, frame._jdf.queryExecution().analyzed())

    def _read(self, spec: TableSpec) -> tuple[pa.Table, StructType]:
        options = resolved(spec.options, spec.place)
        path = self._path(spec)
        try:
            if spec.format == "delta":
                return self._read_delta(spec, path)
            reader = self._spark.read.format(spec.format).options(**options)
            reader = reader if spec.schema is None else reader.schema(spec.schema)
            frame = reader.load() if path is None else reader.load(path)
            schema, rows = frame.schema, frame.toArrow()
        except (PySparkException, Py4JError) as error:
            raise ConfigError(
                spec.place, f"cannot be read: {one_line(error)}", "correct its declaration or files"
            ) from None
        return self._small(spec, rows), schema

    def _read_delta(self, spec: TableSpec, path: str | None) -> tuple[pa.Table, StructType]:
        need_package("deltalake", "delta", spec.place)
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if path is None or spec.schema is not None:
            raise ConfigError(
                spec.place, "a Delta table has a path and its own schema", "give path alone"
            )
        try:
            rows = DeltaTable(path).to_pyarrow_table()
        except (DeltaError, OSError) as error:
            raise ConfigError(spec.place, f"cannot be read: {error}", "correct path") from None
        schema = from_arrow_schema(rows.schema)
        return self._small(spec, rows), schema

    def _small(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        if rows.nbytes > MOST_BYTES:
            raise ConfigError(
                spec.place,
                f"has {rows.nbytes >> 20} MB of rows, more than {MOST_BYTES >> 20} MB",
                "select what queries need into a smaller table, or register a DataFrame that is "
                "checkpointed as a temporary view in a Python program",
            )
        return rows

    def _path(self, spec: TableSpec) -> str | None:
        if spec.path is None:
            return None
        if "://" in spec.path:
            keep_within(spec.path)
            return spec.path
        full = (self._folder / spec.path).resolve()
        if not full.exists():
            raise ConfigError(
                spec.place, f"path {spec.path!r} does not exist", "create it, or correct it"
            )
        return str(full)
