"""What was found, as a table, as a page with a picture, and as figures for a script."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soaking.steady import MOST_RISE, SLACK

from daybreak.report.figures import can_draw, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Outcome = Mapping[str, Mapping[str, Any]]
#: What the picture shows, one panel each.
PANELS = (
    ("live heap after a collection (MB)", ("JVM heap MB",)),
    ("Python objects (thousands)", ("Python objects",)),
    ("open handles", ("JVM handles", "Python handles")),
    ("threads", ("JVM threads", "Python threads")),
    ("log (MB)", ("log MB",)),
    ("segments in the log", ("segments",)),
)
HEAD = """# Soak: kills, a full disk, ten steady minutes, and nonsense

`python benchmarks/soak.py --docs docs/results` (`make soak` without the option) writes this page;
soak.json beside it holds the figures. Every part runs by itself with `--only`, and again with the
same draws with `--seed`. Short forms of all parts are among the tests.
"""


def summary(outcome: Outcome) -> list[Sequence[str]]:
    """One line a part: what was done, with which seed, what is wrong."""
    rows: list[Sequence[str]] = [("part", "what was done", "seed", "took", "verdict")]
    for name, found in outcome.items():
        verdict = f"WRONG: {len(found['wrong'])} findings" if found["wrong"] else "nothing wrong"
        if "skipped" in found:
            verdict = f"left out: {found['skipped']}"
        took = f"{found['took_s'] / 60:.0f} min" if "took_s" in found else ""
        seed = str(found.get("seed", ""))
        rows.append((name, _done(name, found), seed, took, verdict))
    return rows


def _done(name: str, found: Mapping[str, Any]) -> str:  # noqa: PLR0911  # one line a part
    if "skipped" in found:
        return "nothing"
    if name in ("kills", "drivers"):
        return f"{found['kills']} kills, {found['rows']} rows"
    if name == "kafka":
        return f"{found['kills']} kills, {found['rows']} rows, {found['repeated']} records repeated"
    if name == "tables":
        return f"{found['kills']} kills, {found['rows']} rows, {found['versions']} versions"
    if name == "disk":
        return f"full {found['spells']} times, {found['starts']} starts, {found['rows']} rows"
    if name == "steady":
        return (
            f"{found['queries']} queries, {found['rate_per_s']:g} rows/s, {found['minutes']:g} min"
        )
    return f"{found['tries']} tries of each kind"


def publish(outcome: Outcome, folder: Path) -> list[Path]:
    """Writes the page, the picture and the figures; parts not run keep what was published."""
    figures = folder / "soak.json"
    known: dict[str, Any] = json.loads(figures.read_text()) if figures.exists() else {}
    where = f"{platform.machine()}, Python {platform.python_version()}"
    stamp = {"on": datetime.now(UTC).date().isoformat(), "machine": where}
    merged = {
        name: {**stamp, **outcome[name]} if name in outcome else known[name]
        for name in SECTIONS
        if name in outcome or name in known
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write(figures, json.dumps(merged, indent=1) + "\n")
    written = [figures]
    samples = merged.get("steady", {}).get("samples")
    if samples and can_draw():
        picture = folder / "img" / "soak-steady.png"
        written.append(save_figure(lambda f: _draw(f, samples), picture, (9.0, 7.0)))
    _write(folder / "soak.md", page(merged))
    return [*written, folder / "soak.md"]


def page(merged: Outcome) -> str:
    """The whole of soak.md."""
    parts = [HEAD, _markdown(summary(merged))]
    for name, found in merged.items():
        parts.append(f"## {name.capitalize()}\n")
        parts.append(SECTIONS[name](found))
        parts += [f"- **wrong**: {line}" for line in found["wrong"]]
        if "note" in found:  # written by hand into soak.json
            parts.append(f"\n{found['note']}\n")
    return "\n".join(parts) + "\n"


def _kills(found: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = [("killed in", "times")]
    rows += [(stage, str(times)) for stage, times in found["by_stage"].items()]
    return (
        "Every life is ended by SIGKILL at a stage drawn from the seed, before or after one of "
        "its calls or at a random\nmoment, the JVM in the same instant or not; the next life "
        "continues with the same run directory. The last one\nreads the input to its end. Then "
        "the sinks (Parquet, JSON, CSV; filters, tumbling and sliding windows) are\ncompared "
        "row by row with what the generator made. After every kill a reader's view is looked "
        "at, too: no row\nis ever there twice.\n\n" + _markdown(rows)
    )


def _disk(found: Mapping[str, Any]) -> str:
    if "skipped" in found:
        return f"Left out: {found['skipped']}.\n"
    return (
        f"The run directory and the sinks lie on a tmpfs, which a balloon fills "
        f"{found['spells']} times at random moments,\nto the last byte or nearly so, while a "
        f"generator makes rows and {found.get('files', 0)} files arrive. All limits are the "
        "default ones.\nA process that ends by itself is wrong. Then the sinks are compared as "
        "above.\n"
    )


def _steady(found: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = [("measure", "mean", "rise in 10 min", "may rise by", "")]
    for what, f in found["measures"].items():
        allowed = max(MOST_RISE * f["mean"], SLACK[what])
        verdict = "flat" if f["flat"] else "**rises**"
        rows.append((what, f"{f['mean']:.4g}", f"{f['rise']:+.3g}", f"{allowed:.3g}", verdict))
    return (
        f"{found['queries']} filters of three classes with Parquet sinks, {found['rate_per_s']:g} "
        f"rows a second, {found['minutes']:g} minutes; {found['answered']} answers, 95th "
        f"percentile {found['p95_s']:.2f} s.\nThe rule, fixed before there were data: a line "
        "through the samples of the last two thirds rises by at most\n"
        f"{MOST_RISE:.0%} of their mean per ten minutes, or by no more than the measure may differ "
        "by without meaning anything.\n\n" + _markdown(rows) + "\n![over time]"
        "(img/soak-steady.png)\n"
    )


def _fuzz(found: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = [("nonsense", "what came of it")]
    for kind, counts in found["outcomes"].items():
        shown = [f"{what}: {n}" for what, n in counts.items() if not what.startswith("WRONG")]
        rows.append((kind, ", ".join(shown)))
    return (
        "Refused means one of Daybreak's own errors, with place, finding and remedy. Whatever "
        "else is raised is wrong.\n\n" + _markdown(rows)
    )


def _kafka(found: Mapping[str, Any]) -> str:
    if "skipped" in found:
        return f"Left out: {found['skipped']}.\n"
    rows: list[Sequence[str]] = [("killed in", "times")]
    rows += [(stage, str(times)) for stage, times in found["by_stage"].items()]
    return (
        "An application that reads a topic and writes files and a topic, killed like the one "
        "above, with a real broker.\nIn the end the files hold every row once. The output topic "
        f"holds every row at least once; {found['repeated']} records came\nagain; their "
        "headers identify them, and without them each row is there once.\n\n" + _markdown(rows)
    )


def _drivers(_found: Mapping[str, Any]) -> str:
    return (
        "Every driver runs in a folder of its own, with its log in PostgreSQL and its store on a "
        "shared path. It is ended by\nSIGKILL at a random moment, the JVM in the same instant or "
        "not, and its folder is deleted; the next one starts in\nanother folder and continues. "
        "Then the sinks are compared as above.\n"
    )


def _tables(found: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = [("killed in", "times")]
    rows += [(stage, str(times)) for stage, times in found["by_stage"].items()]
    return (
        "An application that reads files and writes a partitioned Delta table and two tables in "
        "PostgreSQL, one of them by\nupsert, killed like the one above. After every kill and in "
        "the end DuckDB reads the files that the Delta log lists,\nand psycopg the tables: no "
        "row is there twice, and in the end none is missing.\n\n" + _markdown(rows)
    )


SECTIONS = {
    "kills": _kills, "drivers": _drivers, "kafka": _kafka, "tables": _tables, "disk": _disk,
    "steady": _steady, "fuzz": _fuzz,
}  # fmt: skip


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    heads, *body = rows
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(r) for r in body)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _draw(figure: Figure, samples: Sequence[Mapping[str, float]]) -> None:
    minutes = [s["at_s"] / 60 for s in samples]
    for panel, (axes, (title, measures)) in enumerate(
        zip(figure.subplots(3, 2, sharex=True).flat, PANELS, strict=True)
    ):
        scale = 1000 if "thousands" in title else 1
        for what in measures:
            axes.plot(minutes, [s[what] / scale for s in samples], label=what.split()[0])
        axes.axvspan(0, minutes[len(minutes) // 3], color="#999999", alpha=0.15, linewidth=0)
        axes.set_title(title, fontsize=10)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        if len(measures) > 1:
            axes.legend(loc="best")
        if panel >= 4:
            axes.set_xlabel("minutes (grey: not judged)")


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
