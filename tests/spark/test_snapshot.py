"""A run's snapshot: in its process, through its socket, and from its record."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.until import until

from daybreak.model import Arrivals
from daybreak.runtime.control import call
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_same_run_is_told_alive_by_socket_and_from_its_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App(spark, name="watched")
    app.query_class("high", 60, qos=[[0, 1.0], [0.5, 1.0], [1.5, 0.0]])
    app.query_class("low", 10)
    app.stream(
        "readings",
        format="generator",
        options={"limit": 900},
        arrivals=Arrivals(rate_per_s=300),
    )
    app.view("even", sql="SELECT reading FROM readings WHERE reading % 2 = 0")
    app.query("a", sql="SELECT reading FROM readings", cls="high")
    app.query("b", sql="SELECT reading FROM readings WHERE reading < 9", cls="high")
    app.query("c", sql="SELECT reading FROM even", cls="low")
    folder = tmp_path / "run"
    with app.run("stride", run_dir=folder) as run:
        run.change_class_priority("low", 20)
        call(folder, "set-query", {"query": "a", "weight": 0.5})
        run.drain()
        answers = 900 * 3 + 450
        until(lambda: sum(c.answered for c in run.snapshot().classes) >= answers, "all answers")
        alive = run.snapshot()
        told = call(folder, "snapshot")
        read = Snapshot.from_json(told)
        assert json.loads(json.dumps(read.to_json())) == told
        newer = call(folder, "snapshot", {"jobs_after": read.jobs[-2].seq, "points_after": 10**9})
        assert [job[0] for job in newer["jobs"]] == [read.jobs[-1].seq]
        assert newer["points"] == []
    assert {(q.name, q.cls, q.reads, q.view) for q in alive.queries} == {
        ("a", "high", ("readings",), None),
        ("b", "high", ("readings",), None),
        ("c", "low", ("even",), None),
        ("view even", "low", ("readings",), "even"),
    }
    by_name = {q.name: q for q in alive.queries}
    assert (by_name["b"].tuples, by_name["b"].rows, by_name["b"].selectivity > 0) == (900, 9, True)
    assert {(s.name, s.view, s.arrived) for s in alive.streams} == {
        ("readings", False, 900),
        ("even", True, 450),
    }
    number = by_name["a"].number
    assert sum(j.tuples for j in alive.jobs if number in j.queries) == 900
    assert any(len(j.queries) > 1 for j in alive.jobs), "some were composited"
    assert [(c.what, c.subject, c.was, c.now, c.by) for c in read.changes] == [
        ("class-priority", "low", 10.0, 20.0, "program"),
        ("weight", "a", 1.0, 0.5, "control socket"),
    ]
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    audit = [(e["what"], e["by"]) for e in lines if e["event"] == "change"]
    assert audit == [("class-priority", "program"), ("weight", "control socket")]

    ended = snapshot_of_record(folder)
    assert ended.state == "ended"
    assert Snapshot.from_json(json.loads(json.dumps(ended.to_json()))) == ended
    assert [(c.name, c.answered) for c in ended.classes] == [
        (c.name, c.answered) for c in alive.classes
    ]
    exact = run.report().by_class()["high"]
    assert ended.classes[0].recent.p95_s == pytest.approx(exact.percentiles_s[95], abs=1e-6)
    assert ended.classes[0].recent.utility == pytest.approx(exact.utility, abs=1e-4)
    same = [[(j.queries, j.tuples, j.rows) for j in s.jobs] for s in (alive, ended)]
    assert same[0] == same[1]
    by_worker = sorted((j.worker, j.begin_s, j.end_s) for j in alive.jobs)
    for (worker, _, end_s), (next_worker, begin_s, _) in pairwise(by_worker):
        assert worker != next_worker or end_s <= begin_s + 0.01, "one job after the other"
    assert set(ended.edges) >= {e._replace(waiting=0) for e in alive.edges}
    assert ended.changes == read.changes
    points = [p.classes[0] for p in ended.points]
    assert sum(p.answered for p in points) == alive.classes[0].answered
    stale = run.report().staleness[run.parts.accepted.catalog.application.network.query_index["c"]]
    assert ended.queries[2].name == "c"
    assert ended.queries[2].staleness == pytest.approx(stale, abs=1e-4)
    assert ended.points[-1].classes[1].staleness == pytest.approx(
        ended.classes[1].recent.staleness, abs=1e-3
    )
