"""The repository holds the pictures that its pages show, and no others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"!\[[^]]*\]\(([^)]+\.png)\)")


def tracked(*patterns: str) -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--", *patterns],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_every_committed_picture_is_shown_by_a_page_and_none_is_missing() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in tracked("*.md")
        for target in SHOWN.findall(page.read_text(encoding="utf-8"))
        if not target.startswith("http")
    }
    assert {path.resolve() for path in tracked("*.png")} == shown
