"""``daybreak reproduce`` finds experiments by their entry point, and names what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.cli.reproduce import read_seeds
from daybreak.model.errors import ConfigError
from daybreak.suites import ENTRY_POINTS, INSTALL, Suite

ROOT = Path(__file__).parents[2]


def reproduce(*args: str, packages: Path) -> subprocess.CompletedProcess[str]:
    """Runs in an environment of these packages, Daybreak's core and no others."""
    path = os.pathsep.join([str(packages), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-S", "-m", "daybreak", "reproduce", *args],
        cwd=packages, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Every installed package but the experiments."""
    for folder in map(Path, sys.path):
        if folder.name != "site-packages":
            continue
        for found in folder.iterdir():
            link = tmp_path / found.name
            if not found.name.startswith("daybreak") and not link.exists():
                link.symlink_to(found)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("args", [("aurora/table3.1", "--json"), ("--list",), ("--all",)])
def test_without_experiments_it_names_the_command_that_installs_them(
    packages: Path, args: tuple[str, ...]
) -> None:
    done = reproduce(*args, packages=packages)
    assert done.returncode == 2
    assert f"reproduce: no experiments are installed; {INSTALL}" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.slow
def test_a_package_that_cannot_be_loaded_is_named(packages: Path) -> None:
    info = packages / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nbroken = nowhere.suite\n")
    done = reproduce("--list", packages=packages)
    assert done.returncode == 2
    assert "experiments 'broken': the package cannot be loaded" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_our_experiments_satisfy_the_contract_of_a_suite() -> None:
    import daybreak_experiments.suite

    suite: Suite = daybreak_experiments.suite  # mypy compares signatures
    assert "aurora/table3.1" in suite.titles()


def test_seeds_are_a_count_or_a_range() -> None:
    assert list(read_seeds("3")) == [1, 2, 3]
    assert list(read_seeds("101-105")) == [101, 102, 103, 104, 105]
    assert list(read_seeds("7-7")) == [7]
    for wrong in ("0", "5-3", "-3", "a-b", "1-", ""):
        with pytest.raises(ConfigError, match="range"):
            read_seeds(wrong)
