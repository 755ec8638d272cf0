"""The engine against the batch oracle: the same rows, whatever the policy and the trains."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from daybreak.model import Arrivals, ConfigError
from daybreak.model.limits import Limits
from daybreak.policies.base import Change
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.runtime.starts import load_run
from daybreak.simulation.whatif import Wanted, what_if
from daybreak.spark.app import App
from daybreak.spark.run import Run
from daybreak.spark.tasks.prepared.plans import SWITCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 600
SQL = {
    "filter": "SELECT reading, station FROM readings WHERE temperature > 30 AND humidity < 40",
    "expressions": "SELECT reading, upper(concat('s', station)) AS s, wind * 1.852D AS kmh, "
    "CASE WHEN wind > 60 THEN 'storm' END AS note FROM readings",
    "union": "SELECT reading, 'a' AS src FROM readings WHERE district = 1 UNION ALL "
    "SELECT reading, 'b' AS src FROM others WHERE district = 2",
    "static": "SELECT r.reading, d.name FROM readings r JOIN districts d "
    "ON r.district = d.district WHERE r.temperature > 25",
    "static_too": "SELECT reading, concat(name, station) AS both, 100 / (wind - 7) AS risky "
    "FROM readings r JOIN districts d ON r.district = d.district WHERE wind <> 7",
    "exploded": "SELECT reading, part FROM readings LATERAL VIEW explode(array(1, wind)) t AS part "
    "WHERE district = 3",
    "everything": "SELECT * FROM readings",
    "all_others": "SELECT * FROM others",
}


def declare(spark: SparkSession, rows: int = ROWS) -> App:
    spark.createDataFrame(
        [(i, f"d{i}") for i in range(0, 12, 2)], "district INT, name STRING"
    ).createOrReplaceTempView("districts")
    app = App(spark, name="oracle")
    app.query_class("high", 60, [[0, 1], [1, 1], [2, 0]])
    app.query_class("low", 10)
    for name, seed in (("readings", 1), ("others", 2)):
        app.stream(
            name,
            format="generator",
            options={"seed": seed, "limit": rows},
            arrivals=Arrivals(rate_per_s=rows / 1.5),
        )
    for name, sql in SQL.items():
        app.query(name, sql=sql, cls="high" if name == "filter" else "low")

    @app.query(cls="low")
    def windy(readings: DataFrame) -> DataFrame:
        return readings.where("wind > 50").selectExpr("reading", "wind")

    return app


def bag(table: pa.Table | None) -> Counter[str]:
    """Rows without their order."""
    found = [] if table is None else table.to_pylist()
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in found)


#: Rows that were ingested, and what each query gives as one batch over them.
Batches = dict[tuple[bytes, ...], dict[str, Counter[str]]]


@pytest.fixture(scope="module")
def batches() -> Batches:
    """Most runs ingest the same rows: what they should give is computed once."""
    return {}


def batch(spark: SparkSession, run: Run, known: Batches) -> dict[str, Counter[str]]:
    """The same queries, each as one batch over all rows that were ingested."""
    rows: dict[str, Any] = {
        "readings": run.rows("everything").sort_by("reading"),
        "others": run.rows("all_others").sort_by("reading"),
    }
    key = tuple(sha256(repr(data.to_pylist()).encode()).digest() for data in rows.values())
    if key in known:
        return known[key]
    session = spark.newSession()
    schemas = run.parts.accepted.catalog.application.schemas
    frames = {name: session.createDataFrame(data, schemas[name]) for name, data in rows.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    spark.table("districts").createOrReplaceGlobalTempView("districts")
    session.table("global_temp.districts").createOrReplaceTempView("districts")
    known[key] = {name: bag(session.sql(sql).toArrow()) for name, sql in SQL.items()}
    windy = frames["readings"].where("wind > 50").selectExpr("reading", "wind")
    known[key]["windy"] = bag(windy.toArrow())
    return known[key]


def test_who_can_run_together_is_told_beforehand(spark: SparkSession) -> None:
    together = declare(spark).check().together()
    assert together["static"] == ["static_too"]
    assert together["everything"] == ["expressions"]
    assert together["filter"] == [], "it is of another class"
    assert together["all_others"] == [], "it reads another stream"
    assert together["union"] == together["windy"] == []


@pytest.mark.parametrize(
    ("policy", "train", "rider_bound_s", "few_rows", "express"),
    [
        *(
            (name, i * 150, 0.1, None, i % 2)
            for i, (name, p) in enumerate(all_policies().items())
            if p.on_spark
        ),
        ("round-robin", 5, 0.1, None, 0),
        ("stride", 100, 0.0, None, 0),
        ("stride", 0, 0.1, 50, 0),
        ("stride", 0, 0.1, 10**6, 0),
    ],
)
def test_every_query_gives_the_rows_of_the_batch(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    train: int,
    rider_bound_s: float,
    few_rows: int | None,
    express: int,
    batches: Batches,
) -> None:
    """With compositing, and without it (a bound of 0); without jobs, with jobs on rows in memory,
    and with jobs on rows in files; with a worker for the highest class alone, and without."""
    if few_rows is not None:
        monkeypatch.setenv(SWITCH, "1")
        monkeypatch.setattr("daybreak.spark.tasks.worker_session.FEW_ROWS", few_rows)
    rows = (
        60 if train == 5 else ROWS // 2 if not rider_bound_s else ROWS
    )  # else there are many jobs
    chosen = make_policy_with(policy, train=train)
    app = declare(spark, rows)
    folder = tmp_path / "run"
    with app.run(chosen, run_dir=folder, rider_bound_s=rider_bound_s, express=express) as run:
        run.drain()
    jobs = pq.read_table(tmp_path / "run/record/jobs.parquet")
    for kind in (("filter", "expressions", "everything", "all_others"), ("static", "static_too")):
        mine = jobs.filter(pc.field("query").isin(kind))
        assert (max(mine["together"].to_pylist()) > 1) == (rider_bound_s > 0), kind
    for everything in ("everything", "all_others"):
        table = run.rows(everything)
        assert table is not None
        assert sorted(table["reading"].to_pylist()) == list(range(rows)), "lost or doubled"
    for name, expected in batch(spark, run, batches).items():
        assert bag(run.rows(name)) == expected, name
    assert not run.failures
    report = run.report()
    assert report.by_query()["filter"].count == rows, "every tuple is answered once"
    assert report.spent.idle_ns >= 0


def test_files_read_by_structured_streaming_reach_file_sinks(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for part in range(3):
        lines = [json.dumps({"n": part * 10 + i, "t": i}) for i in range(10)]
        (source / f"{part}.json").write_text("\n".join(lines))
    app = App(spark, name="files", folder=tmp_path)
    options = {"maxFilesPerTrigger": 1}
    app.stream("readings", format="json", schema="n INT, t INT", path="in", options=options)
    for kind in ("parquet", "json", "csv"):
        app.query(
            kind,
            sql="SELECT n, t * 2 AS double FROM readings WHERE t > 4",
            sink={"format": kind, "path": f"out/{kind}"},
        )
    for start in range(2):  # the second start finds everything done
        with app.run("fcfs", run_dir=tmp_path / "run") as run:
            run.drain()
        assert run.report().overall().count == (90 if start == 0 else 0)
    expected = sorted((n, n % 10 * 2) for n in range(30) if n % 10 > 4)
    found = pq.read_table(tmp_path / "out/parquet").to_pylist()
    assert sorted((r["n"], r["double"]) for r in found) == expected
    for kind in ("json", "csv"):
        frame = spark.read.option("header", True).format(kind).load(str(tmp_path / "out" / kind))
        assert sorted((int(r["n"]), int(r["double"])) for r in frame.collect()) == expected


def test_what_changes_while_it_runs_holds_at_the_next_schedule(
    spark: SparkSession, tmp_path: Path
) -> None:
    policy = make_policy_with("stride")
    seen: list[str] = []
    told = policy.on_change

    def on_change(change: Change, now_ns: int) -> None:
        seen.append(change.what)
        told(change, now_ns)

    policy.__dict__["on_change"] = on_change
    with declare(spark).run(policy, run_dir=tmp_path / "run") as run:
        run.change_class_priority("low", 90)
        assert (
            run.parts.keeping.figures.view.class_priority[
                run.parts.accepted.catalog.application.network.class_index["low"]
            ]
            == 90
        )
        run.assign_class("union", "high")
        run.set_weight("filter", 0.5)
        for wrong in (
            partial(run.change_class_priority, "lwo", 1),
            partial(run.change_class_priority, "low", 0),
            partial(run.assign_class, "union", "higher"),
            partial(run.set_weight, "filter", 2),
        ):
            with pytest.raises(ConfigError):
                wrong()
        run.drain()
    assert seen == ["class-priority", "query-class", "weight"]
    report = run.report()
    assert report.classes[report.query_class[report.queries.index("union")]] == "high"
    assert [c["what"] for c in report.manifest["changes"]] == seen


def test_a_priority_change_moves_the_shares_of_time(spark: SparkSession, tmp_path: Path) -> None:
    """Under stride and lasting work, the class that is raised gets the larger share."""
    app = App(spark, name="shares")
    app.query_class("a", 1)
    app.query_class("b", 1)
    arrivals = Arrivals(rate_per_s=400)
    app.stream("readings", format="generator", options={"limit": 2000}, arrivals=arrivals)
    for i in range(6):
        app.query(f"q{i}", sql="SELECT reading FROM readings", cls="ab"[i % 2])
    with app.run("stride", run_dir=tmp_path / "run", workers=1) as run:
        run.change_class_priority("a", 8)
        run.drain()
    summary = run.report().by_class()
    assert summary["a"].mean_s < summary["b"].mean_s


@pytest.mark.parametrize(("workers", "express"), [(0, 1), (2, -1)])
def test_a_run_needs_workers(
    spark: SparkSession, tmp_path: Path, workers: int, express: int
) -> None:
    with pytest.raises(ConfigError, match="at least one worker"):
        declare(spark).run(run_dir=tmp_path / "run", workers=workers, express=express)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("policy", "workers", "threads"), [("stride", None, 2), ("planned", None, 3), ("planned", 2, 2)]
)
def test_planned_has_a_thread_more_unless_told_otherwise(
    spark: SparkSession, tmp_path: Path, policy: str, workers: int | None, threads: int
) -> None:
    with declare(spark, rows=10).run(policy, run_dir=tmp_path / "run", workers=workers) as run:
        run.drain()
    assert run.report().manifest["workers"] == threads


@pytest.mark.parametrize("express", [0, 1])
def test_a_failing_query_is_parked_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path, express: int
) -> None:
    """Also one whose jobs an express worker runs."""
    app = declare(spark, rows=200)
    app.query("broken", sql="SELECT 1 / (reading % 2) AS x FROM readings", cls="high")
    soon = Limits(retries=2, retry_s=0.05)
    folder = tmp_path / "run"
    with app.run("fcfs", run_dir=folder, express=express, on_failure="report", limits=soon) as run:
        run.drain()
    assert list(run.failures) == ["broken"]
    assert "DIVIDE_BY_ZERO" in run.failures["broken"]
    assert run.rows("everything").num_rows == 200
    nothing = run.rows("broken")
    assert (nothing.num_rows, nothing.schema) == (0, pa.schema([("x", pa.float64())]))
    assert run.report().manifest["failures"].keys() == {"broken"}


def test_a_sink_that_fails_parks_its_query_and_the_next_start_delivers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The result was committed before: it is neither lost nor computed again."""
    got: list[tuple[str, list[int]]] = []
    works = [False]

    def fragile(rows: pa.Table, key: str) -> None:
        if not works[0]:
            raise OSError("no space left")
        got.append((key, rows["reading"].to_pylist()))

    def app() -> App:
        made = App(spark, name="fragile")
        made.stream("readings", format="generator", options={"limit": 100})
        made.query("fragile", sql="SELECT reading FROM readings", sink=fragile)
        made.query("solid", sql="SELECT reading FROM readings")
        return made

    with app().run("fcfs", run_dir=tmp_path / "run", on_failure="report") as run:
        run.drain()
    assert run.failures == {"fragile": "OSError: no space left"}
    assert run.rows("solid").num_rows == 100
    answered = run.report().overall().count
    works[0] = True
    with app().run("fcfs", run_dir=tmp_path / "run") as run:
        run.drain()
    assert not run.failures
    # The record of the first start is still there, and a report covers both.
    assert 0 < answered < 200
    assert load_run(tmp_path / "run").overall().count == 200
    assert sorted(n for _, rows in got for n in rows) == list(range(100))
    assert len({key for key, _ in got}) == len(got)


