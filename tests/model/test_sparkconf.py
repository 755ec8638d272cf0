"""``[spark]`` in pipelines, and ``--master``, ``--conf``, ``--packages``."""

from __future__ import annotations

from pathlib import Path

import pytest

from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.model.sparkconf import SparkSettings, settings_of_command
from daybreak.model.tables import Document

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
REST = """
[streams.s]
format = "rate"
[queries.q]
sql = "SELECT * FROM s"
sink = { format = "memory" }
"""


def settings(text: str, folder: Path = Path()) -> SparkSettings:
    return Pipeline.load(Document.parse(text + REST, "p.toml"), folder).spark


def test_everything_spark_can_be_told_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.jar").touch()
    found = settings(
        f"""
        [spark]
        master = "local[2]"
        packages = ["{PACKAGE}"]
        jars = ["mine.jar", "https://example.org/other.jar"]
        [spark.conf]
        spark.driver.memory = "2g"
        "spark.sql.adaptive.enabled" = true
        """,
        tmp_path,
    )
    assert found.master == "local[2]"
    assert found.master_place == "p.toml:3: [spark]"
    assert found.packages == (PACKAGE,)
    assert found.jars == (str(tmp_path.resolve() / "mine.jar"), "https://example.org/other.jar")
    assert found.conf == {"spark.driver.memory": "2g", "spark.sql.adaptive.enabled": "true"}
    assert settings("") == SparkSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('packages = ["kafka"]', "'kafka' names no package; give \"group:artifact:version\""),
        ('jars = ["no.jar"]', "jar 'no.jar' does not exist"),
        ('conf = { "hive.x" = 1 }', "'hive.x' is no setting of Spark"),
        ('conf = { spark.master = "yarn" }', "spark.master has a key of its own; give it as"),
        ("conf = { spark.x = [1] }", "setting x is [1]; settings are texts, numbers or flags"),
        ("jar = []", "unknown key 'jar'; did you mean 'jars'?"),
    ],
)
def test_a_mistake_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(f"[spark]\n{text}")
    assert message in str(caught.value)
    assert caught.value.place.startswith("p.toml:"), caught.value.place


def test_the_command_line_goes_before_the_pipeline() -> None:
    declared = SparkSettings(
        master="local[1]", packages=("a:b:1",), conf={"spark.a": "1", "spark.b": "1"}
    )
    given = settings_of_command("local[2]", ["spark.b=x=y"], ["c:d:2,a:b:1", "e:f:3"])
    both = given.over(declared)
    assert both.master_place == "--master"
    assert both.master == "local[2]"
    assert both.packages == ("a:b:1", "c:d:2", "e:f:3")
    assert both.conf == {"spark.a": "1", "spark.b": "x=y"}
    assert settings_of_command(None, [], []).over(declared).master == "local[1]"


def test_a_mistake_on_the_command_line_names_the_option() -> None:
    with pytest.raises(ConfigError, match=r"--conf: 'spark\.x' has no value; give KEY=VALUE"):
        settings_of_command(None, ["spark.x"], [])
    with pytest.raises(ConfigError, match="--packages: 'nonsense' names no package"):
        settings_of_command(None, [], ["nonsense"])
