"""Tables and the results page, made from the recorded JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from benchmarks.versus.sides import SIDES
from benchmarks.versus.workload import CLASSES

from daybreak.report.text import count, duration, markdown

Record = dict[str, Any]
#: Studies that set sides beside each other at stated rates.
BY_LATENCY = ("latency", "rates", "mixed")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def latency_rows(records: Sequence[Record]) -> list[list[str]]:
    """One row per measurement; '>' where rows had not arrived when the measurement ended."""
    heads = [f"{cls}: p50, p95, p99" for cls in CLASSES]
    rows = [["queries", "rows/s", "side", *heads, "rows", "missing", "sustained", "CPU"]]
    for record in records:
        start = [str(record["queries"]), f"{record['rate_per_s']:g}", record["side"]]
        if "failed" in record:
            rows.append([*start, *["-"] * len(heads), "-", "-", "failed", "-"])
            continue
        found = record["classes"]
        rows.append(
            [
                *start,
                *(_cell(found.get(cls), "p50_s", "p95_s", "p99_s") for cls in CLASSES),
                count(sum(c["rows"] for c in found.values())),
                count(sum(c["missing"] for c in found.values())),
                _sustained(record),
                "-" if record["cpu_s"] is None else duration(record["cpu_s"]),
            ]
        )
    return rows


def ratio_rows(records: Sequence[Record]) -> list[list[str]]:
    """How many times longer than Daybreak's each side's critical p95 is."""
    rows = [["queries", "rows/s", "side", "critical p95", "Daybreak's", "ratio"]]
    for record in records:
        ours = _daybreak(records, record)
        if ours is None or record["side"] == "daybreak" or "failed" in record:
            continue
        theirs_p95, ours_p95 = (r["classes"]["critical"]["p95_s"] for r in (record, ours))
        ratio = f"{theirs_p95 / ours_p95:.2f}"
        if not record["sustained"]:
            ratio = "none: it did not sustain the rate"
        if not ours["sustained"]:
            ratio = "none: Daybreak did not sustain the rate"
        cells = [_cell(r["classes"]["critical"], "p95_s") for r in (record, ours)]
        rate = f"{record['rate_per_s']:g}"
        rows.append([str(record["queries"]), rate, record["side"], *cells, ratio])
    return rows


def load_rows(records: Sequence[Record]) -> list[list[str]]:
    """Measurements at shares of a capacity."""
    rows = [
        ["side", "compositing", "load", "capacity", "utility", "by class", "staleness",
         "critical p95", "archive p95", "sustained"]
    ]  # fmt: skip
    for record in records:
        if "failed" in record:
            rows.append([named(record), "-", f"{record['load']:g}", *["-"] * 6, "failed"])
            continue
        found, weights = record["classes"], sum(CLASSES.values())
        by_class = sum(CLASSES[c] * found[c]["mean_utility"] for c in found) / weights
        stale = sum(CLASSES[c] * found[c]["staleness_s"] for c in found) / weights
        rows.append(
            [
                named(record),
                compositing(record),
                f"{record['load']:g}",
                f"{record['capacity_per_s']:,.0f} rows/s".replace(",", " "),
                f"{utility(found):.3f}",
                f"{by_class:.3f}",
                duration(stale),
                _cell(found.get("critical"), "p95_s"),
                _cell(found.get("archive"), "p95_s"),
                _sustained(record),
            ]
        )
    return rows


def utility(classes: Mapping[str, Record]) -> float:
    """Sum of w U over all rows that had to arrive, over the sum of w; w is the class's priority.

    Earlier versions showed the mean of the classes' utilities (*by class*).
    """
    weight = {c: CLASSES[c] * (f["rows"] + f["missing"]) for c, f in classes.items()}
    gained = sum(weight[c] * f["mean_utility"] for c, f in classes.items())
    return float(gained / max(1, sum(weight.values())))


def write_page(studies: Mapping[str, Record], pictures: Mapping[str, Path], page: Path) -> Path:
    """Replaces these studies between the page's two marks; others and the text around stay."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    shown, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: the marks {BEGIN} and {END} are missing")
    # After what comes before the first heading, and the settings.
    old = [f"## {part}".strip() for part in shown.split("\n## ")[2:]]
    sections = {part.partition("\n")[0]: part for part in old}
    for name, study in studies.items():
        section = _section(name, study)
        if name in pictures:
            target = page.parent / "img" / pictures[name].name
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(pictures[name], target)
            section.append(f"![{study['title']}](img/{target.name})")
        sections[section[0]] = "\n\n".join(section)
    settings = "\n\n".join(["## Settings of every side", settings_table()])
    partial = page.with_suffix(".partial")
    parts = [f"{before}{BEGIN}", settings, *sections.values(), f"{END}{after}"]
    partial.write_text("\n\n".join(parts), encoding="utf-8")
    partial.replace(page)
    return page


def settings_table() -> str:
    return markdown([["side", "settings"], *([n, s.settings] for n, s in SIDES.items())])


def _section(name: str, study: Record) -> list[str]:
    about, timing = study["manifest"], study["timing"]
    how = (
        f"{about['cores']} cores, {about['memory_gb']:.0f} GB, {about['system']}, Spark "
        f"{about['spark']}, Java {about['java']}, Python {about['python']}; load average before "
        f"the first measurement {about['load_before']:.1f}. Measured {timing['seconds']:g} s each "
        f"after {timing['warmup_s']:g} s of warm-up. Made by `{about['command']}`."
    )
    parts = [f"## {study['title']}", how]
    if name in BY_LATENCY:
        parts += [markdown(latency_rows(study["results"])), "### Beside Daybreak"]
        return [*parts, markdown(ratio_rows(study["results"]))]
    return [*parts, markdown(load_rows(study["results"]))]


def _cell(found: Record | None, *keys: str) -> str:
    if found is None or not found["rows"] + found["missing"]:
        return "-"
    return ("> " if found["missing"] else "") + ", ".join(duration(found[key]) for key in keys)


def _sustained(record: Record) -> str:
    behind = [cls for cls, found in record["classes"].items() if not found["sustained"]]
    return f"not {', '.join(behind)}" if behind else "yes"


def _daybreak(records: Sequence[Record], beside: Record) -> Record | None:
    """What Daybreak did with the same queries at the same rate."""
    same = ("queries", "rate_per_s")
    return next(
        (r for r in records
         if r["side"] == "daybreak" and "failed" not in r
         and all(r[key] == beside[key] for key in same)),
        None,
    )  # fmt: skip


def named(record: Record) -> str:
    if record["side"] != "daybreak":
        return str(record["side"])
    return f"daybreak, {record.get('settings', record)['policy']}"


def compositing(record: Record) -> str:
    if record["side"] != "daybreak":
        return "by hand"
    return "on" if record.get("settings", record)["rider_bound_s"] else "off"
