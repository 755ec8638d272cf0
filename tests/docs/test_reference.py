"""The generated pages are what the code says, and the site has every page and no broken link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.reference.pages import pages
from tools.schedules import pictures
from tools.site import PROJECT, Staging

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def nav() -> set[str]:
    """The pages that mkdocs.yml lists; read as text, for nothing else here needs YAML."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    return set(re.findall(r"[\w./-]+\.md", listed))


def test_generated_pages_and_pictures_are_those_of_the_code() -> None:
    expected = pages() | pictures()
    stale = [
        name
        for name, text in expected.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, "make reference writes them again"
    generated = {DOCS / name for name in expected}
    assert {p for p in (DOCS / "policies").rglob("*") if p.is_file()} <= generated


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    there = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} | set(PROJECT)
    assert nav() == there


def test_every_link_of_the_docs_leads_to_a_file(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.run()
    assert not staging.broken
