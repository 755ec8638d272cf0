"""Each cause of a late answer is injected into a run on Spark, and ``why`` names it first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.until import until
from typer.testing import CliRunner

from daybreak.cli.main import app as cli
from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.policies.reasons import Cause
from daybreak.runtime.control import call
from daybreak.runtime.why.answers import WAITS_FILE
from daybreak.runtime.why.findings import Why, why
from daybreak.spark.app import App
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEAD = """
[app]
policy = "{policy}"
[classes]
alarm = 60
report = 1
"""
FIRE = """
[queries.fire]
class = "alarm"
sql = "SELECT n FROM readings WHERE n >= 0"
qos = [[0, 1.0], [{goal_s}, 1.0], [{zero_s}, 0.0]]
sink = {{ format = "memory" }}
"""


def files(name: str = "readings", more: str = "") -> str:
    return f"""
[streams.{name}]
format = "json"
path = "{name}"
schema = "n BIGINT, at TIMESTAMP"
trigger = "0 seconds"
{more}
"""


class World:
    """A pipeline over folders of JSON files, and its run."""

    def __init__(self, spark: SparkSession, folder: Path, pipeline: str, **options: Any) -> None:
        self.folder = folder
        for line in pipeline.splitlines():
            if line.startswith("path = "):
                (folder / line.split('"')[1]).mkdir()
        self._written = 0
        (folder / "pipeline.toml").write_text(pipeline)
        app = App.from_pipeline(Pipeline.read(folder / "pipeline.toml"), spark)
        self.run: Run = app.run(run_dir=folder / "run", **options)

    def write(self, rows: int = 1, stream: str = "readings", at: str | None = None) -> None:
        """A file of rows appears at once."""
        self._written += 1
        stamp = f', "at": "{at}"' if at is not None else ""
        text = "".join(f'{{"n": {i}{stamp}}}\n' for i in range(rows))
        hidden = self.folder / stream / f".{self._written}"
        hidden.write_text(text)
        hidden.rename(self.folder / stream / f"{self._written}.json")

    def answered(self, query: str = "fire") -> int:
        """Tuples that the query has answered so far."""
        return next(q.tuples for q in self.run.snapshot().queries if q.name == query)

    def settle(self, query: str = "fire", rows: int = 1, stream: str = "readings") -> None:
        """Writes a file and waits for the answer."""
        before = self.answered(query)
        self.write(rows, stream)
        until(lambda: self.answered(query) >= before + rows, f"{query} answers")

    def why(self, query: str = "fire", **options: Any) -> Why:
        """As the command asks: what was noted is written first."""
        call(self.folder / "run", "why", {"query": query})
        return why(self.folder / "run", query, **options)


def shown(*command: str) -> list[str]:
    """What the command prints, line by line."""
    done = CliRunner().invoke(cli, list(command))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output.rstrip().splitlines()


def first(found: Why) -> Cause:
    """The cause that is named first for the worst answer; its stages add up."""
    worst = found.worst[0]
    stages = worst.stages_ms()
    inside = sum(ms for stage, ms in stages.items() if stage not in ("created", "delivered"))
    assert inside == worst.response_ms, stages
    assert sum(worst.lost().values()) == worst.whole_ns
    return worst.causes()[0][0]


def test_the_stages_of_an_answer_add_up(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = HEAD.format(policy="planned") + files() + FIRE.format(goal_s=60, zero_s=120)
    world = World(spark, tmp_path, pipeline)
    with world.run:
        for _ in range(3):
            world.settle(rows=10)
        found = world.why(most=10)
        assert (found.answers, found.missed, found.goal_s) == (30, 0, 60.0)
        assert len(found.worst) == 3
        for answer in found.worst:
            first(found)
            assert answer.tuples == 10
        lines = shown("why", str(tmp_path / "run"), "fire", "--last", "5m")
        assert lines[0].startswith("fire   class alarm   goal 60 s   missed 0 of 30 answers in ")
        assert lines[-1] == "now: nothing waits"
        longest = max(answer.response_ns for answer in found.worst) / 1e9
        assert found.worst_s == pytest.approx(longest)
    told = json.loads("\n".join(shown("why", str(tmp_path / "run"), "fire", "--json")))
    assert told["now"] is None, "the run has ended"
    assert (told["query"], told["answers"]) == ("fire", 30)
    with pytest.raises(ConfigError, match="choose from fire"):
        why(tmp_path / "run", "smoke")
    with pytest.raises(ConfigError, match=r"outside what is recorded; give a time from 20\d\d-"):
        why(tmp_path / "run", "fire", at="2h")
    at = f"{found.at(found.worst[0].committed_ns):%H:%M:%S}"
    assert why(tmp_path / "run", "fire", at=at, last_s=10).worst[0] == found.worst[0]
    (tmp_path / "run" / "record" / WAITS_FILE).rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match="an earlier Daybreak recorded it"):
        why(tmp_path / "run", "fire")
