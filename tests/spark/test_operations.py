"""What an operator does while it runs: pause, resume, drop, register, switch the policy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from benchmarks.soaking.delta_reader import delta_rows
from tests.spark.windows.logs import declare as declare_by_hand
from tests.until import until

from daybreak.cli.main import main
from daybreak.model import Arrivals, ConfigError
from daybreak.model.limits import Limits
from daybreak.model.specs import SinkSpec
from daybreak.policies.registry import all_policies
from daybreak.report.run import loss_lines
from daybreak.runtime.control import call
from daybreak.spark.app import App
from daybreak.spark.control.protocol import COMMANDS
from daybreak.spark.failures import SinkUnavailable
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def declare(spark: SparkSession, rows: int = 400, rate_per_s: float = 400) -> App:
    app = App(spark, name="operated")
    app.query_class("high", 60)
    app.query_class("low", 10)
    app.stream(
        "readings",
        format="generator",
        options={"limit": rows},
        arrivals=Arrivals(rate_per_s=rate_per_s),
    )
    for name, cls in (("a", "high"), ("b", "low"), ("c", "low")):
        app.query(name, sql="SELECT reading FROM readings", cls=cls)
    return app


def readings(run: Run, query: str) -> list[int]:
    return sorted(run.rows(query)["reading"].to_pylist())


def stands(run: Run, query: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        q for q in call(run.folder, "snapshot")["queries"] if q["name"] == query
    )
    return found


def test_a_paused_query_waits_also_beyond_a_restart_and_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with declare(spark).run("fcfs", run_dir=folder) as run:
        run.pause("b")
        run.drain()
        before = len(readings(run, "b"))
        assert readings(run, "a") == readings(run, "c") == list(range(400))
        assert stands(run, "b")["state"] == "paused"
        assert stands(run, "b")["waiting"] == 400 - before > 0
    with declare(spark).run("stride", run_dir=folder) as run:
        run.drain()
        assert stands(run, "b")["state"] == "paused"
        assert readings(run, "b") == []
        run.resume("b")
        run.drain()
        assert readings(run, "b") == list(range(before, 400))
        assert stands(run, "b")["state"] == "running"


def declare_files(spark: SparkSession, source: Path) -> App:
    source.mkdir(exist_ok=True)
    app = App(spark, name="operated")
    app.query_class("high", 60)
    app.query_class("low", 10)
    app.stream("readings", format="json", schema="reading INT", path=str(source))
    for name, cls in (("a", "high"), ("b", "low"), ("c", "low")):
        app.query(name, sql="SELECT reading FROM readings", cls=cls)
    return app


def feed(run: Run, source: Path, first: int, last: int) -> None:
    lines = [json.dumps({"reading": n}) for n in range(first, last)]
    partial_file = source.parent / "partial"
    partial_file.write_text("\n".join(lines))
    partial_file.rename(source / f"{first}.json")
    run.drain()


def files(path: Path) -> SinkSpec:
    return SinkSpec(format="json", path=str(path))


def test_queries_come_and_go_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    folder, source = tmp_path / "run", tmp_path / "in"
    odd = "SELECT reading FROM readings WHERE reading % 2 = 1"
    with declare_files(spark, source).run("stride", run_dir=folder) as run:
        run.pause("c")  # keeps the segments, so that earliest means the first
        feed(run, source, 0, 100)
        run.register("late", odd, cls="high")
        run.register("all", odd, cls="low", start="earliest")
        run.drop("b")
        feed(run, source, 100, 200)
        assert readings(run, "all") == list(range(1, 200, 2))
        assert readings(run, "late") == list(range(101, 200, 2))
        assert readings(run, "b") == list(range(100)), "what it had delivered stays"
        with pytest.raises(ConfigError, match="query 'b': is not declared"):
            run.pause("b")
        with pytest.raises(ConfigError, match="is registered already"):
            run.register("late", odd, cls="high")
        run.register("filed", odd, cls="low", sink=files(tmp_path / "out"))
        for path, finding in (
            (tmp_path / "out/_staging", "is named _staging"),
            (tmp_path / "in/../out/deep", "lies in that of query 'filed'"),
            (source / "out", "lies in the source of stream 'readings'"),
            (folder / "out", "lies in the run directory"),
        ):
            with pytest.raises(ConfigError, match=finding):
                run.register("overlaps", odd, cls="low", sink=files(path))
        run.drop("filed")
        run.register("heir", odd, cls="low", sink=files(tmp_path / "out"))
        run.resume("c")
        run.drain()
        assert readings(run, "c") == list(range(200))
    assert run.report().by_query()["all"].count == 200
    # The registered ones are there again; a dropped one that is declared begins anew.
    with declare_files(spark, source).run("fcfs", run_dir=folder) as run:
        feed(run, source, 200, 250)
        assert readings(run, "all") == readings(run, "late") == list(range(201, 250, 2))
        assert readings(run, "b") == list(range(200, 250))
        run.drop("late")
        run.register("late", "SELECT -reading AS reading FROM readings", cls="low")
        feed(run, source, 250, 260)
        assert readings(run, "late") == list(range(-259, -249))
        assert readings(run, "all") == list(range(201, 260, 2))


def test_a_result_that_a_dropped_query_owed_does_not_reach_its_successor(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its sink refused it; a query of the same name has another sink, also after a restart."""
    folder, source = tmp_path / "run", tmp_path / "in"

    def refuse(_rows: pa.Table, _key: str) -> None:
        raise ConnectionError("database is away")

    app = declare_files(spark, source)
    app.query("owing", sql="SELECT reading FROM readings", cls="low", sink=refuse)
    limits = Limits(retries=0)
    with app.run("fcfs", run_dir=folder, limits=limits, on_failure="report") as run:
        feed(run, source, 0, 10)
        assert run.failures.keys() == {"owing"}
        run.drop("owing")
        run.register("owing", "SELECT -reading AS reading FROM readings", cls="low")
        feed(run, source, 10, 20)
        assert readings(run, "owing") == list(range(-19, -9))
    with declare_files(spark, source).run("fcfs", run_dir=folder) as run:
        assert len(run.parts.accepted.recovered.orphaned) == 1
        feed(run, source, 20, 30)
        assert readings(run, "owing") == list(range(-29, -19))


