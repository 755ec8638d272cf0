"""Spark's error messages, in one line and with the position as editors count it."""

from __future__ import annotations

import re

_POSITION = re.compile(r"line (\d+),? pos (\d+)")


def position_in(text: str) -> tuple[int, int] | None:
    """Line and column from 1, as editors count."""
    match = _POSITION.search(text)
    return (int(match[1]), int(match[2]) + 1) if match else None


def first_line(text: str) -> str:
    """Spark's message without its error class, SQLSTATE, position and plan."""
    first = text.strip().split("\n")[0]
    first = re.sub(r"^\[[A-Z0-9_.]+\] ", "", first)
    return re.split(r"\s*SQLSTATE:", first)[0].rstrip(" .;")
