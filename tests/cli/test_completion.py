"""Shell completion: what a shell is given for commands, options, policies and experiments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.cli import completion
from daybreak.model.errors import ConfigError

pytestmark = pytest.mark.slow

DAYBREAK = Path(sys.executable).with_name("daybreak")


def asked(shell: str, line: str) -> str:
    """What the script of a shell gets at a Tab after this text."""
    words = line.split(" ")
    env = {
        "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
        completion.VARIABLE: f"complete_{shell}",
    }  # fmt: skip
    done = subprocess.run(
        [DAYBREAK],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", completion.Shell)
def test_every_shell_gets_policies_with_what_they_do(shell: completion.Shell) -> None:
    found = asked(shell, "daybreak simulate x.toml --policy stri")
    assert "stride" in found
    assert "fcfs" not in found
    assert ("proportion" in found) == (shell is not completion.Shell.BASH)


def test_a_real_bash_completes_after_it_has_read_the_script() -> None:
    typed = "daybreak reproduce aurora/table3."
    code = f"""
        source <({DAYBREAK} completion bash)
        COMP_WORDS=({typed}); COMP_CWORD=2
        _daybreak_completion {DAYBREAK}; printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p daybreak
    """
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert {"aurora/table3.1", "aurora/table3.2"} <= set(done.stdout.split())
    assert "-o default" in done.stdout, "files are completed where we have nothing"


def test_names_after_commas_and_equals_signs_are_completed() -> None:
    compared = [name for name, _ in completion.complete_policies("stride,fcfs,st")]
    assert compared == [], "stride is there already"
    assert ("stride,fcfs", "the oldest") in [
        (name, text[:10]) for name, text in completion.complete_policies("stride,fc")
    ]
    assert [n for n, _ in completion.complete_assignment("policy=strid")] == ["policy=stride"]
    assert [n for n, _ in completion.complete_assignment("cl")] == ["class."]
    assert [n for n, _ in completion.complete_experiment("no such")] == []


def test_a_broken_package_gives_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, object]:
        raise ConfigError("policy 'x'", "its package cannot be loaded", "uninstall it")

    monkeypatch.setattr(completion, "all_policies", broken)
    assert completion.complete_policy("st") == []
