"""The path from a clone to a pipeline of one's own: the commands of docs/tutorial.md, one by one.

The commands run in this process, so that they share one JVM; what else stands there runs in bash.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command sends its events to a standard error that ends with it."""
    logger = logging.getLogger("daybreak")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def commands() -> list[str]:
    blocks = re.findall(
        r"^```console\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S
    )
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def run(line: str) -> str:
    """What the command prints; it must succeed."""
    ours, pipe, rest = line.partition(" | ")
    if not ours.startswith("daybreak "):
        return bash(line)
    done = CliRunner().invoke(app, shlex.split(ours)[1:], catch_exceptions=False)
    assert done.exit_code == 0, f"{line}: {done.output}"
    return bash(rest, done.stdout) if pipe and shutil.which(rest.split()[0]) else done.stdout


def bash(line: str, given: str = "") -> str:
    done = subprocess.run(
        ["bash", "-ec", line], input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def test_every_command_of_the_tutorial_does_what_the_page_promises(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed: dict[str, list[str]] = {}
    for line in commands():
        if line.startswith("cd "):
            monkeypatch.chdir(Path(line[3:].strip()))
        else:
            printed.setdefault(line, []).append(run(line))
    assert "all checks passed" in printed["daybreak doctor"][0]
    assert "valid; nothing was started" in printed["daybreak check pipeline.toml"][0]
    report = json.loads((tmp_path / "watch/runs/pipeline/record/report.json").read_text())
    assert report["manifest"]["policy"] == "planned"
    [replayed] = [out for line, out in printed.items() if line.startswith("daybreak whatif")]
    assert "round-robin" in replayed[0]
    first, *_ = printed["cat out/hot/*.csv"]
    assert first.count("2026-07-01T12:") == 7, "each row above 40 degrees once"
    assert "48.5" not in first
    [added] = printed["grep -h 48.5 out/hot/*.csv"]
    assert added.startswith("9,48.5,"), "the next start reads what came since"
    assert added.count("\n") == 1, "and reads it once"
