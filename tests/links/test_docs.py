"""What docs/links.md shows runs as printed."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.links.receiver import LinkReceiver, Received
from daybreak_experiments.links.moves import battlefield

DOC = Path(__file__).parents[2] / "docs" / "links.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)


def test_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    received: list[Received] = []
    with LinkReceiver("127.0.0.1", 0, received.append) as receiver:
        for language, code in BLOCKS:
            if language == "python":
                here = code.replace("7070", str(receiver.address[1]))
                exec(compile(here, str(DOC), "exec"), {"placement": battlefield()})
    printed = capsys.readouterr().out
    assert "('decode', 'hostile') centre -> field" in printed
    assert [item.cls for item in received] == ["alarms"]


@pytest.mark.slow
def test_commands_of_the_simulator_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOC.parents[1])
    lines = [
        line for language, code in BLOCKS if language == "console" for line in code.split("\n")
    ]
    commands = [line.split("#")[0].split()[2:] for line in lines if "link simulate" in line]
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, command