def test_a_recorded_run_can_be_replayed_under_another_policy(
    spark: SparkSession, tmp_path: Path
) -> None:
    with declare(spark, rows=300).run("stride", run_dir=tmp_path / "run") as run:
        run.drain()
    result = what_if(tmp_path / "run", [Wanted("fcfs"), Wanted("round-robin")])
    recorded, *replays = [outcome.report for outcome in result.outcomes]
    assert [r.manifest["policy"] for r in replays] == ["stride", "fcfs", "round-robin"]
    jobs = pq.read_table(tmp_path / "run/record/jobs.parquet")
    for again in replays:
        assert {n: s.count for n, s in again.by_query().items()} == {
            n: s.count for n, s in recorded.by_query().items()
        }
        rows = dict(zip(again.boxes["box"], again.boxes["tuples_out"], strict=True))
        for name in ("filter", "everything"):
            mine = [j["rows"] for j in jobs.to_pylist() if j["query"] == name]
            assert rows[name] == sum(mine), "the same tuples pass"
    assert sum(replays[0].boxes["work_ns"]) == pytest.approx(
        sum(jobs["cost_ns"].to_pylist()), rel=0.9
    )
    assert 1.0 <= result.calibration.worst < 1000.0
    assert not result.capped


def test_a_changed_query_is_refused_unless_reset(spark: SparkSession, tmp_path: Path) -> None:
    def app(sql: str) -> App:
        made = App(spark, name="changing")
        made.stream("readings", format="generator", options={"limit": 20})
        made.query("q", sql=sql)
        return made

    with app("SELECT reading FROM readings").run("fcfs", run_dir=tmp_path / "run") as run:
        run.drain()
    changed = app("SELECT station FROM readings")
    with pytest.raises(ConfigError, match="--reset-query q"):
        changed.run("fcfs", run_dir=tmp_path / "run")
    with changed.run("fcfs", run_dir=tmp_path / "run", reset=["q"]) as run:
        run.drain()


