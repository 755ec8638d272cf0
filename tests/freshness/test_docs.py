"""What docs/freshening.md shows is run."""

import re
from pathlib import Path

import pytest

from daybreak.freshness.keep import read_config

TEXT = (Path(__file__).parents[2] / "docs" / "freshening.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found
    return found[1]


def test_the_python_example_gives_what_it_says() -> None:
    names: dict[str, object] = {}
    exec(block("python"), names)
    made = names["made"]
    assert made.frequency == pytest.approx([1.6857, 1.8263, 1.4880, 0, 0], abs=1e-4)  # type: ignore[attr-defined]
    assert made.perceived_freshness == pytest.approx(0.4995, abs=1e-4)  # type: ignore[attr-defined]


def test_the_mirror_file_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "mirror.toml"
    path.write_text(block("toml"))
    config = read_config(path)
    assert [s.kind for s in config.sources.values()] == ["http", "sql", "files"]
    assert config.mirror.least_freshness == 0.2