def test_one_result_that_a_sink_refuses_is_given_up_and_the_next_arrive(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the sink took is not lost, nor is anything in an outage."""
    folder, source = tmp_path / "run", tmp_path / "in"
    found: list[int] = []
    outage = [False]

    def picky(rows: pa.Table, _key: str) -> None:
        if outage[0]:
            raise SinkUnavailable("it is away")
        numbers = rows["reading"].to_pylist()
        if 5 in numbers or 15 in numbers:
            raise ValueError("no such value")
        found.extend(numbers)

    def declared() -> App:
        app = declare_files(spark, source)
        app.query("picky", sql="SELECT reading FROM readings", cls="low", sink=picky)
        return app

    def waits_for(run: Run, error: str) -> None:
        until(lambda: error in (stands(run, "picky")["error"] or ""))

    limits = Limits(retries=0)
    with declared().run("fcfs", run_dir=folder, limits=limits, on_failure="report") as run:
        feed(run, source, 0, 10)
        assert stands(run, "picky")["state"] == "parked"
        run.resume("picky")
        until(lambda: stands(run, "picky")["state"] == "parked")
        with pytest.raises(SystemExit, match="0"):
            main(["resume", str(folder), "picky", "--skip"])
        assert "10 rows were given up" in capsys.readouterr().out
        assert stands(run, "picky")["losses"] == {"refused": 10}
        feed(run, source, 20, 30)
        assert found == list(range(20, 30))
        feed(run, source, 10, 20)
        outage[0] = True
    with declared().run("fcfs", run_dir=folder, limits=limits, on_failure="report") as run:
        waits_for(run, "it is away")
        assert run.resume("picky", skip=True) == 0, "in an outage nothing is given up"
        outage[0] = False
        waits_for(run, "no such value")
        assert run.resume("picky", skip=True) == 10
        feed(run, source, 30, 40)
        assert sorted(found) == list(range(20, 40))
        until(lambda: not run.parts.storage.log.undelivered())
    assert "query picky: 20 rows were given up (refused)" in loss_lines(run.report())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [(e["rows"], e["why"]) for e in events if e["event"] == "gave-up"] == [
        (10, "refused"), (10, "refused"),
    ]  # fmt: skip


def test_two_run_directories_do_not_share_a_sinks_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, sql = tmp_path / "in", "SELECT reading FROM readings"

    def declared(*formats: str) -> App:
        app = declare_files(spark, source)
        for form in formats:
            sink = SinkSpec(format=form, path=str(tmp_path / f"out-{form}"))
            app.query(form, sql=sql, cls="low", sink=sink)
        return app

    later = SinkSpec(format="json", path=str(tmp_path / "later"))
    with declared("parquet", "delta").run("fcfs", run_dir=tmp_path / "one") as run:
        run.register("late", sql, cls="low", sink=later)
        feed(run, source, 0, 10)
        for form in ("parquet", "delta"):
            with pytest.raises(ConfigError, match=f"out-{form} belongs to the run in .*/one, proc"):
                declared(form).run("fcfs", run_dir=tmp_path / form)
        with declare_files(spark, source).run("fcfs", run_dir=tmp_path / "two") as other:
            with pytest.raises(ConfigError, match=r"later belongs to the run in .*/one, process"):
                other.register("late", sql, cls="low", sink=later)
            run.drop("late")
            other.register("late", sql, cls="low", sink=later)
    assert len(delta_rows(tmp_path / "out-delta", "reading")) == 10
    with declared("parquet", "delta").run("fcfs", run_dir=tmp_path / "one") as run:
        feed(run, source, 10, 20)
    assert len(delta_rows(tmp_path / "out-delta", "reading")) == 20


def further(run: Run, reached: int) -> bool:
    return len(readings(run, "a")) > min(reached, 599)


@pytest.mark.parametrize("first", ["stride", "fas-mcq"])
def test_every_policy_can_take_over_from_any_other(
    spark: SparkSession, tmp_path: Path, first: str
) -> None:
    """In the midst of work: jobs of the old one are under way."""
    usable = [name for name, p in all_policies().items() if p.on_spark]
    with declare(spark, rows=600, rate_per_s=300).run(first, run_dir=tmp_path / "run") as run:
        run.pause("b")
        for policy in usable:
            reached = len(readings(run, "a"))
            until(partial(further, run, reached))
            run.set_policy(policy)
            assert run.policy.name == policy
        run.resume("b")
        run.drain()
        for query in "abc":
            assert readings(run, query) == list(range(600)), query
    assert [c["subject"] for c in run.changes if c["what"] == "policy"] == usable


@pytest.fixture
def daybreak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """A command as its user calls it, but in this process: exit code, output and errors."""

    def call_it(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["daybreak", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return call_it


def test_the_commands_reach_a_run(
    spark: SparkSession, tmp_path: Path, daybreak: Callable[..., tuple[int, str, str]]
) -> None:
    folder = str(tmp_path / "run")
    with declare(spark, rows=100).run("fcfs", run_dir=folder) as run:
        elsewhere = subprocess.run(
            [sys.executable, "-m", "daybreak", "pause", folder, "a", "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(elsewhere.stdout)["state"] == "paused"
        code, _, said = daybreak(
            "set", folder, "class.low=50", "query.a.class=low", "query.a.weight=0.25",
            'policy=stride {"train": 7}', "--json",
        )  # fmt: skip
        assert code == 0, said
        assert run.policy.parameters["train"] == 7
        told = json.loads(daybreak("queries", folder, "--json")[1])
        assert {c["name"]: c["priority"] for c in told["classes"]} == {"high": 60, "low": 50}
        assert told["policy"] == "stride"
        first = told["queries"][0]
        assert (first["name"], first["cls"], first["weight"]) == ("a", "low", 0.25)
        followed = ("query.a.subscribers=5", "query.b.subscribers=20")
        assert daybreak("set", folder, *followed)[0] == 0
        told = json.loads(daybreak("queries", folder, "--json")[1])
        assert [q["weight"] for q in told["queries"][:2]] == [0.25, 1.0]
        assert "paused" in daybreak("queries", folder)[1]
        story = daybreak("queries", folder, "--story", "a")[1].splitlines()
        assert any(line.endswith("> SetSubscribers count=5") for line in story)
        told = json.loads(daybreak("queries", folder, "--story", "a", "--json")[1])
        assert told["lines"][0]["what"] in ("Started", "SegmentArrived")
        assert daybreak("resume", folder, "a")[1] == "query a is running\n"
        declared = ("--sql", "SELECT station FROM readings", "--class", "low", "--sink", "memory")
        assert daybreak("register", folder, "d", *declared)[0] == 0
        assert daybreak("drop", folder, "d")[1] == "query d is dropped\n"
        for args, expected in (
            (("pause", folder, "aa"), "is not declared"),
            (("queries", folder, "--story", "aa"), "is not declared; did you mean 'a'?"),
            (("set", folder, "class.low=x"), "no number"),
            (("set", folder, "nothing"), "is not understood"),
            (("set", folder, "query.a.subscribers=1.5"), "give a whole number"),
            (("set", folder, "policy=taat"), "makes no sense on Spark"),
            (("register", folder, "e", "--sql", "SELEC 1", "--class", "low"), "query 'e'"),
        ):
            code, _, said = daybreak(*args)
            assert code == 2, args
            assert expected in said.replace("\n", " ")
        run.drain()
    code, _, said = daybreak("queries", folder)
    assert code == 2
    assert "no run is there now" in said


def test_a_query_without_capacity_is_judged_refused_or_forced(
    spark: SparkSession, tmp_path: Path, daybreak: Callable[..., tuple[int, str, str]]
) -> None:
    folder = str(tmp_path / "run")
    declared = ("d", "--sql", "SELECT station FROM readings", "--class", "low", "--sink", "memory")
    nothing_left = Limits(admit_load=1e-9)
    app = declare(spark, rows=100_000, rate_per_s=200)
    with app.run("fcfs", run_dir=folder, limits=nothing_left) as run:
        until(lambda: run.parts.inflow.rates.per_s("readings") > 0)
        code, said, _ = daybreak("register", folder, *declared, "--dry-run")
        assert code == 0
        assert "query d is not registered" in said
        assert "too much" in said
        verdict = json.loads(daybreak("register", folder, *declared, "--dry-run", "--json")[1])
        assert verdict["admission"]["admitted"] is False
        assert verdict["admission"]["after"] >= verdict["admission"]["load"] > 0
        code, _, said = daybreak("register", folder, *declared)
        assert code == 2
        assert "is not admitted" in said.replace("\n", " ")
        assert "--force" in said.replace("\n", " ")
        names = [q["name"] for q in call(run.folder, "snapshot")["queries"]]
        assert names == ["a", "b", "c"], "neither judging nor refusing registers it"
        assert "d" not in run.parts.storage.log.queries()
        code, said, _ = daybreak("register", folder, *declared, "--force")
        assert code == 0
        assert "query d is running" in said
        until(lambda: stands(run, "d")["tuples"] > 0)
    assert [c["subject"] for c in run.changes if c["what"] == "registered"] == ["d"]


def test_no_request_does_harm(spark: SparkSession, tmp_path: Path) -> None:
    wrong: list[Any] = [None, 7, "zz", [], {}, {"name": "x"}, True, float("nan")]
    with declare(spark, rows=50).run("fcfs", run_dir=tmp_path / "run") as run:
        for name, command in COMMANDS.items():
            for value in wrong:
                if not command.needs:
                    continue
                with pytest.raises(ConfigError):
                    call(run.folder, name, dict.fromkeys(command.needs, value))
            with pytest.raises(ConfigError):
                call(run.folder, name, {"unheard": 1})
        for value in (float("nan"), float("inf"), -(10**400)):
            with pytest.raises(ConfigError, match="give a number"):
                call(run.folder, "snapshot", {"jobs_after": value})
            with pytest.raises(ConfigError, match="give a number"):
                call(run.folder, "set-query", {"query": "a", "subscribers": value})
        run.drain()
        assert readings(run, "a") == list(range(50))


def test_a_query_over_a_view_that_is_not_computed_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = declare_by_hand(spark)
    app.view("calm", sql="SELECT n, v FROM a WHERE v < 10")
    app.query("q", sql="SELECT n FROM a")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        with pytest.raises(ConfigError, match="'calm', which is not computed: no declared query"):
            run.register("late", "SELECT n FROM calm")
        assert run.register("direct", "SELECT n FROM a WHERE v < 10").admitted