@pytest.mark.parametrize(
    ("sql", "finding"),
    [
        ("SELECT reading FRM readings", "line 1"),
        ("SELECT nothing FROM readings", "nothing"),
        ("SELECT * FROM raedings", "did you mean 'readings'"),
        ("SELECT DISTINCT station FROM readings", "DISTINCT"),
        ("SELECT * FROM readings LIMIT 5", "LIMIT"),
        ("SELECT * FROM readings ORDER BY at", "ORDER BY"),
        ("SELECT station, count(*) AS n FROM readings GROUP BY station", "GROUP BY"),
        ("SELECT reading, rand() AS r FROM readings", "rand"),
        ("SELECT reading, current_timestamp() AS now FROM readings", "current_timestamp"),
    ],
)
def test_queries_that_would_depend_on_batching_are_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, sql: str, finding: str
) -> None:
    app = declare(spark)
    app.query("bad", sql=sql)
    with pytest.raises(ConfigError, match=finding) as caught:
        app.run("fcfs", run_dir=tmp_path / "run")
    assert caught.value.remedy
    assert not (tmp_path / "run").exists()


def test_other_mistakes_are_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    def refused(app: App, finding: str, policy: str = "fcfs") -> None:
        with pytest.raises(ConfigError, match=finding):
            app.run(policy, run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    app = declare(spark)
    app.query("lost", sql="SELECT * FROM readings", cls="hihg")
    refused(app, "did you mean 'high'")
    app = declare(spark)
    app.query("nowhere", cls="low", sql="SELECT * FROM readings", sink={"format": "parquet"})
    refused(app, "path is missing")
    for inside, finding in (("run/out", "lies in the run directory"), (".", "holds the run")):
        app = declare(spark)
        sink = {"format": "json", "path": str(tmp_path / inside)}
        app.query("inside", cls="low", sql="SELECT * FROM readings", sink=sink)
        refused(app, finding)
    app = declare(spark)
    app.stream("more", format="json", schema="a INT", path=str(tmp_path / "missing"))
    refused(app, "does not exist")
    refused(declare(spark), "is not registered", policy="fsfc")
    with pytest.raises(ConfigError, match="rises"):
        declare(spark).query("q", sql="SELECT * FROM readings", qos=[[0, 1], [1, 0.1], [2, 0.5]])


def test_a_decorator_needs_no_parentheses_and_everything_shows_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App(spark, name="shown <b>")
    app.stream("readings", format="generator", options={"limit": 20})

    @app.query
    def hot(readings: DataFrame) -> DataFrame:
        return readings.select("reading")

    @app.query("cold", cls="default")
    def other(readings: DataFrame) -> DataFrame:
        return readings.select("reading")

    assert callable(hot)
    assert callable(other)
    assert repr(app) == "<App shown <b>: 1 stream, 2 queries>"
    assert "<td>hot</td>" in app._repr_html_()
    assert "shown &lt;b&gt;" in app._repr_html_()
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.drain()
        assert repr(run).startswith("<Run shown <b> under fcfs: running for ")
        assert repr(run).endswith(", 2 queries>")
        assert "<td>hot</td><td>default</td><td>running</td>" in run._repr_html_()
    assert repr(run).startswith("<Run shown <b> under fcfs: stopped after ")
    assert repr(run.report()).startswith("<RunReport shown <b> under fcfs: ")
    assert ", 2 queries, 40 answers, mean " in repr(run.report())
    assert "<th>answers</th>" in run._repr_html_()
    rows = run.rows("hot")
    assert rows is not None
    assert rows.num_rows == 20
