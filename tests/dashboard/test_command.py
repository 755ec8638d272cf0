"""``daybreak dashboard`` as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from daybreak.cli.dashboard import need_web
from daybreak.model import ConfigError


def daybreak(*args: str) -> list[str]:
    return [sys.executable, "-c", "from daybreak.cli.main import main; main()", *args]


@pytest.mark.slow
def test_a_finished_run_is_served_until_it_is_told_to_stop(record: Path) -> None:
    command = daybreak("dashboard", str(record), "--address", "127.0.0.1:0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        said = serving.stderr.readline().strip()
        assert said.startswith("dashboard: http://127.0.0.1:")
        url = said.removeprefix("dashboard: ")
        with urllib.request.urlopen(f"{url}api/snapshot", timeout=20) as answer:
            assert json.load(answer)["state"] == "ended"
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(timeout=20) == 0
        assert serving.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "finding"),
    [
        (("nowhere",), "holds no readable run report"),
        (("nowhere", "--address", "nonsense"), "give HOST:PORT"),
    ],
)
def test_a_mistake_ends_in_one_line(tmp_path: Path, args: tuple[str, ...], finding: str) -> None:
    done = subprocess.run(
        daybreak("dashboard", *args), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert finding in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "uvicorn" else find_spec(name)

    monkeypatch.setattr("daybreak.cli.dashboard.find_spec", find)
    with pytest.raises(ConfigError, match=r"pip install 'daybreak\[web\]'"):
        need_web("127.0.0.1:0")
