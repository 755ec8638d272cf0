"""What stands behind FROM in a query's text. Where to cut comes from Spark's parser."""

from __future__ import annotations

import re
from typing import Any

from daybreak.spark.windows.rewrite import nodes, place


def from_clause(text: str, parsed: Any) -> str | None:
    """The text of what a ``SELECT ... FROM ... [WHERE ...]`` reads; None of any other query."""
    if parsed.nodeName() != "Project":
        return None
    below = parsed.child()
    if below.nodeName() == "Filter":
        below = below.child()
    places = [place(node) for node in nodes(below)]
    clause = text[min(first for first, _ in places) : max(last for _, last in places) + 1]
    clause = re.sub(r"^from\s+", "", clause, flags=re.IGNORECASE)  # some begin with the word
    return _one_line(clause)


def _one_line(text: str) -> str:
    """Texts that differ in blanks alone are the same; not so within quotes."""
    if "--" in text or "/*" in text:
        return text
    pieces = re.split(r"('(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`)", text)
    return "".join(p if i % 2 else re.sub(r"\s+", " ", p) for i, p in enumerate(pieces))
