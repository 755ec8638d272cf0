"""Writes ``docs/results/<source>.md`` from the records of ``daybreak reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile
from typing import Any

from daybreak.experiments.registry import PAGES, SOURCES, all_experiments
from daybreak.report.text import markdown


def write_pages(records: Path, docs: Path) -> list[Path]:
    """One page per source text that has records; pictures are copied beside them."""
    written: list[Path] = []
    for source in SOURCES:
        found = [
            json.loads(path.read_text(encoding="utf-8"))
            for name in all_experiments()
            if name.startswith(f"{source}/")
            and (path := records / f"{name.replace('/', '-')}.json").exists()
        ]
        if not found:
            continue
        docs.mkdir(parents=True, exist_ok=True)
        page = docs / f"{PAGES.get(source, source)}.md"
        partial = page.with_suffix(".partial")
        partial.write_text(_page(source, found, docs), encoding="utf-8")
        partial.replace(page)
        written.append(page)
    return written


def _page(source: str, records: list[dict[str, Any]], docs: Path) -> str:
    held = sum(c["holds"] for r in records for c in r["claims"] if c["kind"] == "robust")
    robust = sum(c["kind"] == "robust" for r in records for c in r["claims"])
    parts = [
        f"# Results: {source}",
        f"Made by `daybreak reproduce '{source}/*' --docs docs/results`; do not edit.",
        f"{held} of {robust} robust claims hold.",
    ]
    for record in records:
        parts.append(f"## {record['experiment']}: {record['title']}")
        parts.append(f"Seeds: {len(record['seeds'])}.")
        if record["table"]:
            parts.append(markdown(record["table"]))
        rows = [["verdict", "kind", "claim", "text", "ours"]]
        for c in record["claims"]:
            verdict = "skipped" if c["kind"] == "skipped" else "holds" if c["holds"] else "fails"
            rows.append([verdict, c["kind"], c["claim"], c["paper"], c["ours"]])
        parts.append(markdown(rows))
        parts.extend(record["notes"])
        if record["figure"]:
            picture = Path(record["figure"])
            (docs / "img").mkdir(parents=True, exist_ok=True)
            copyfile(picture, docs / "img" / picture.name)
            parts.append(f"![{record['experiment']}](img/{picture.name})")
    return "\n\n".join(parts) + "\n"
