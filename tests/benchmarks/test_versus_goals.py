"""The goals of ingest are judged by their rules, and what was measured is not measured again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from benchmarks.versus import goals
from benchmarks.versus.command import parse
from benchmarks.versus.feeder import leave_old_files
from benchmarks.versus.goals import FULL, OURS, QUICK, Case, Rounds, judge
from benchmarks.versus.measure import Timing
from benchmarks.versus.workload import Task, filters

#: Milliseconds and CPU seconds of a side that reaches every goal, and of the others.
GOOD = {OURS: (10.0, 0.1), "today": (100.0, 1.0)}


def record(case: Case, side: str, turn: int = 1, **more: Any) -> dict[str, Any]:
    p95_ms, cpu_s = GOOD.get(side, (100.0, 1.0))
    figures = {"p50_s": p95_ms / 2000, "p95_s": p95_ms / 1000}
    return {
        "round": turn, "case": case.name, "side": side, "classes": {"critical": figures},
        "cpu_per_1000_rows_s": cpu_s, "idle_cores": 0.01, "files": 7, "load_before": 0.5,
        "lost": 0, "duplicates": 0, "unexpected": 0, **more,
    }  # fmt: skip


def records(cases: tuple[Case, ...]) -> list[dict[str, Any]]:
    return [record(case, side) for case in cases for side in case.sides]


@pytest.mark.parametrize("cases", [QUICK, FULL], ids=["quick", "full"])
def test_every_rule_is_judged_and_held_by_figures_that_are_good(cases: tuple[Case, ...]) -> None:
    verdicts = judge(records(cases), cases)
    assert [v for v in verdicts if not v.holds] == []
    goal = "\n".join(v.goal for v in verdicts)
    for rule in ("25 filters: critical p95", "250 filters: CPU", "nothing missing"):
        assert rule in goal
    for rule in ("1 000 filters", "4 000 rows/s", "100 000 files", "Kafka", "while idle"):
        assert (rule in goal) == (cases is FULL), rule


@pytest.mark.parametrize(
    ("case", "change", "goal"),
    [
        ("25 filters", {"classes": {"critical": {"p50_s": 0.01, "p95_s": 0.026}}}, "p95 at most"),
        ("25 filters", {"cpu_per_1000_rows_s": 0.26}, "CPU"),
        ("25 filters", {"cpu_per_1000_rows_s": None}, "CPU"),
        ("25 filters", {"lost": 1}, "nothing missing"),
        ("25 filters", {"duplicates": 1}, "nothing missing"),
        ("25 filters", {"unexpected": 1}, "nothing missing"),
        ("25 filters", {"failed": "the child process has ended"}, "every side runs"),
        ("250 filters", {"idle_cores": 0.02}, "while idle"),
        ("1 000 filters", {"classes": {"critical": {"p50_s": 0.01, "p95_s": 0.031}}}, "p95"),
        ("4 000 rows/s", {"classes": {"critical": {"p50_s": 0.01, "p95_s": 0.101}}}, "of today"),
        ("100 000 files in the folder",
         {"classes": {"critical": {"p50_s": 0.01, "p95_s": 0.0121}}}, "100 files"),
        ("Kafka", {"classes": {"critical": {"p50_s": 0.01, "p95_s": 0.051}}}, "np-nosync"),
    ],
)  # fmt: skip
def test_a_figure_that_misses_its_goal_is_found(
    case: str, change: dict[str, Any], goal: str
) -> None:
    found = [
        {**r, **change} if (r["case"], r["side"]) == (case, OURS) else r for r in records(FULL)
    ]
    [missed] = [v for v in judge(found, FULL) if not v.holds]
    assert missed.goal.startswith(f"{case}: ")
    assert goal in missed.goal


def test_a_figure_is_the_median_of_its_rounds_beside_the_best_program_by_hand() -> None:
    case = replace(QUICK[0], sides=(OURS, "np-nosync", "hand-nosync"))
    slow = {"classes": {"critical": {"p50_s": 1.0, "p95_s": 2.0}}}
    found = [record(case, side, turn) for turn in (1, 2, 3) for side in case.sides]
    found = [{**r, **slow} if (r["round"], r["side"]) == (2, OURS) else r for r in found]
    assert judge(found, [case])[0].holds
    beside = [{**r, **slow} if r["side"] == "np-nosync" else r for r in found]
    assert "of hand-nosync" in judge(beside, [case])[0].goal


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def refuse(task: Task, _timing: Timing) -> None:
        measured.append(task.side)
        raise RuntimeError("no Spark here")

    monkeypatch.setattr(goals, "measure", refuse)
    case = QUICK[0]
    done = [record(case, side) for side in case.sides[:2]]
    kept: list[dict[str, Any]] = []
    task = Task(OURS, 1, 800.0, str(tmp_path))
    rounds = Rounds(task, goals.QUICK_TIMING, 1, 0.0, lambda _: None, kept.append, done)
    found = rounds.run([case])
    assert measured == [case.sides[2]]
    assert found == [*done, *kept]
    assert not judge(found, [case])[0].holds, "a side that fails is a goal that is missed"


def test_old_files_hold_rows_that_no_query_wants(tmp_path: Path) -> None:
    leave_old_files(tmp_path, 7)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == 7
    rows = pq.read_table(files[3])
    assert rows.num_rows == 1
    assert not any(query.passes(rows).any() for query in filters(1000))


def test_quick_with_another_study_is_that_study_in_short() -> None:
    from benchmarks.versus.command import _is_quick_alone

    assert _is_quick_alone(parse(["--quick", "--json"]))
    assert not _is_quick_alone(parse(["--quick", "--mixed"]))
    assert not _is_quick_alone(parse(["--quick", "--only", "np"]))
