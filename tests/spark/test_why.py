"""Each cause of a late answer is injected into a run on Spark, and ``why`` names it first."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType
from tests.until import until
from typer.testing import CliRunner

from daybreak.cli.main import app as cli
from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.policies.reasons import Cause
from daybreak.runtime.control import call
from daybreak.runtime.snapshot import QueryRow
from daybreak.runtime.why.answers import WAITS_FILE, SlowAnswer
from daybreak.runtime.why.findings import why
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


def files(name: str = "readings", more: str = "") -> str:
    """A stream over a folder of JSON files."""
    return f"""
[streams.{name}]
format = "json"
path = "{name}"
schema = "n BIGINT, at TIMESTAMP"
trigger = "0 seconds"
{more}
"""


def query(name: str, sql: str, cls: str = "alarm", goal_s: float = 0.3) -> str:
    return f"""
[queries.{name}]
class = "{cls}"
sql = "{sql}"
qos = [[0, 1.0], [{goal_s}, 1.0], [{10 * goal_s}, 0.0]]
sink = {{ format = "memory" }}
"""


FIRE = query("fire", "SELECT n FROM readings WHERE n >= 0")


#: For so long the disk of a log takes nothing: far longer than a job, and no outage yet.
DISK_S = 2.5


def holding(flag: Path) -> Callable[[int], int]:
    """Rows above 0 are computed once the flag is there: a job that lasts as long as a test says."""

    def held(n: int) -> int:
        while n > 0 and not flag.exists():
            time.sleep(0.01)
        return n

    return held


def slept(n: int) -> int:
    """As many milliseconds as the row says, for real."""
    time.sleep(n / 1000)
    return n


class World:
    """A pipeline over folders of JSON files, and its run."""

    def __init__(self, spark: SparkSession, folder: Path, pipeline: str, **options: Any) -> None:
        self.folder = folder
        for line in pipeline.splitlines():
            if line.startswith("path = "):
                (folder / line.split('"')[1]).mkdir()
        self._written = 0
        self.flag = folder / "go"
        spark.udf.register("slept", slept, LongType())
        spark.udf.register("held", holding(self.flag), LongType())
        (folder / "pipeline.toml").write_text(pipeline)
        app = App.from_pipeline(Pipeline.read(folder / "pipeline.toml"), spark)
        self.run: Run = app.run(run_dir=folder / "run", **options)
        #: Answers before this moment are of no interest.
        self.marked_s = 0.0

    def write(self, n: int = 0, stream: str = "readings", *, rows: int = 1, at: str = "") -> None:
        """A file of rows appears at once."""
        self._written += 1
        stamp = f', "at": "{at}"' if at else ""
        hidden = self.folder / stream / f".{self._written}"
        hidden.write_text(f'{{"n": {n}{stamp}}}\n' * rows)
        hidden.rename(self.folder / stream / f"{self._written}.json")

    def row(self, name: str) -> QueryRow:
        return next(q for q in self.run.snapshot().queries if q.name == name)

    def running(self, name: str) -> float:
        """For how long (s) a job of the query has run; 0: none does."""
        number, jobs = self.row(name).number, self.run.snapshot().underway
        return max((job.for_s for job in jobs if number in job.queries), default=0.0)

    @contextmanager
    def answers(self, name: str = "fire") -> Iterator[None]:
        """What is written within is answered after it."""
        before = self.row(name).tuples
        yield
        until(lambda: self.row(name).tuples > before, f"{name} answers")

    def settle(self, name: str = "fire", stream: str = "readings", times: int = 3) -> None:
        """Lets jobs of a query become usual, and answers from here on count."""
        for _ in range(times):
            with self.answers(name):
                self.write(stream=stream)
        self.marked_s = self.run.elapsed_s

    def slow(self, name: str = "fire") -> list[SlowAnswer]:
        """The answers since the mark, as the command finds them, the worst first."""
        call(self.folder / "run", "why", {"query": name})
        found = why(self.folder / "run", name, most=1000).worst
        return [a for a in found if a.committed_ns / 1e9 >= self.marked_s]

    def worst(self, name: str = "fire") -> SlowAnswer:
        """The worst answer since the mark; its stages add up."""
        until(lambda: self.slow(name), "the answer is in the record")
        found = self.slow(name)[0]
        add_up(found)
        return found


def add_up(answer: SlowAnswer) -> None:
    stages = answer.stages_ms()
    inside = sum(ms for stage, ms in stages.items() if stage not in ("created", "delivered"))
    assert inside == answer.response_ms, stages
    assert sum(answer.lost().values()) == answer.whole_ns


def first(answer: SlowAnswer) -> Cause:
    return answer.causes()[0][0]


def shown(*command: str) -> list[str]:
    """What the command prints, line by line."""
    done = CliRunner().invoke(cli, list(command))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output.rstrip().splitlines()


def test_the_stages_of_an_answer_add_up(spark: SparkSession, tmp_path: Path) -> None:
    fire = query("fire", "SELECT n FROM readings WHERE n >= 0", goal_s=60)
    world = World(spark, tmp_path, HEAD.format(policy="planned") + files() + fire)
    folder = tmp_path / "run"
    with world.run:
        for _ in range(3):
            with world.answers():
                world.write(rows=10)
        call(folder, "why", {"query": "fire"})
        found = why(folder, "fire", most=10)
        assert (found.answers, found.missed, found.goal_s) == (30, 0, 60.0)
        assert [answer.tuples for answer in found.worst] == [10, 10, 10]
        for answer in found.worst:
            add_up(answer)
        lines = shown("why", str(folder), "fire", "--last", "5m")
        assert lines[0].startswith("fire   class alarm   goal 60 s   missed 0 of 30 answers in ")
        assert lines[-1] == "now: nothing waits"
        longest_s = max(answer.response_ns for answer in found.worst) / 1e9
        assert found.worst_s == pytest.approx(longest_s)
        with pytest.raises(ConfigError, match="choose from fire"):
            call(folder, "why", {"query": "smoke"})
    told = json.loads("\n".join(shown("why", str(folder), "fire", "--json")))
    assert told["now"] is None, "the run has ended"
    assert (told["query"], told["answers"]) == ("fire", 30)
    with pytest.raises(ConfigError, match="choose from fire"):
        why(folder, "smoke")
    with pytest.raises(ConfigError, match="outside what is recorded") as refused:
        why(folder, "fire", at="2h")
    borders = re.findall(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d", str(refused.value))
    assert len(borders) == 2
    for border in (*borders, *(border.split("T")[1] for border in borders)):
        # Whole seconds are printed, which for the start is a little too early.
        assert why(folder, "fire", at=border, last_s=600).worst == found.worst
    at = f"{found.at(found.worst[0].committed_ns):%H:%M:%S}"
    assert why(folder, "fire", at=at, last_s=10).worst[0] == found.worst[0]
    (folder / "record" / WAITS_FILE).rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match="an earlier Daybreak recorded it, it governs"):
        why(folder, "fire")


@pytest.mark.parametrize("policy", ["planned", "stride"])
def test_a_neighbour_that_overruns_is_named_first(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    hourly = query("hourly", "SELECT held(n) AS n FROM bulk", "report", goal_s=60)
    # Paused or not, the plan keeps the only worker free for a query with a short goal where a job
    # of the neighbour takes about as long: this goal leaves room for it on a slow machine as well.
    fire = query("fire", "SELECT n FROM readings WHERE n >= 0", goal_s=20)
    pipeline = HEAD.format(policy=policy) + files() + files("bulk") + fire + hourly
    world = World(spark, tmp_path, pipeline, workers=1)
    with world.run:
        world.settle("hourly", "bulk", times=6)
        world.settle()
        with world.answers():
            # Its row is in the log before the neighbour takes the only worker, which sources need.
            world.run.pause("hourly")
            world.write(1, "bulk")
            until(lambda: world.row("hourly").waiting, "the neighbour waits")
            world.run.pause("fire")
            world.write()
            until(lambda: world.row("fire").waiting, "the alarm waits")
            world.run.resume("hourly")
            until(lambda: world.running("hourly") > 0, "the neighbour runs")
            paused_s = world.row("fire").oldest_s
            world.run.resume("fire")
            lines = shown("why", str(tmp_path / "run"), "fire")
            assert any("runs hourly for" in line for line in lines), lines
            far_too_long_s = 4 + 3 * paused_s
            until(lambda: world.row("fire").oldest_s > far_too_long_s, "it waits far too long")
            world.flag.touch()
        answer = world.worst()
        assert first(answer) == "overrun", answer
        assert "hourly ran" in answer.wait[0].text
        assert "were expected" in answer.wait[0].text


# When the plan first blames itself depends on what it has measured by then: 13 s to a minute.
@pytest.mark.soak
def test_a_plan_that_is_too_slow_for_the_goal_is_named_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    steady = """
[streams.{name}]
format = "generator"
arrivals = {{ rate_per_s = 20 }}
"""
    slow = "SELECT slept(40 + reading - reading) AS n FROM {name}"
    pipeline = (
        HEAD.format(policy="planned") + steady.format(name="ones") + steady.format(name="twos")
        + query("alarm", slow.format(name="ones"), "alarm", goal_s=1)
        + query("fire", slow.format(name="twos"), "report", goal_s=1)
    )  # fmt: skip
    world = World(spark, tmp_path, pipeline, workers=1)
    with world.run:
        plan = {"turn", "unplanned"}
        texts = ("not served by plan", "too seldom for its goal")

        def blamed() -> bool:
            # The first waits are those of a plan that does not know yet what its jobs cost.
            late = [answer for answer in world.slow() if first(answer) in plan]
            return any(text in answer.wait[0].text for answer in late for text in texts)

        until(blamed, "an answer is late by its plan")


def test_a_slow_disk_is_named_first(spark: SparkSession, tmp_path: Path) -> None:
    fire = query("fire", "SELECT held(n) AS n FROM readings")
    world = World(spark, tmp_path, HEAD.format(policy="planned") + files() + fire)
    with world.run:
        world.settle(times=4)
        with world.answers():
            world.write(1)
            until(lambda: world.running("fire") > 0, "the job runs")
            with closing(sqlite3.connect(world.run.parts.storage.log.database.shown)) as other:
                other.execute("BEGIN IMMEDIATE")  # as a disk that does not come back with a sync
                world.flag.touch()
                # By the clock: the loop, which would say how long the job runs, may wait as well.
                back_s = time.monotonic() + DISK_S
                until(lambda: time.monotonic() > back_s, "the disk is back")
                other.rollback()
        answer = world.worst()
        assert first(answer) == "disk", answer
        assert answer.disk_ns > 10**9


def test_a_first_job_that_spark_plans_and_compiles_is_named_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    several = " + ".join(f"slept(n * {i})" for i in range(4))
    fire = query("fire", f"SELECT {several} AS n FROM readings")
    world = World(spark, tmp_path, HEAD.format(policy="planned") + files() + fire)
    with world.run:
        with world.answers():
            world.write()
        answer = world.worst()
        assert first(answer) == "compile", answer


def test_a_pause_is_named_first(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path, HEAD.format(policy="planned") + files() + FIRE)
    with world.run:
        world.settle()
        world.run.pause("fire")
        with world.answers():
            world.write()
            until(lambda: world.row("fire").oldest_s > 1.5, "it has waited for long")
            assert shown("why", str(tmp_path / "run"), "fire")[-1] == "now: paused; 1 row wait"
            world.run.resume("fire")
        answer = world.worst()
        assert first(answer) == "paused", answer


def test_a_source_that_is_late_is_named_first(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = HEAD.format(policy="planned") + files(more='time = "at"') + FIRE
    world = World(spark, tmp_path, pipeline)
    with world.run:
        with world.answers():
            made = datetime.now(UTC) - timedelta(minutes=30)
            world.write(at=made.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        answer = world.worst()
        assert first(answer) == "source", answer
        assert answer.stages_ms()["created"] >= 1_800_000


def test_rows_that_were_shed_are_named_first(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = (
        HEAD.format(policy="stride") + """
[shedding]
patience_s = 0.2
[streams.readings]
format = "generator"
arrivals = { rate_per_s = 600 }
[queries.slow]
class = "report"
sql = "SELECT slept(4 + reading - reading) AS n FROM readings"
sink = { format = "memory" }
"""
    )  # fmt: skip
    world = World(spark, tmp_path, pipeline, workers=1)
    with world.run:
        until(lambda: world.row("slow").lost > 500, "rows are shed", within_s=300)
        call(tmp_path / "run", "why", {"query": "slow"})
        found = why(tmp_path / "run", "slow")
        assert found.shed > 0
        assert found.causes[0][0] == "shed"
        lines = shown("why", str(tmp_path / "run"), "slow")
        assert "shed under overload: never answered" in lines[1]
