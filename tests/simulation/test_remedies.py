"""What would have helped: replays of a recorded run with one command changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.simulation.recording import model, record

from daybreak.policies.registry import make_policy_with
from daybreak.report.why import remedy_lines
from daybreak.simulation.remedies import MOST_ERROR, remedies


@pytest.fixture
def overloaded(tmp_path: Path) -> Path:
    """One worker where two would do."""
    made = model(span_s=1.0, rate_per_s=40.0, noise=0.0, workers=1)
    record(made, make_policy_with("round-robin"), tmp_path / "run")
    return tmp_path / "run"


def test_the_unchanged_minutes_come_first_and_changes_are_commands(overloaded: Path) -> None:
    found = remedies(
        overloaded, overloaded, "hot0", last_s=100.0, goal_s=0.5, neighbour="both", budget_s=600.0
    )
    assert found is not None
    assert found.error == pytest.approx(0.0, abs=0.01), "the record is its own replay"
    assert found.untried == 0
    commands = {one.command: one for one in found.helped}
    paused = commands[f"daybreak pause {overloaded} both"]
    more = commands[f"daybreak run PIPELINE --run-dir {overloaded} --workers 2"]
    assert f"daybreak set {overloaded} class.high=120" in commands
    assert min(paused.worst_s, more.worst_s) < found.replayed_s
    assert [h.missed for h in found.helped] == sorted(h.missed for h in found.helped)
    lines = list(remedy_lines(found))
    assert "off by 0%" in lines[0]
    assert len(lines) == 1 + len(found.helped)


def test_a_replay_that_misses_the_measured_worst_suggests_nothing(overloaded: Path) -> None:
    outputs = pq.read_table(overloaded / "outputs.parquet")
    left_ns = outputs["departure_ns"].to_numpy().copy()
    mine = [name == "hot0" for name in outputs["query"].to_pylist()]
    arrived_ns = outputs["arrival_ns"].to_numpy()
    left_ns[mine] = arrived_ns[mine] + 3 * (left_ns[mine] - arrived_ns[mine])
    at = outputs.column_names.index("departure_ns")
    outputs = outputs.set_column(at, "departure_ns", pa.array(left_ns))
    pq.write_table(outputs, overloaded / "outputs.parquet")
    found = remedies(overloaded, overloaded, "hot0", last_s=100.0, goal_s=0.5, budget_s=600.0)
    assert found is not None
    assert found.error > MOST_ERROR
    assert found.helped == ()
    [line] = remedy_lines(found)
    assert "no suggestion, since a replay of the unchanged" in line


def test_no_suggestion_is_tried_beyond_its_time(overloaded: Path) -> None:
    found = remedies(overloaded, overloaded, "hot0", last_s=100.0, goal_s=0.5, budget_s=0.0)
    assert found is not None
    assert (found.helped, found.untried > 2) == ((), True)


def test_a_folder_without_arrivals_gives_no_suggestion(tmp_path: Path) -> None:
    assert remedies(tmp_path, tmp_path, "hot0", last_s=1.0, goal_s=None) is None
