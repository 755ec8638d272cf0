"""Texts that are no Unicode are refused at the border, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.windows.logs import declare

from daybreak.model import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.model.specs import SinkSpec
from daybreak.runtime.control import call
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HALF = "x\ud800y"
SQL = "SELECT n FROM a"
#: Declarations in Python, each with half a character somewhere.
DECLARATIONS: dict[str, Callable[[App], Any]] = {
    "a stream": lambda app: app.stream(HALF, format="rate"),
    "a format": lambda app: app.stream("c", format=HALF),
    "a schema": lambda app: app.stream("c", format="json", schema=f"`{HALF}` INT"),
    "a source's path": lambda app: app.stream("c", format="json", path=Path(HALF)),  # type: ignore[arg-type]
    "an option": lambda app: app.stream("c", format="rate", options={"o": {"p": HALF}}),
    "an option's key": lambda app: app.stream("c", format="rate", options={HALF: 1}),
    "a table": lambda app: app.table(HALF, format="json", path="in"),
    "a table's path": lambda app: app.table("t", format="json", path=HALF),
    "a view": lambda app: app.view(HALF, sql=SQL),
    "a view's SQL": lambda app: app.view("v", sql=f"SELECT '{HALF}' AS x FROM a"),
    "a class": lambda app: app.query_class(HALF, 5),
    "a query": lambda app: app.query(HALF, sql=SQL),
    "SQL": lambda app: app.query("q", sql=f"SELECT '{HALF}' AS x FROM a"),
    "a query's class": lambda app: app.query("q", sql=SQL, cls=HALF),
    "a sink's path": lambda app: app.query("q", sql=SQL, sink={"format": "json", "path": HALF}),
    "a sink": lambda app: app.query("q", sql=SQL, sink=SinkSpec(format="json", path=HALF)),
    "a sink's columns": lambda app: app.query(
        "q", sql=SQL, sink={"format": "json", "path": "out", "partition_by": [HALF]}
    ),
    "a function": lambda app: app.query(HALF)(lambda a: a),
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_a_declaration_in_python(spark: SparkSession, what: str) -> None:
    with pytest.raises(ConfigError, match=r"is half of one, '\\ud800'; correct it") as found:
        DECLARATIONS[what](declare(spark))
    str(found.value).encode()


@pytest.mark.parametrize("key", ["name", "folder", "max_window", "timezone"])
def test_what_is_set_on_the_application(spark: SparkSession, key: str) -> None:
    app = declare(spark)
    app.query("q", sql=SQL)
    setattr(app, key, Path(HALF) if key == "folder" else HALF)
    with pytest.raises(ConfigError, match=rf"App: character 2 of {key} is half of one"):
        app.check()


def test_the_store(spark: SparkSession) -> None:
    app = declare(spark)
    app.store = HALF
    app.query("q", sql=SQL)
    with pytest.raises(ConfigError, match=r"App.store: character \d+ of its path is half of one"):
        app.check()


def test_toml_has_none(tmp_path: Path) -> None:
    for text in ('[queries."x\\uD800y"]\nsql = "SELECT 1"', '[queries.q]\nsql = "x\\uD800"'):
        (tmp_path / "p.toml").write_text(text)
        with pytest.raises(ConfigError, match="is not valid TOML"):
            Pipeline.read(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_bytes(b'[queries."x\xed\xa0\x80y"]\nsql = "SELECT 1"')
    with pytest.raises(ConfigError, match="cannot be read"):
        Pipeline.read(tmp_path / "p.toml")


def test_commands_and_calls_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark)
    app.query("q", sql=SQL)
    root = tmp_path / "run"
    with app.run("fcfs", run_dir=root) as run:
        sink = {"format": "json", "path": HALF}
        commands: list[tuple[str, dict[str, Any]]] = [
            ("pause", {"query": HALF}),
            ("drop", {"query": HALF, "by": HALF}),
            ("pause", {HALF: "q"}),
            (HALF, {}),
            ("set-class", {"class": HALF, "priority": 5}),
            ("set-query", {"query": "q", "class": HALF}),
            ("set-policy", {"policy": HALF}),
            ("set-policy", {"policy": "fcfs", "parameters": {HALF: 1}}),
            ("register", {"query": {"name": HALF, "sql": SQL}}),
            ("register", {"query": {"name": "r", "sql": f"SELECT '{HALF}' AS x FROM a"}}),
            ("register", {"query": {"name": "r", "sql": SQL, "sink": sink}}),
        ]
        for name, values in commands:
            with pytest.raises(ConfigError, match=r"half of one|unknown command"):
                call(root, name, values)
        for asked in (
            lambda: run.pause(HALF),
            lambda: run.drop(HALF),
            lambda: run.register(HALF, SQL),
            lambda: run.register("r", f"SELECT '{HALF}' AS x FROM a"),
            lambda: run.change_class_priority(HALF, 5),
        ):
            with pytest.raises(ConfigError) as found:
                asked()
            str(found.value).encode()
        assert run.parts.storage.log.declarations() == {}
        run.pause("q")
        run.resume("q")
    with pytest.raises(ConfigError, match=r"run directory: .* its path is half of one") as found:
        app.run("fcfs", run_dir=tmp_path / HALF)
    str(found.value).encode()
