"""A name means one thing; docs/glossary.md lists the exceptions."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "daybreak"
GLOSSARY = ROOT / "docs" / "glossary.md"
#: Named by their role; see the glossary.
ROLES = {"__init__", "base", "registry"}
#: Packages whose modules are named as the command or the picture.
SHOWING = {"cli", "report"}


def exceptions() -> set[str]:
    section = GLOSSARY.read_text(encoding="utf-8").partition("## Names in the code")[2]
    rows = re.findall(r"^\| (`[^|]+) \| [^|]{10,} \|$", section, re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def modules() -> Iterator[Path]:
    return (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def twice(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in found.items() if len(places) > 1}


def classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.parse((SOURCE / path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path))
    return twice(found)


def module_names() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if path.stem not in ROLES and path.parts[0] not in SHOWING:
            found[path.stem].append(str(path))
    return twice(found)


def test_a_name_means_one_thing() -> None:
    allowed = exceptions()
    for found in (classes(), module_names()):
        news = {name: places for name, places in found.items() if name not in allowed}
        assert not news, "rename all but one, or state the reason in docs/glossary.md"
