"""``daybreak schedule``: the slots of a ruler, printed, drawn and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.model.errors import ConfigError
from daybreak.report.schedule import letters, schedule_text


def test_prints_the_schedule_of_figure_8_and_draws_it(tmp_path: Path) -> None:
    picture = tmp_path / "schedule.png"
    call = ["schedule", "--priorities", "5,4,3,2,1", "--png", str(picture)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    first, *rest = done.stdout.splitlines()
    assert first == "AB|CD|AB|ACE|AB|CD|AB"
    assert [line.split() for line in rest if line[1:2] in tuple("ABCDE")] == [
        ["A", "5", "33.3%", "3", "10"],
        ["B", "4", "26.7%", "4", "11"],
        ["C", "3", "20.0%", "5", "12"],
        ["D", "2", "13.3%", "8", "13"],
        ["E", "1", "6.7%", "14", "14"],
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.name in done.stdout.replace("\n", "")


def test_a_script_gets_the_same(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["schedule", "--priorities", "60,30,10", "--json"])
    answer = json.loads(done.stdout)
    assert answer["longest_wait_slots"] == [2, 3, 12]
    assert answer["longest_wait_slots_cqc"] == [40, 70, 90]
    assert len(answer["slots"]) == 100
    assert sum(len(cycle) for cycle in answer["cycles"]) == 100


@pytest.mark.parametrize("bad", ["5,x", "", "3,0", "1,2", "100001"])
def test_a_mistake_is_named(bad: str) -> None:
    done = CliRunner().invoke(app, ["schedule", "--priorities", bad])
    assert isinstance(done.exception, ConfigError)


def test_classes_are_lettered_beyond_z() -> None:
    assert [letters(i) for i in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]
    assert schedule_text([1] * 27).endswith("Z.AA")
