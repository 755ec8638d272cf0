"""Commands for a running pipeline and Python on Spark run as the documentation prints them."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery
from tests.docs.code_blocks import blocks, commands
from tests.docs.test_blocks import ON_SPARK
from typer.testing import CliRunner

import daybreak
from daybreak.cli.main import app as cli
from daybreak.model import Arrivals
from daybreak.spark.app import App
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "runs/wildfire"
LIVE = ("queries", "pause", "resume", "register", "set", "drop")
ENDED = ("whatif", "report")


def documented(name: str) -> list[tuple[str, ...]]:
    found = [c.words for c in commands() if c.words[:2] == ("daybreak", name) and RUN in c.words]
    return list(dict.fromkeys(found))


def type_in(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, (shlex.join(words), result.output)


def test_commands_for_a_run_do_what_the_docs_say(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App(spark, name="wildfire", folder=tmp_path)
    app.query_class("critical", 60)
    app.query_class("archive", 10)
    app.stream("readings", format="generator", arrivals=Arrivals(rate_per_s=100))
    sql = "SELECT station FROM readings WHERE temperature > 40"
    app.query("fire", sql=sql, cls="critical")
    app.query("archive", sql="SELECT * FROM readings", cls="archive")
    with app.run(policy="fcfs") as run:
        run.wait(1.0)  # something to replay
        for name in LIVE:
            typed = documented(name)
            assert typed, name
            for words in typed:
                type_in(words)
        run.wait(0.5)
    for name in ENDED:
        for words in documented(name):
            type_in(words)


def readings(folder: Path) -> None:
    """Two minutes of them, a minute apart: the first window closes."""
    folder.mkdir(parents=True)
    began = datetime(2026, 11, 1, tzinfo=UTC)
    rows = [
        {
            "station": i, "district": i % 40, "humidity": 10, "temperature": 30 + i % 20,
            "wind": i, "t": 40, "at": (began + timedelta(seconds=10 * i)).isoformat(),
        }
        for i in range(80)
    ]  # fmt: skip
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "first.json").write_text(text + "\n", encoding="utf-8")


@pytest.mark.parametrize("page", sorted(ON_SPARK))
def test_python_on_spark_runs_as_printed(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only shorter: what waits for a minute waits until its files are answered, or a second."""
    monkeypatch.chdir(tmp_path)
    readings(tmp_path / "in" / "readings")
    wait, endless = Run.wait, page == "docs/tutorial.md"
    monkeypatch.setattr(Run, "wait", lambda run, _s: wait(run, 1.0) if endless else run.drain(120))
    monkeypatch.setattr(
        StreamingQuery, "awaitTermination", lambda query, _s: query.processAllAvailable()
    )
    monkeypatch.setattr(App, "local", lambda name="docs": App(spark, name=name))
    names: dict[str, Any] = {"spark": spark, "daybreak": daybreak, "__name__": "docs"}
    source = spark.readStream.schema("station INT, temperature INT")
    names["readings"] = source.json(str(tmp_path / "in" / "readings"))
    names["notify"] = lambda _batch, _number: None
    try:
        for block in blocks("python"):
            if block.page == page and block.not_run is None:
                # The JVM of all tests was started elsewhere.
                here = re.sub(r'"((in|out|spark|checkpoints)/)', rf'"{tmp_path}/\1', block.text)
                here = here.replace("range(40)", "range(4)")  # so many plans take long to make
                exec(compile(here, block.place, "exec"), names)
    finally:
        for query in spark.streams.active:
            query.stop()
        if (governor := names.get("gov")) is not None:
            governor.stop()
    if page == "docs/from-writestream.md":
        found = [
            spark.read.parquet(f"{tmp_path}/{where}/fire").collect() for where in ("spark", "out")
        ]
        assert found[0]
        assert sorted(found[0]) == sorted(found[1])
