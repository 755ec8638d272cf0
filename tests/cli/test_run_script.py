"""``daybreak run-script`` refuses what it cannot run before Spark starts, in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.spark.governed.script import run_program


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["missing.py"], "missing.py: is not a file; name a Python program"),
        (["ok.py", "--classes", "none.toml"], "none.toml: cannot be read"),
        (["ok.py", "--classes", "bad.toml"], "class 'alrm' is not declared; did you mean 'alarm'?"),
        (["ok.py", "--policy", "planed"], "policy 'planed' is not registered"),
        (["ok.py", "--policy", "taat"], "makes no sense on Spark"),
        (["ok.py", "--run-dir", "."], "and no daybreak.json, so it is not a run directory"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, options: list[str], finding: str) -> None:
    (tmp_path / "ok.py").write_text("raise SystemExit(3)")
    (tmp_path / "bad.toml").write_text("[classes]\nalarm = 1\n[queries.q]\nclass = 'alrm'")
    done = subprocess.run(
        [sys.executable, "-m", "daybreak", "run-script", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert finding in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(5)", 5, ""),
        ("import sys; sys.exit('no input')", 1, "no input\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("import sys\nassert sys.argv[1:] == ['--a', 'b'], sys.argv", 0, ""),
        ("from beside import nothing", 0, ""),
    ],
)
def test_a_program_ends_as_under_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, code: int, said: str
) -> None:
    (tmp_path / "beside.py").write_text("nothing = None")
    script = tmp_path / "program.py"
    script.write_text(program)
    before = sys.argv, list(sys.path)
    assert run_program(script, ["--a", "b"]) == code
    assert capsys.readouterr().err == said
    assert before == (sys.argv, sys.path)


def test_a_traceback_shows_the_program_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text("def f():\n    raise ValueError('bad row')\n\nf()\n")
    assert run_program(script, []) == 1
    shown = capsys.readouterr().err
    assert shown.endswith("ValueError: bad row\n")
    assert "program.py" in shown
    assert "runpy" not in shown
