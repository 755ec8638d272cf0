"""Java is checked before Spark starts; the session has the settings our jobs count on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from daybreak.model import ConfigError
from daybreak.model.sparkconf import SparkSettings
from daybreak.spark.app import App
from daybreak.spark.session import java_version, require_java, settings_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_feature_release_is_read_from_every_form_of_the_banner(
    text: str, version: int | None
) -> None:
    assert java_version(text) == version


def fake_java(home: Path, banner: str) -> None:
    """A program that answers ``-version`` as some other Java would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)


def test_an_old_java_in_java_home_is_refused_with_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="is Java 11, but Spark needs 17") as caught:
        require_java()
    for part in ("apt-get install", "dnf install", "brew install", "JAVA_HOME"):
        assert part in caught.value.remedy


def test_a_missing_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="the PATH has none"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="nowhere"):
        require_java()


def test_a_java_that_answers_nonsense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "no runtime present")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="reports no version"):
        require_java()


def test_a_new_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "25.0.1" 2025-10-21')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()


@pytest.mark.spark
def test_arrow_tables_go_in_and_come_out_without_pandas(spark: SparkSession) -> None:
    table = pa.table({"a": pa.array([1, 2, None], pa.int32()), "b": ["x", None, "z"]})
    frame = spark.createDataFrame(table)
    assert frame.filter("a >= 2").toArrow().to_pylist() == [{"a": 2, "b": None}]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.adaptive.enabled") == "false"


def test_packages_for_a_spark_that_runs_already_are_refused(spark: SparkSession) -> None:
    """Its JVM would ignore them silently."""
    with pytest.raises(ConfigError, match="runs in this process without a:b:1; stop that session"):
        App.local(packages=["a:b:1"])
    with pytest.raises(ConfigError, match=r"App\.local: 'a:b' names no package"):
        App.local(packages=["a:b"])


def test_settings_reach_spark_beside_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "2g")
    told = settings_for_spark(
        SparkSettings(
            packages=("a:b:1", "c:d:2"),
            jars=("/x.jar",),
            conf={"spark.driver.memory": "${SIZE}", "spark.driver.extraJavaOptions": "-Dmine=1"},
        )
    )
    assert told["spark.driver.memory"] == "2g"
    assert told["spark.jars.packages"] == "a:b:1,c:d:2"
    assert told["spark.jars"] == "/x.jar"
    ours, mine = told["spark.driver.extraJavaOptions"].split()
    assert ours.startswith("-Dlog4j2.configurationFile=file:")
    assert mine == "-Dmine=1"
