"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = (
    "<!-- Generated from the code by `python -m tools.reference`; edit the code, not this page. -->"
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(head), "|" + "---|" * len(head), *(_row(row) for row in rows)]
    return "\n".join(lines)


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", GENERATED, *(p.strip("\n") for p in parts if p)]) + "\n"


def cell(text: str) -> str:
    """Safe within a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(cell(v) for v in values) + " |"
