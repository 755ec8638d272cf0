"""``docs/reference/events.md``: the lines of ``RUN/events.jsonl``, as the code emits them."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.reference.event_texts import MEANINGS
from tools.reference.markdown import page, table

SOURCE = Path(__file__).parents[2] / "src" / "daybreak"
_EMITTERS = {"emit", "_emit", "notice", "announce"}
#: Arguments of ``emit`` that are not fields of the event.
_NOT_FIELDS = {"level", "query", "fields"}

INTRODUCTION = """\
A run writes one line of JSON per event to `RUN/events.jsonl`, over all its starts. At 8 MiB the
file is renamed to `events.jsonl.1`. `daybreak run` prints the same events to standard error, as
text or with `--log-format json` as the same lines; `--log-level` applies to both.

Every line has `time`, `level`, `run` (the name of the run directory), `event` and `message`. Events
about a query also have `query` and `class`. New versions add events and fields, so a script should
ignore those it does not know. [Operations](../operations.md#events) shows an example.
"""


class Emitted(NamedTuple):
    """One call that emits an event."""

    level: str
    fields: tuple[str, ...]


def events_page() -> str:
    found = emitted()
    described, known = set(MEANINGS), set(found)
    if described != known:
        raise SystemExit(
            "tools/reference/event_texts.py: "
            f"describe {sorted(known - described)}, remove {sorted(described - known)}"
        )
    rows = []
    for name, meaning in MEANINGS.items():
        levels = list(dict.fromkeys(level for e in found[name] for level in e.level.split(" or ")))
        fields = list(dict.fromkeys(f for e in found[name] for f in e.fields))
        shown = ", ".join(f"`{f}`" for f in fields)
        rows.append((f"`{name}`", " or ".join(levels), meaning, shown))
    return page(
        "Events",
        INTRODUCTION,
        table(("event", "level", "meaning", "further fields"), rows),
        "With `--log-format json`, standard error holds nothing but JSON. Then the status line, "
        "every five seconds, is an event `status`; what Spark writes becomes events `spark`; the "
        "remarks at the end are `summary`. These three are not in the file.",
        "In Python the events are records of `logging` under `daybreak.run`. Nothing is printed "
        "unless the program adds a handler.",
    )


def emitted() -> dict[str, list[Emitted]]:
    """By name: every call in the code that emits such an event."""
    found: dict[str, list[Emitted]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        chosen = _chosen_levels(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in _EMITTERS and node.args:
                for event in _texts(node.args[0]):
                    found.setdefault(event, []).append(_emitted(node, chosen))
    return found


def _chosen_levels(tree: ast.Module) -> list[str]:
    """Levels that a module chooses between before it emits: ``level = A if ... else B``."""
    return [
        level
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "level"
        for level in _levels(node.value, [])
    ]


def _emitted(call: ast.Call, chosen: list[str]) -> Emitted:
    level = next((k.value for k in call.keywords if k.arg == "level"), None)
    names = tuple(k.arg for k in call.keywords if k.arg and k.arg not in _NOT_FIELDS)
    return Emitted(" or ".join(_levels(level, chosen)), names)


def _levels(node: ast.expr | None, chosen: list[str]) -> list[str]:
    if node is None:
        return ["info"]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return [logging.getLevelName(node.value).lower()]
    if isinstance(node, ast.Name | ast.Attribute):
        name = _name(node)
        return [name.lower()] if name.isupper() else chosen
    if isinstance(node, ast.IfExp):
        return [*_levels(node.body, chosen), *_levels(node.orelse, chosen)]
    return []


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
