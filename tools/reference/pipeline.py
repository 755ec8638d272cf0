"""``docs/reference/pipeline.md``: every key of a pipeline file.

The keys are those that the reader asks for: a probe with one of every table is read while all
requests are noted. The page cannot list a key that does not exist, nor leave one out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from unittest.mock import patch

from tools.reference.doc_comments import parameter_rows
from tools.reference.markdown import page, table
from tools.reference.pipeline_texts import AFTER, INTRODUCTION, MEANINGS, PROBE, TABLES

from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.errors import ConfigError, Findings
from daybreak.model.limits import Limits
from daybreak.model.pipeline import Pipeline
from daybreak.model.shedding import SheddingParams
from daybreak.model.specs import SimulationParams
from daybreak.model.tables import Document, Table

#: Tables that are read into a dataclass, whose comments document the keys.
PARAMETERS: dict[str, type] = {
    "limits": Limits,
    "simulation": SimulationParams,
    "shedding": SheddingParams,
    "streams.NAME.arrivals": Arrivals,
    "streams.NAME.arrivals.phases": Phase,
}
#: Fields of these that have a key elsewhere.
ELSEWHERE = {("limits", "log_max_bytes")}
_NAMED = {"streams", "queries", "views", "tables", "boxes"}
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array",
          dict: "table"}  # fmt: skip
#: Names that users choose, and the policy's own parameters.
_FREE = {"classes", "policy", "spark.conf", "streams.NAME.options", "tables.NAME.options",
         "queries.NAME.sink.options", *_NAMED}  # fmt: skip


def pipeline_page() -> str:
    keys = read_keys()
    sections = []
    for path, about in TABLES.items():
        rows = _parameters(path) if path in PARAMETERS else _described(path, keys.get(path, {}))
        parts = [f"## {_heading(path)}", about]
        if rows:
            parts.append(table(("key", "type", "default", "meaning"), rows))
        sections.append("\n\n".join(parts))
    _complete(keys)
    return page("Pipeline files", INTRODUCTION, *sections, AFTER)


def _heading(path: str) -> str:
    if path == "classes":
        return "[classes]"
    return f"[{path}]"


def _parameters(path: str) -> list[tuple[str, str, str, str]]:
    rows = parameter_rows(PARAMETERS[path])
    return [row for row in rows if (path, row[0].strip("`")) not in ELSEWHERE]


def _described(path: str, keys: dict[str, type]) -> list[tuple[str, str, str, str]]:
    rows = []
    for key, kind in keys.items():
        if f"{path}.{key}" in TABLES or f"{path}.{key}.NAME" in TABLES:
            continue
        meaning = MEANINGS.get(f"{path}.{key}")
        if meaning is None:
            raise SystemExit(f"tools/reference/pipeline_texts.py: describe {path}.{key}")
        default, text = meaning
        rows.append((f"`{key}`", _KINDS[kind], default, text))
    return rows


def _complete(keys: dict[str, dict[str, type]]) -> None:
    known = {f"{path}.{key}".lstrip(".") for path, found in keys.items() for key in found}
    if gone := sorted(set(MEANINGS) - known):
        raise SystemExit(f"tools/reference/pipeline_texts.py: nothing reads {gone}")
    tables = {t.removesuffix(".NAME") for t in TABLES}
    if new := sorted(key for key in keys[""] if key not in tables):
        raise SystemExit(f"tools/reference/pipeline_texts.py: describe the tables {new}")
    for path, kind in PARAMETERS.items():
        named = {f.name for f in fields(kind)}
        assert all((path, k) in ELSEWHERE or k in named for k in keys.get(path, ())), path


def read_keys() -> dict[str, dict[str, type]]:
    """By table: the keys that are asked for and accepted, with their types."""
    found: dict[str, dict[str, type]] = {}
    with _noted(found):
        Pipeline.load(Document("probe", PROBE, tomllib.loads(PROBE)))
    return {
        path: {key: kind for key, kind in keys.items() if _accepted(path, key, kind)}
        for path, keys in found.items()
        if path not in _FREE
    }


def _accepted(path: str, key: str, kind: type) -> bool:
    """Some are asked for on the way to a box and refused in the file."""
    data = tomllib.loads(PROBE)
    inner: Any = data
    parts = path.split(".") if path else []
    for part, after in zip(parts, [*parts[1:], None], strict=False):
        if part == "NAME":
            tables = [t for t in inner.values() if isinstance(t, dict)]
            inner = next(t for t in tables if after is None or after in t)
        else:
            inner = inner.setdefault(part, {})
        inner = inner[0] if isinstance(inner, list) else inner
    inner.setdefault(key, kind())
    findings = Findings()
    Pipeline.load(Document("probe", "", data), findings=findings)
    try:
        findings.raise_any()
    except ConfigError as error:
        return f"unknown key {key!r}" not in str(error)
    return True


@contextmanager
def _noted(found: dict[str, dict[str, type]]) -> Iterator[None]:
    real = Table.get

    def get(self: Table, key: str, kind: type[Any], default: Any = None) -> Any:
        found.setdefault(_general(self.path), {}).setdefault(key, kind)
        return real(self, key, kind, default)

    with patch.object(Table, "get", get):
        yield


def _general(path: tuple[str, ...]) -> str:
    if len(path) > 1 and path[0] in _NAMED:
        path = (path[0], "NAME", *path[2:])
    if path and path[-1].startswith("chain "):
        path = (*path[:-1], "chain")
    if len(path) > 1 and path[0] == "classes":
        path = ("classes", "NAME", *path[2:])
    return ".".join(path)
