"""All texts of the corpus in one application, and each as a batch over the same Parquet files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from tests.spark.corpus.entries import STREAMS, Entry

from daybreak.model import ConfigError
from daybreak.model.specs import Mode, SinkSpec
from daybreak.policies.registry import make_policy_with
from daybreak.spark.app import App
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.run import Run
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Files per stream: each becomes a segment, so queries run on ranges.
FILES = 2
STATIC = {
    "districts": "SELECT * FROM VALUES (0, 'd  0'), (1, 'd  1'), (1, 'd 1'), (3, 'IN (SELECT'), "
    "(CAST(NULL AS INT), 'none') AS t(k, name)",
    "v": "SELECT CAST(id * 5 AS INT) AS v FROM range(9)",
    "`odd table`": "SELECT CAST(id AS INT) AS `a b`, concat('t', id) AS `select` FROM range(2)",
}


class Remembering(Checker):
    """Checks each query once: alone, and then as part of the application."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._found: dict[str, CheckedQuery | ConfigError] = {}

    def sql(self, name: str, sql: str, place: str = "", mode: Mode | None = None) -> CheckedQuery:
        if name not in self._found:
            try:
                self._found[name] = super().sql(name, sql, place, mode)
            except ConfigError as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, ConfigError):
            raise found
        return found


class Corpus:
    """The streams as Parquet files, an application over them, and batches over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._folder = folder
        self._batches = spark.newSession()
        # The few rows of all files in one task.
        self._batches.conf.set("spark.sql.files.openCostInBytes", "0")
        self._session = spark.newSession()
        self._schemas: dict[str, StructType] = {}
        for number, (name, sql) in enumerate(STREAMS.items()):
            made = self._batches.sql(sql)
            self._schemas[name] = made.schema
            files = str(folder / str(number))
            _write(made, files)
            rows = self._batches.read.schema(made.schema).parquet(files)
            rows.createOrReplaceTempView(_quoted(name))
        for session in (self._batches, self._session):
            for name, sql in STATIC.items():
                session.sql(sql).createOrReplaceTempView(name)
        self._checker = self._made_checker()

    def _made_checker(self) -> Remembering:
        """The checker of an application over the streams, as the application makes it."""
        made: list[Remembering] = []

        def make(*arguments: Any, **options: Any) -> Remembering:
            made.append(Remembering(*arguments, **options))
            return made[-1]

        app = self.app()
        app.query("first", sql="SELECT n FROM readings")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("daybreak.spark.declared.app_check.Checker", make)
            app.check("fcfs")
        return made[0]

    def batch(self, entries: list[Entry]) -> dict[str, pa.Table | str]:
        """The rows of each as one batch, or why Spark gives none."""

        def run(entry: Entry) -> pa.Table | str:
            try:
                frame = self._batches.sql(entry.sql)
                try:
                    return frame.toArrow()
                except pa.ArrowInvalid:  # PySpark fails at a NULL struct of fields that are not
                    files = self._folder / "batches" / str(entries.index(entry))
                    frame.write.parquet(str(files))
                    return pq.read_table(files)
            except PySparkException as error:
                return str(error).split("\n")[0]

        with ThreadPoolExecutor(2) as pool:
            return dict(zip((e.name for e in entries), pool.map(run, entries), strict=True))

    def refusal(self, entry: Entry) -> ConfigError | None:
        """Why it is refused; None if it may run."""
        try:
            self._checker.sql(entry.name, entry.sql)
        except ConfigError as error:
            return error
        return None

    def app(self) -> App:
        """An application with the streams and the static tables, and no query."""
        app = App(self._session, name="corpus")
        app.query_class("default", 1)
        for number, (stream, schema) in enumerate(self._schemas.items()):
            java: Any = self._session._jsparkSession.parseDataType(schema.json())
            app.stream(
                stream,
                format="parquet",
                schema=java.toDDL(),
                path=str(self._folder / str(number)),
                options={"maxFilesPerTrigger": 1},
                time="at",
                watermark="1 hour",
            )
        return app

    def prepared(self, entries: list[Entry]) -> CheckedApplication:
        """The application with these queries, which have been checked before."""
        app = self.app()
        for entry in entries:
            app.query(entry.name, sql=entry.sql)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "daybreak.spark.declared.app_check.Checker", lambda *_, **__: self._checker
            )
            return app.check(make_policy_with("stride", train=45))


@dataclass(frozen=True)
class Results:
    """What one run gave: rows by query, why queries failed, and how many ran as one job."""

    rows: Mapping[str, pa.Table | None]
    failures: Mapping[str, str]
    most_together: int


def run_together(prepared: CheckedApplication, folder: Path) -> Results:
    """Composited wherever possible, results kept in memory."""
    policy = make_policy_with("stride", train=45)
    with Run(
        replace(prepared, policy=policy), folder / "run", rider_bound_s=10.0, on_failure="report"
    ) as run:
        run.drain(flush=True)
        rows = {name: run.rows(name) for name in prepared.specs}
    return Results(rows, run.failures, _most_together(folder))


def run_alone(prepared: CheckedApplication, folder: Path) -> Results:
    """Every query by itself, results in Parquet files."""
    policy = make_policy_with("stride", train=45)
    folders = {name: folder / str(number) for number, name in enumerate(prepared.specs)}
    specs = {
        name: replace(spec, sink=SinkSpec(format="parquet", path=str(folders[name])))
        for name, spec in prepared.specs.items()
    }
    prepared = replace(prepared, policy=policy, specs=specs)
    with Run(prepared, folder / "run", rider_bound_s=0.0, on_failure="report") as run:
        run.drain(flush=True)
    found = {}
    for name, files in folders.items():
        tables = [pq.read_table(file) for file in sorted(files.glob("*.parquet"))]
        found[name] = pa.concat_tables(tables) if tables else None
    return Results(found, run.failures, _most_together(folder))


def _most_together(folder: Path) -> int:
    jobs = pq.read_table(folder / "run/record/jobs.parquet", columns=["together"])
    return max(int(n) for n in jobs["together"].to_pylist())


def bag(table: pa.Table | None) -> Counter[str]:
    """Rows without their order, with NaN equal to itself and -0.0 unlike 0.0."""
    rows = [] if table is None else table.to_pylist()
    return Counter(_text(row) for row in rows)


def types(table: pa.Table) -> list[str]:
    """Names and types of the columns; whether they may be NULL is left out."""
    # What Parquet calls the entries of a map is shown, too.
    return [re.sub(r" not null| \('[^']*'\)", "", f"{f.name}: {f.type}") for f in table.schema]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.12g}"  # sums of floats depend on their order, in a batch as well
    return repr(value)


def _write(frame: DataFrame, folder: str) -> None:
    """The rows in their order, cut into files of which the later ones are younger."""
    rows = frame.count()
    for part in range(FILES):
        first, last = part * rows // FILES, (part + 1) * rows // FILES
        piece = frame.where(f"n >= {first} AND n < {last}").coalesce(1)
        piece.write.mode("append").parquet(folder)


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
