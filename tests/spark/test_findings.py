"""``daybreak check``: all that is wrong with a file, in one start of Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.cli.main import main
from daybreak.model import ConfigError, ConfigErrors, Pipeline
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MISTAKEN = """
[app]
name = "mistaken"
policy = "round-robin"

[policy]
trian = 50

[classes]
high = 10

[classes.late]
priority = 5
qos = [[1.0, 0.2], [2.0, 0.9]]

[streams.readings]
format = "generator"
trigger = "soon"

[streams.timed]
format = "generator"
time = "at"

[streams.elsewhere]
format = "json"
path = "nowhere"
schema = "n INT"

[queries.sound]
class = "late"
sql = "SELECT wind FROM readings"
sink = { format = "json", path = "out/sound" }

[queries.over_broken]
class = "high"
sql = "SELECT n FROM elsewhere"

[queries.unknown_class]
class = "hihg"
sql = "SELECT wind FROM readings"

[queries.bad_sql]
class = "high"
sql = "SELECT wind FORM readings r x"

[queries.unknown_stream]
class = "high"
sql = "SELECT wind FROM readings JOIN raedings USING (reading)"

[queries.sink_option]
class = "high"
sql = "SELECT wind FROM readings"
sink = { format = "csv", path = "out/option", options = { delimeter = ";" } }

[queries.no_time]
class = "high"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"

[queries.shared_sink]
class = "high"
sql = "SELECT wind FROM readings"
sink = { format = "json", path = "out/sound" }

[queries.month]
class = "high"
sql = "SELECT window.end AS e, count(*) AS n FROM timed GROUP BY window(at, '1 month')"

[queries.order]
class = "high"
sql = "SELECT wind FROM readings ORDER BY wind"

[queries.{long}]
class = "high"
sql = "SELECT wind FROM readings"
""".replace("{long}", "n" * 230)

#: What is found, in the order it is reported: where, and what.
FOUND = [
    ("[classes.late]", "qos"),
    ("[queries.unknown_class]", "class 'hihg' is not declared; did you mean 'high'?"),
    ("[queries.shared_sink]", "sink 'out/sound' is already that of query 'sound'"),
    ("[policy]", "unknown key 'trian'; did you mean 'train'?"),
    ("stream 'readings'", "trigger = 'soon' is no duration"),
    ("stream 'elsewhere'", "path 'nowhere' does not exist"),
    ("[queries.bad_sql]", "its SQL is refused by Spark, line 1, column"),
    ("[queries.unknown_stream]", "unknown stream 'raedings'; did you mean 'readings'?"),
    ("[queries.sink_option]", "unknown option 'delimeter' of csv; did you mean 'delimiter'?"),
    ("[queries.no_time]", "'at', which is no stream's event time"),
    ("[queries.month]", "window(...) with a length of '1 month'"),
    ("[queries.order]", "has ORDER BY"),
    (f"[queries.{'n' * 230}]", "its name takes 230 bytes in the names of files"),
]
Check = Callable[..., int]


@pytest.fixture
def check(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Check:
    """The command, on the Spark that is there."""
    assert spark is not None
    (tmp_path / "mistaken.toml").write_text(MISTAKEN)

    def called(*options: str) -> int:
        argv = ["daybreak", "check", str(tmp_path / "mistaken.toml"), *options]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            main()
        return int(str(ended.value.code))

    return called


def test_check_reports_every_mistake_of_a_file_on_a_line_of_its_own(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check() == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    for (place, finding), line in zip(FOUND, lines, strict=True):
        assert place in line
        assert finding in line


def test_check_lists_every_mistake_as_json(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("--json") == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert len(errors) == len(FOUND)
    for (place, finding), error in zip(FOUND, errors, strict=True):
        assert place in error["place"]
        assert finding in f"{error['finding']}; {error['remedy']}"


def test_an_app_reports_all_that_is_wrong_with_it(spark: SparkSession, tmp_path: Path) -> None:
    app = App(spark, name="mistaken", folder=tmp_path)
    app.stream("readings", format="generator", trigger="soon")
    app.view("bad", sql="SELECT nothing FROM readings")
    app.query("over_bad", sql="SELECT * FROM bad")
    app.query("classless", sql="SELECT wind FROM readings", cls="high")
    app.query("sinkless", sql="SELECT wind FROM readings", sink={"format": "xml", "path": "x"})
    with pytest.raises(ConfigErrors) as caught:
        app.run("no-such-policy", run_dir=tmp_path / "run")
    assert [error.place for error in caught.value.errors] == [
        "policy", "stream 'readings'", "view 'bad'", "query 'classless'",
        "query 'sinkless'",
    ]  # fmt: skip
    assert str(caught.value).count("\n") == 4
    assert not (tmp_path / "run").exists()


def test_a_pipeline_that_is_simulated_reports_all_mistakes_too() -> None:
    with pytest.raises(ConfigErrors) as caught:
        Pipeline.parse(MISTAKEN)
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize(
    ("paths", "finding"),
    [
        (("out", "out"), "sink 'out' is already that of query 'q0'"),
        (("out", "./out/b"), "lies in that of query 'q0'"),
        (("out", "in/b"), "lies in the source of stream 's'"),
        (("out", "kept/b"), "lies in the store"),
    ],
)
def test_an_application_in_python_is_told_of_sinks_that_overlap(
    spark: SparkSession, tmp_path: Path, paths: tuple[str, str], finding: str
) -> None:
    """By its check, in the words of its start."""
    (tmp_path / "in").mkdir()
    app = App(spark, folder=tmp_path, store="kept")
    app.stream("s", format="json", path="in", schema="n INT")
    for n, path in enumerate(paths):
        app.query(f"q{n}", sql="SELECT n FROM s", sink={"format": "json", "path": path})
    with pytest.raises(ConfigError) as checked:
        app.check()
    assert finding in checked.value.finding
    with pytest.raises(ConfigError) as started:
        app.run("fcfs", run_dir=tmp_path / "run")
    assert str(started.value) == str(checked.value)
