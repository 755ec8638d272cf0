"""Recorded runs on Spark: the code of today takes the decisions that were taken then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.policies.fcfs import FirstComeFirstServed
from daybreak.policies.reasons import Reason
from daybreak.runtime.journal_replay import replay_run

FOLDER = Path(__file__).parent
RUNS = ("windows", "planned", "operated")
#: All of them are small enough to be kept in the repository.
MOST_BYTES = 200_000


def replay(*args: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["replay", *args])
    return found.exit_code, found.output


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_is_decided_as_it_was(run: str) -> None:
    """Record it again with ``python -m tests.recorded.make`` if that is meant to change."""
    code, said = replay(str(FOLDER / run), "--json")
    assert code == 0, said
    found = json.loads(said)
    assert found["equal"]
    assert found["decisions"] > 20
    assert sum(p.stat().st_size for p in (FOLDER / run).rglob("*") if p.is_file()) < MOST_BYTES


@pytest.mark.parametrize("run", RUNS)
def test_another_policy_shows_the_first_decision_that_differs(run: str) -> None:
    code, said = replay(str(FOLDER / run), "--policy", "cqc")
    assert code == 1
    assert "recorded, under" in said
    assert "now, under cqc:" in said
    assert "StartJob on worker" in said


class Explains(FirstComeFirstServed):
    """Says why."""

    def explain(self, query: int, now_ns: int) -> Reason | None:
        return Reason("turn", f"query {query} was first at {now_ns}")


def test_a_policy_says_why_it_decided_otherwise() -> None:
    first = replay_run(FOLDER / "planned", Explains()).divergence
    assert first is not None
    assert first.now.reasons
    assert all(str(first.at_ns) in reason.verdict for reason in first.now.reasons.values())


def test_runs_hold_what_they_are_kept_for() -> None:
    """Windows, failures, busy cores, commands, a full log and another policy."""
    import pyarrow.parquet as pq

    told = {
        run: "".join(pq.read_table(FOLDER / run / "journal.parquet")["line"].to_pylist())
        for run in RUNS
    }
    assert all(
        '"CAST_INVALID_INPUT' in text or "CAST_INVALID_INPUT" in text for text in told.values()
    )
    assert '["Woke",[' in told["planned"]
    for event in ("SwitchPolicy", "AddQuery", "Drop", "Pause", "Resume", "SetPriority", "LogFull"):
        assert f'["{event}",' in told["operated"]
