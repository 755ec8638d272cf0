"""``docs/reference/errors.md``: exceptions, and every message about a mistake in the input."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.reference.doc_comments import prose
from tools.reference.markdown import page, table

import daybreak
from daybreak.model.errors import DaybreakError

SOURCE = Path(__file__).parents[2] / "src" / "daybreak"
#: Packages that this page can import without Spark; their exceptions are public.
_WITHOUT_SPARK = ("model", "runtime", "filters", "freshness", "links")
_PUBLIC = ("daybreak.extras", *(f"daybreak.{name}." for name in _WITHOUT_SPARK))
_AREAS = {
    "model": "Pipeline files",
    "policies": "Policies and their parameters",
    "cli": "Commands",
    "spark/sql": "Queries on Spark",
    "spark/ingest": "Sources",
    "spark/sinks": "Sinks",
    "spark/log": "Run directories and the commit log",
    "spark/kafka": "Kafka",
    "spark/governed": "Governed queries",
    "spark": "Runs on Spark",
    "simulation": "Simulation and what-if",
    "runtime": "Records, reports and control",
    "dashboard": "Dashboard",
    "freshness": "Mirrors (`daybreak freshen`)",
    "links": "Links (`daybreak link`)",
    "filters": "Filter services (`daybreak filters`)",
    "": "Elsewhere",
}

INTRODUCTION = """\
A mistake in what you declare or type is reported in one line, `PLACE: FINDING; REMEDY`, and ends
the command with exit code 2. There is no stack trace. `daybreak check` reports all findings of a
file at once; `daybreak check --json` prints them as objects with `place`, `finding` and `remedy`.

From Python the same mistakes raise `daybreak.ConfigError`, with the three parts as attributes.
"""


class Message(NamedTuple):
    """Finding and remedy of one error; ``…`` stands for what depends on the case."""

    finding: str
    remedy: str


def errors_page() -> str:
    found = messages()
    sections = [
        f"### {title}\n\n" + table(("finding", "remedy"), sorted(found[area]))
        for area, title in _AREAS.items()
        if found.get(area)
    ]
    return page(
        "Errors",
        INTRODUCTION,
        "## Exceptions",
        table(("exception", "meaning"), _exceptions()),
        "## Messages",
        "Every such message of the code. `…` stands for a name, a value or another message.",
        *sections,
    )


def _exceptions() -> list[tuple[str, str]]:
    for name in _WITHOUT_SPARK:
        package = importlib.import_module(f"daybreak.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"daybreak.{name}."):
            if not module.ispkg and "services" not in module.name:
                importlib.import_module(module.name)
    # In one order, and without those of modules that happen to be imported.
    below = {k for k in _below(DaybreakError) if k.__module__.startswith(_PUBLIC)}
    kinds: list[type[DaybreakError]] = [
        DaybreakError,
        *sorted(below, key=lambda k: (k.__module__, k.__name__)),
    ]
    public = vars(daybreak).get("__all__", ())
    rows = []
    for kind in kinds:
        where = "daybreak" if kind.__name__ in public else kind.__module__
        first = prose(inspect.getdoc(kind)).split("\n\n")[0]
        rows.append((f"`{where}.{kind.__name__}`", first))
    return rows


def _below(kind: type[DaybreakError]) -> Iterator[type[DaybreakError]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _below(sub)


def messages() -> dict[str, set[Message]]:
    """By area of the code: what it finds wrong and advises."""
    found: dict[str, set[Message]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        inner = path.relative_to(SOURCE).as_posix()
        area = next(a for a in sorted(_AREAS, key=len, reverse=True) if inner.startswith(a))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (message := _message(node)):
                found.setdefault(area, set()).add(message)
    return found


def _message(call: ast.Call) -> Message | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "ConfigError" and len(call.args) == 3:
        finding, remedy = call.args[1], call.args[2]
    elif name == "error" and isinstance(call.func, ast.Attribute) and len(call.args) in (2, 3):
        finding, remedy = call.args[0], call.args[1]
    else:
        return None
    texts = _text(finding), _text(remedy)
    # Nothing of its own to show: it passes on what another one found.
    return None if not texts[0].strip("… ") else Message(*texts)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "suggestion":
        return "the nearest valid name, and the whole choice"
    return "…"
