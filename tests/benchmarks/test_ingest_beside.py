"""The filters and the backfill are judged by their rules, over rows that are counted one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.beside.measuring import Backfill
from benchmarks.beside.workload import HISTORY, KEPT, Beside, critical, release, write_history
from benchmarks.ingest_beside import ALONE, alone, beside, judge, steps_of

FORMS = (1, 1000)


def records(**changed: dict[str, Any]) -> list[dict[str, Any]]:
    """Three rounds in which every goal is reached."""
    figures = {
        ALONE: {"p95_s": 0.1, "wrong": 0},
        **{alone(form): {"duration_s": 10.0, "wrong": 0} for form in FORMS},
        **{beside(form): {"p95_s": 0.13, "duration_s": 15.0, "wrong": 0} for form in FORMS},
    }
    return [
        {"round": turn, "step": step, **found, **changed.get(step, {})}
        for turn in (1, 2, 3)
        for step, found in figures.items()
    ]


def test_figures_that_are_good_hold() -> None:
    verdicts = judge(records(), FORMS)
    assert len(verdicts) == 5
    assert all(verdict.holds for verdict in verdicts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "goal"),
    [({"p95_s": 0.131}, "p95"), ({"duration_s": 15.1}, "the backfill"), ({"wrong": 1}, "nothing")],
)
def test_a_figure_that_misses_its_goal_is_found(
    form: int, change: dict[str, Any], goal: str
) -> None:
    [missed] = [v for v in judge(records(**{beside(form): change}), FORMS) if not v.holds]
    assert goal in missed.goal


def test_a_step_that_failed_or_is_missing_is_a_miss() -> None:
    assert not judge([], FORMS)[0].holds
    failed = records(**{alone(1): {"failed": "the child process has ended"}})
    assert judge(failed, FORMS)[0].found == f"failed: {alone(1)}"
    assert len(steps_of(FORMS)) == 5


def test_rows_of_the_history_are_counted_one_by_one(tmp_path: Path) -> None:
    task = Beside(str(tmp_path))
    history = Backfill(task, 100)
    for kept in KEPT:
        folder = task.output / f"{HISTORY}-{kept}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": np.arange(kept, 90, 10)}), folder / "a.parquet")
    assert not history.look()
    assert history.wrong() == len(KEPT), "one row of each is missing"
    for kept in KEPT:
        folder = task.output / f"{HISTORY}-{kept}"
        pq.write_table(pa.table({"id": [90 + kept]}), folder / "b.parquet")
    assert history.look()
    assert history.wrong() == 0
    folder = task.output / f"{HISTORY}-{KEPT[0]}"
    pq.write_table(pa.table({"id": [90 + KEPT[0], 5]}), folder / "c.parquet")
    assert history.wrong() == 2, "one row twice, one of no query"


def test_the_history_appears_whole_and_in_order(tmp_path: Path) -> None:
    write_history(tmp_path / "prepared", 100, 3)
    (tmp_path / "in").mkdir()
    release(tmp_path / "prepared", tmp_path / "in")
    assert not (tmp_path / "prepared").exists()
    files = sorted((tmp_path / "in").iterdir())
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(files) == 3
    assert [line["id"] for line in lines] == list(range(100))
    assert {line["reading"] for line in lines} == set(range(10))


def test_filters_are_all_critical_and_no_two_alike() -> None:
    queries = critical()
    assert {q.cls for q in queries} == {"critical"}
    assert len({q.condition for q in queries}) == len({q.name for q in queries}) == 25
