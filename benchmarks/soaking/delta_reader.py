"""Reads a Delta table without the library that wrote it: its log here, its files by DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from benchmarks.soaking.duck import duck_rows


def delta_rows(path: Path, columns: str, order: str = "") -> list[tuple[Any, ...]]:
    """Rows of the files that a table's log lists: another engine, and another reader of the log."""
    files: dict[str, dict[str, str | None]] = {}
    for version in sorted((path / "_delta_log").glob("*.json")):
        for line in version.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                files[unquote(action["add"]["path"])] = action["add"].get("partitionValues") or {}
            elif "remove" in action:
                files.pop(unquote(action["remove"]["path"]))
    if not files:
        return []
    each = []
    for name, values in files.items():
        text = str(path / name).replace("'", "''")
        more = "".join(f', {_literal(v)} AS "{k}"' for k, v in values.items())
        each.append(f"SELECT *{more} FROM read_parquet('{text}', hive_partitioning = false)")
    return duck_rows(f"SELECT {columns} FROM ({' UNION ALL BY NAME '.join(each)}) {order}")


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"
