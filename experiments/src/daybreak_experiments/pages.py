"""Writes ``docs/results/<source>.md`` from the records of ``daybreak reproduce``."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from shutil import copyfile
from typing import Any

from daybreak.report.text import markdown
from daybreak_experiments.registry import PAGES, SOURCES, all_experiments

VERDICTS = {True: "holds", False: "fails", None: "-"}


def write_pages(records: Path, docs: Path) -> list[Path]:
    """One page per source text that has records, and a table of all; pictures go beside them.

    What earlier runs wrote stays on the pages, for experiments without a record.
    """
    found = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in all_experiments()
        if (path := records / f"{name.replace('/', '-')}.json").exists()
    }
    docs.mkdir(parents=True, exist_ok=True)
    pages: dict[Path, str] = {}
    for source in SOURCES:
        own = {n: r for n, r in found.items() if n.startswith(f"{source}/")}
        page = docs / f"{PAGES.get(source, source)}.md"
        if own:
            pages[page] = _page(source, own, page)
    overview = docs / "README.md"
    pages[overview] = _overview(found, overview)
    for page, text in pages.items():
        partial = page.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(page)
    return list(pages)


def _page(source: str, records: dict[str, dict[str, Any]], page: Path) -> str:
    kept = _sections(page)
    sections = [
        _section(records[name], page.parent) if name in records else kept[name]
        for name in all_experiments()
        if name in records or (name in kept and name.startswith(f"{source}/"))
    ]
    text = "\n\n".join(sections)
    verdicts = Counter(re.findall(r"^\| (holds|fails) \| (robust|published) \|", text, re.M))
    held = {kind: verdicts["holds", kind] for kind in ("robust", "published")}
    every = {kind: held[kind] + verdicts["fails", kind] for kind in held}
    head = [
        f"# Results: {source}",
        f"Made by `daybreak reproduce '{source}/*' --docs docs/results`; do not edit.",
        (
            f"{held['robust']} of {every['robust']} robust claims hold, and {held['published']} "
            f"of {every['published']} published ones. [What that means](README.md)."
        ),
    ]
    return "\n\n".join([*head, text]) + "\n"


def _sections(page: Path) -> dict[str, str]:
    """What a page has on each experiment, heading included."""
    if not page.exists():
        return {}
    parts = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {part[3:].partition(":")[0]: part.strip() for part in parts}


def _section(record: dict[str, Any], docs: Path) -> str:
    parts = [f"## {record['experiment']}: {record['title']}", f"Seeds: {_seeds(record)}."]
    if record["table"]:
        parts.append(markdown(record["table"]))
    rows = [["verdict", "kind", "claim", "text", "ours", "rule"]]
    for c in record["claims"]:
        verdict = VERDICTS[c["holds"]] if c["kind"] != "skipped" else "skipped"
        rows.append([verdict, c["kind"], c["claim"], c["paper"], c["ours"], c["rule"] or "-"])
    parts.append(markdown(rows))
    parts.extend(record["notes"])
    if record["figure"]:
        picture = Path(record["figure"])
        (docs / "img").mkdir(parents=True, exist_ok=True)
        copyfile(picture, docs / "img" / picture.name)
        parts.append(f"![{record['experiment']}](img/{picture.name})")
    return "\n\n".join(parts)


def _counts(record: dict[str, Any]) -> tuple[int, int, int, int]:
    """Robust claims held and failed, published claims held and failed."""
    found = Counter((c["kind"], c["holds"]) for c in record["claims"])
    return (
        found["robust", True],
        found["robust", False],
        found["published", True],
        found["published", False],
    )


def _seeds(record: dict[str, Any]) -> str:
    """How many, and which if they are not the first ones."""
    seeds = record["seeds"]
    which = f" ({seeds[0]}-{seeds[-1]})" if seeds[0] != 1 else ""
    return f"{len(seeds)}{which}"


def _overview(records: dict[str, dict[str, Any]], page: Path) -> str:
    """One row per experiment. Rows of experiments without a record are kept as they were."""
    kept: dict[str, list[str]] = {}
    if page.exists():
        for line in page.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            if len(cells) == len(HEADINGS) and cells[0].startswith("["):
                kept[cells[0].partition("]")[0].lstrip("[")] = cells
    rows = [list(HEADINGS)]
    for name, experiment in all_experiments().items():
        source = name.partition("/")[0]
        link = f"[{name}]({PAGES.get(source, source)}.md)"
        if name in records:
            counts = _counts(records[name])
            rows.append([link, experiment.title, _seeds(records[name]), *map(str, counts)])
        else:
            rows.append(kept.get(name, [link, experiment.title, "not run", "-", "-", "-", "-"]))
    totals = [sum(int(row[i]) for row in rows[1:] if row[i] != "-") for i in range(3, 7)]
    rows.append(["total", "", "", *map(str, totals)])
    return "\n\n".join([*INTRODUCTION, markdown(rows), *OTHER_PAGES]) + "\n"


HEADINGS = (
    "experiment", "what it shows", "seeds", "robust: hold", "fail", "published: hold", "fail",
)  # fmt: skip
INTRODUCTION = (
    "# Results",
    "Made by `daybreak reproduce --all --docs docs/results`; do not edit.",
    (
        "Every table and figure of the source texts is an experiment, and every statement it "
        "judges is a claim with a rule: an order, a tolerance, a limit, printed beside the "
        "verdict. *Robust* claims must hold: the command fails if one does not. "
        "*Published* claims compare with what a text prints and may fail: its machine, costs and "
        "traces were others. Lines without a verdict are notes, on which the text prints nothing."
    ),
)
OTHER_PAGES = (
    (
        "Measurements on Spark have pages of their own: [spark](spark.md), [mixed](mixed.md) and "
        "[soak](soak.md). [Choices made after seeing results](choices.md) lists where a reading, a "
        "parameter or a claim was chosen late, and [what is not built](extensions.md) which of the "
        "texts' extensions are missing."
    ),
)
