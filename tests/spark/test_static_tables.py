"""Static tables: declared, joined with, and refreshed while a run is under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.until import until

from daybreak.model import ConfigError, ConfigErrors
from daybreak.model.pipeline import Pipeline
from daybreak.spark.app import App
from daybreak.spark.sql import static_tables
from daybreak.spark.sql.static_tables import StaticTables
from daybreak.spark.tasks.shapes import of_query
from daybreak.spark.tasks.task import Leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from daybreak.spark.run import Run

JOIN = "SELECT n, name FROM readings JOIN districts USING (station)"
STATIONS = 3


def write_table(folder: Path, name: str, **more: Any) -> None:
    """Replaces the table as a careful program does: all at once."""
    rows = [{"station": s, "name": f"{name} {s}", **more} for s in range(STATIONS)]
    partial = folder / "districts.partial"
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
    partial.rename(folder / "districts.json")


def write_rows(folder: Path, numbers: range) -> None:
    lines = (json.dumps({"n": n, "station": n % STATIONS}) + "\n" for n in numbers)
    partial = folder / f"{numbers.start}.partial"
    partial.write_text("".join(lines))
    partial.rename(folder / "in" / f"{numbers.start:06d}.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    write_table(tmp_path, "old")
    return tmp_path


def declare(spark: SparkSession, folder: Path, refresh: str | None = "50 milliseconds") -> App:
    app = App(spark, folder=folder, name="static")
    app.stream("readings", format="json", path="in", schema="n INT, station INT")
    app.table("districts", format="json", path="districts.json", refresh=refresh)
    return app


def names(run: Run, query: str, numbers: range) -> set[str]:
    """Which versions of the table rows met, once all of them are there."""
    until(lambda: run.rows(query).num_rows >= numbers.stop, f"rows {numbers} of {query}")
    rows = run.rows(query).to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(numbers.stop))
    assert all(int(row["name"].split()[1]) == row["n"] % STATIONS for row in rows)
    return {row["name"].split()[0] for row in rows if row["n"] in numbers}


def test_a_table_is_refreshed_without_a_restart(spark: SparkSession, folder: Path) -> None:
    app = declare(spark, folder)
    app.view("named", sql=JOIN)
    app.query("alone", sql=f"{JOIN} UNION ALL {JOIN} WHERE n < 0")
    app.query("one", sql=JOIN)
    app.query(
        "other",
        sql="SELECT n, upper(name) AS up, name FROM readings JOIN districts USING (station)",
    )
    app.query("viewed", sql="SELECT n, name FROM named WHERE n >= 0")

    @app.query
    def function(readings: DataFrame) -> DataFrame:
        districts = readings.sparkSession.table("districts")
        return readings.join(districts, "station").select("n", "name")

    every = ("alone", "one", "other", "viewed", "function")
    with app.run("stride", run_dir=folder / "run") as run:
        tables = run.parts.accepted.catalog.application.tables
        write_rows(folder, range(12))
        for query in every:
            assert names(run, query, range(12)) == {"old"}
        write_table(folder, "new")
        until(lambda: tables.current.number("districts") == 2)
        write_rows(folder, range(12, 24))
        for query in every:
            assert names(run, query, range(12, 24)) == {"new"}, query

        write_table(folder, "newer", area=1)
        until(lambda: "refresh" in run.snapshot().troubles)
        trouble = run.snapshot().troubles["refresh"]
        assert "table 'districts'" in trouble
        assert "has other columns than at the start" in trouble
        write_rows(folder, range(24, 36))
        # Spark reads JSON twice, for its columns and for its rows, and the file may have changed.
        assert names(run, "one", range(24, 36)) in ({"new"}, {"newer"}), "rows of one version"
        write_table(folder, "mended")
        until(lambda: "refresh" not in run.snapshot().troubles)
        write_rows(folder, range(36, 48))
        assert names(run, "one", range(36, 48)) == {"mended"}
    manifest = run.report().manifest
    assert manifest["jobs"]["prepared"] > 0
    assert not any("static" in why for why in manifest["ordinary_because"])
    events = (folder / "run/events.jsonl").read_text()
    assert events.count('"table-refreshed"') in (2, 3)


def test_a_job_keeps_the_versions_it_began_with(spark: SparkSession, folder: Path) -> None:
    app = declare(spark, folder)
    app.query("one", sql=JOIN)
    with app.run("stride", run_dir=folder / "run") as run:
        runner = run.parts.scheduling.runners.named("test")
        [query] = run.parts.accepted.catalog.runnables
        schema = pa.schema([("n", pa.int32()), ("station", pa.int32())])
        rows = {"readings": pa.table({"n": [1], "station": [1]}, schema=schema)}
        tables = run.parts.accepted.catalog.application.tables

        def compute() -> str:
            task = of_query(query, runner._session.schemas)
            [result] = runner.engines.compute([task], Leaves.of(rows)).results
            assert isinstance(result, pa.Table)
            return str(result["name"][0])

        runner._session.take_tables()
        assert compute() == "old 1"
        write_table(folder, "new")
        until(lambda: tables.current.number("districts") == 2)
        assert compute() == "old 1", "its job has not ended"
        runner._session.take_tables()
        assert compute() == "new 1"
        runner.close()


def test_rows_that_did_not_change_are_no_new_version(spark: SparkSession, folder: Path) -> None:
    spec = declare(spark, folder, "1 hour")._tables["districts"]
    tables = StaticTables(spark, [spec], folder)
    assert tables.current.by_name["districts"].rows.num_rows == STATIONS
    changes: list[tuple[str, int]] = []
    tables.refresh(lambda name, rows: changes.append((name, rows)), now=True)
    before = tables.current
    write_table(folder, "new")
    tables.refresh(lambda name, rows: changes.append((name, rows)))
    assert (tables.current, changes) == (before, []), "its time has not come"
    tables.refresh(lambda name, rows: changes.append((name, rows)), now=True)
    assert changes == [("districts", STATIONS)]
    assert before.number("districts") == 1, "versions are never changed"


def test_a_delta_table_is_a_static_table(spark: SparkSession, folder: Path) -> None:
    write_deltalake(folder / "delta", pa.table({"station": [1], "name": ["x"]}))
    app = App(spark, folder=folder)
    app.table("places", format="delta", path="delta")
    spec = app._tables["places"]
    assert StaticTables(spark, [spec], folder).current.by_name["places"].rows.to_pylist() == [
        {"station": 1, "name": "x"}
    ]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ('format = "json"\npath = "nope"', "path 'nope' does not exist; create it, or correct it"),
        ('format = "nope"\npath = "in"', "cannot be read: .*nope"),
        ('format = "delta"\npath = "in"', "cannot be read"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_its_line(
    spark: SparkSession, folder: Path, declared: str, expected: str
) -> None:
    text = f"""
[streams.readings]
format = "json"
path = "in"
schema = "n INT, station INT"
[tables.districts]
{declared}
[queries.q]
sql = "SELECT n FROM readings"
"""
    (folder / "p.toml").write_text(text)
    app = App.from_pipeline(Pipeline.read(folder / "p.toml"), spark)
    with pytest.raises((ConfigError, ConfigErrors), match=rf"p\.toml:6.*{expected}"):
        app.check()


def test_a_table_beyond_the_limit_is_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_tables, "MOST_BYTES", 10)
    spec = declare(spark, folder)._tables["districts"]
    with pytest.raises(ConfigError, match="MB of rows, more than"):
        StaticTables(spark, [spec], folder)
