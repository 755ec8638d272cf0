"""Tables, pictures and the results page, all made from the recorded JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from benchmarks.versus.sides import SIDES
from benchmarks.versus.workload import CLASSES

from daybreak.report.figures import save_figure
from daybreak.report.text import count, duration, markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def latency_rows(records: Sequence[Record]) -> list[list[str]]:
    """One row per measurement; '>' where rows had not arrived when the measurement ended."""
    heads = ["queries", "side"]
    heads += [f"{cls} {p}" for cls in CLASSES for p in ("p50", "p95", "p99")]
    rows = [[*heads, "rows", "missing", "sustained", "CPU"]]
    for record in records:
        start = [str(record["queries"]), record["side"]]
        if "failed" in record:
            rows.append([*start, *["-"] * 9, "-", "-", "failed", "-"])
            continue
        found = record["classes"]
        rows.append(
            [
                *start,
                *(_cell(found.get(cls), f"p{p}_s") for cls in CLASSES for p in (50, 95, 99)),
                count(sum(c["rows"] for c in found.values())),
                count(sum(c["missing"] for c in found.values())),
                "yes" if record["sustained"] else "no",
                "-" if record["cpu_s"] is None else duration(record["cpu_s"]),
            ]
        )
    return rows


def ratio_rows(records: Sequence[Record]) -> list[list[str]]:
    """How many times longer than Daybreak's each side's critical p95 is."""
    rows = [["queries", "side", "critical p95", "of Daybreak's"]]
    for record in records:
        ours = _daybreak(records, record["queries"])
        if ours is None or record["side"] == "daybreak" or "failed" in record:
            continue
        theirs_s, ours_s = _critical_p95(record), _critical_p95(ours)
        both = record["sustained"] and ours["sustained"]
        ratio = f"{theirs_s / ours_s:.2f} x" if both else "not sustained by both"
        cell = _cell(record["classes"].get("critical"), "p95_s")
        rows.append([str(record["queries"]), record["side"], cell, ratio])
    return rows


def load_rows(records: Sequence[Record]) -> list[list[str]]:
    """Measurements at shares of a capacity."""
    rows = [
        ["side", "compositing", "load", "capacity", "utility", "staleness", "critical p95",
         "archive p95", "sustained"]
    ]  # fmt: skip
    for record in records:
        if "failed" in record:
            rows.append([_named(record), "-", f"{record['load']:g}", *["-"] * 5, "failed"])
            continue
        found, weights = record["classes"], sum(CLASSES.values())
        utility = sum(CLASSES[c] * found[c]["mean_utility"] for c in found) / weights
        stale = sum(CLASSES[c] * found[c]["staleness_s"] for c in found) / weights
        rows.append(
            [
                _named(record),
                _compositing(record),
                f"{record['load']:g}",
                f"{record['capacity_per_s']:,.0f} rows/s".replace(",", " "),
                f"{utility:.3f}",
                duration(stale),
                _cell(found.get("critical"), "p95_s"),
                _cell(found.get("archive"), "p95_s"),
                "yes" if record["sustained"] else "no",
            ]
        )
    return rows


def plot_latency(records: Sequence[Record], path: Path) -> Path:
    """p95 per class and side, one panel per number of queries."""
    good = [r for r in records if "failed" not in r]
    panels = sorted({r["queries"] for r in good})

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
        for ax, queries in zip(axes, panels, strict=True):
            here = [r for r in good if r["queries"] == queries]
            _bars(ax, [r["side"] for r in here], here)
            ax.set_title(f"{queries} queries" if queries > 1 else "1 query")
        axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.12), ncols=3)

    tallest = max(sum(r["queries"] == n for r in good) for n in panels)
    return save_figure(draw, path, size=(3.4 + 3.2 * len(panels), 1.6 + 0.45 * tallest))


def plot_loads(records: Sequence[Record], path: Path) -> Path:
    """p95 per class under each load."""
    good = [r for r in records if "failed" not in r]
    loads = sorted({r["load"] for r in good})

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(loads), squeeze=False, sharex=True)[0]
        for ax, load in zip(axes, loads, strict=True):
            here = [r for r in good if r["load"] == load]
            names = [_named(r) + (", alone" if _compositing(r) == "off" else "") for r in here]
            _bars(ax, names, here)
            ax.set_title(f"load {load:g}")
        axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.12), ncols=3)

    tallest = max(sum(r["load"] == load for r in good) for load in loads)
    return save_figure(draw, path, size=(3.4 + 3.2 * len(loads), 1.6 + 0.45 * tallest))


def write_page(studies: Mapping[str, Record], pictures: Mapping[str, Path], page: Path) -> Path:
    """Replaces what lies between the page's two marks; the text around it stays."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: the marks {BEGIN} and {END} are missing")
    parts = [f"{before}{BEGIN}", "## Settings of every side", settings_table()]
    for name, study in studies.items():
        parts += _section(name, study)
        if name in pictures:
            target = page.parent / "img" / pictures[name].name
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(pictures[name], target)
            parts.append(f"![{study['title']}](img/{target.name})")
    partial = page.with_suffix(".partial")
    partial.write_text("\n\n".join([*parts, f"{END}{after}"]), encoding="utf-8")
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
    if name == "latency":
        parts += [markdown(latency_rows(study["results"])), "### Beside Daybreak"]
        return [*parts, markdown(ratio_rows(study["results"]))]
    return [*parts, markdown(load_rows(study["results"]))]


def _bars(ax: Axes, names: Sequence[str], records: Sequence[Record]) -> None:
    height = 0.8 / len(CLASSES)
    for i, cls in enumerate(CLASSES):
        at = [k + (i - 1) * height for k in range(len(records))]
        values = [r["classes"].get(cls, {}).get("p95_s", math.nan) for r in records]
        ax.barh(at, values, height, label=cls)
    labels = [
        name if r["sustained"] else f"{name} (not sustained)"
        for name, r in zip(names, records, strict=True)
    ]
    ax.set_yticks(range(len(records)), labels)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("p95 from creation to sink, s")


def _cell(found: Record | None, key: str) -> str:
    if found is None or not found["rows"] + found["missing"]:
        return "-"
    return ("> " if found["missing"] else "") + duration(found[key])


def _critical_p95(record: Record) -> float:
    return float(record["classes"]["critical"]["p95_s"])


def _daybreak(records: Sequence[Record], queries: int) -> Record | None:
    return next(
        (r for r in records
         if r["side"] == "daybreak" and r["queries"] == queries and "failed" not in r),
        None,
    )  # fmt: skip


def _named(record: Record) -> str:
    if record["side"] != "daybreak":
        return str(record["side"])
    return f"daybreak, {record.get('settings', record)['policy']}"


def _compositing(record: Record) -> str:
    if record["side"] != "daybreak":
        return "by hand"
    return "on" if record.get("settings", record)["rider_bound_s"] else "off"
