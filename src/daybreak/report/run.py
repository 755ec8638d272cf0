"""A run report as tables and pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daybreak.report.classes import colour, inversion_over_time, whiskers
from daybreak.report.figures import save_figure
from daybreak.report.overload import overload_json
from daybreak.report.text import count, duration, number
from daybreak.runtime.classes import ClassFigures, class_metrics, weighted_response_s
from daybreak.runtime.report import PERCENTILES, RunReport, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[Sequence[str]]
#: As ``engine.events.Way`` has them. "ordinary" is of records of earlier versions, whose
#: "executors" also stands for rows in a file that the driver wrote.
_WAYS = {
    "prepared": "with prepared plans",
    "spark-job": "as Spark jobs",
    "ordinary": "as Spark jobs",
    "spark-job-on-file": "as Spark jobs over a file of the driver's",
    "executors": "as Spark jobs over large segments",
    "micro-batch": "as micro-batches of Spark's",
}
#: Reasons for Spark jobs that are listed, at most.
_MOST_REASONS = 5


def class_table(report: RunReport) -> Rows:
    """Response times and utility by class, most important first."""
    rows: Rows = [("class", "priority", _counted(report), *_heads(PERCENTILES))]
    summaries = report.by_class()
    for (name, summary), priority in zip(summaries.items(), report.priorities, strict=True):
        rows.append((name, f"{priority:g}", *_cells(summary, PERCENTILES)))
    rows.append(("all", "", *_cells(report.overall(), PERCENTILES)))
    if len(summaries) > 1:
        # class-based-thesis 2.3.1: the mean over classes by priority, at each level.
        levels = [[s.mean_s for s in summaries.values()]]
        levels += [[s.percentiles_s[p] for s in summaries.values()] for p in PERCENTILES]
        weighted = [weighted_response_s(report.priorities, np.array(level)) for level in levels]
        rows.append(("by priority", "", "", *(duration(w) for w in weighted), ""))
    return rows


def query_table(report: RunReport, most: int | None = None) -> Rows:
    """The same by query with its staleness, slowest (95th percentile) first."""
    delivered = report.result_rows
    head = ["query", "class", _counted(report), *_heads(_OF_QUERIES), "stale"]
    if delivered is not None:
        head.insert(3, "rows")
    rows: Rows = [head]
    shown = zip(report.by_query().items(), report.query_class, report.staleness, strict=True)
    found = list(enumerate(shown))
    found.sort(key=lambda item: -_or_zero(item[1][0][1].percentiles_s[95]))
    for q, ((name, summary), c, stale) in found[:most]:
        cells = [name, report.classes[c], *_cells(summary, _OF_QUERIES), f"{stale:.1%}"]
        if delivered is not None:
            cells.insert(3, count(delivered[q]))
        rows.append(cells)
    return rows


def starts_lines(report: RunReport) -> list[str]:
    """Of a report over several starts: when each began, and under which policy."""
    about = report.manifest
    lines = []
    for n, start in enumerate(about.get("starts", ()), 1):
        began_s = start["started_s"]
        when = "" if began_s is None else f" at {datetime.fromtimestamp(began_s, UTC):%F %T} UTC"
        lines.append(f"start {n}{when}: {duration(start['duration_s'])}, {start['policy']}")
    if about.get("starts_dropped"):
        lines.append(f"{about['starts_dropped']} earlier starts made room for newer ones")
    if about.get("starts_unreadable"):
        lines.append(f"{about['starts_unreadable']} earlier starts left no readable record")
    return lines


def time_table(report: RunReport) -> Rows:
    """Where the workers' time went."""
    spent = report.spent
    kinds = {
        "work": spent.work_ns,
        "box calls": spent.call_ns,
        "superboxes": spent.superbox_ns,
        "storage": spent.storage_ns,
        "scheduling": spent.scheduling_ns,
        "idle": spent.idle_ns,
        "total": spent.total_ns,
    }
    rows: Rows = [("time", "spent", "share")]
    for name, ns in kinds.items():
        rows.append((name, duration(ns / 1e9), f"{ns / max(spent.total_ns, 1):.1%}"))
    return rows


def job_lines(report: RunReport) -> list[str]:
    """How jobs ran, and why some took a Spark job; nothing where that is not recorded."""
    about = report.manifest
    jobs: Mapping[str, int] = about.get("jobs", {})
    if not jobs:
        return []
    ways = [f"{count(jobs[way])} {name}" for way, name in _WAYS.items() if way in jobs]
    reasons = Counter(about.get("ordinary_because", {})).most_common(_MOST_REASONS)
    passed = about.get("rows_through_driver", {})
    return [
        f"jobs: {', '.join(ways)}",
        *(_passed_line(part, passed[part]) for part in ("streams", "queries") if part in passed),
        *(f"took a Spark job {count(times)} times: {why}" for why, times in reasons),
    ]


def _passed_line(part: str, passed: Mapping[str, int]) -> str:
    """Rows that the driver held; of large streams that is none."""
    what = "ingested rows" if part == "streams" else "result rows"
    most = sorted(passed.items(), key=lambda item: -item[1])[:_MOST_REASONS]
    shown = ", ".join(f"{name} {count(rows)}" for name, rows in most if rows)
    total = count(sum(passed.values()))
    return f"{what} through the driver: {total}{f' ({shown})' if shown else ''}"


def ingest_lines(report: RunReport) -> list[str]:
    """Who read the streams, and why not all were read directly."""
    ways: Mapping[str, str] = report.manifest.get("ingest", {})
    direct = sum(way == "direct" for way in ways.values())
    lines = [f"streams: {direct} of {len(ways)} were read directly"] if ways else []
    others = [f"stream {s} was read by {way}" for s, way in ways.items() if way != "direct"]
    return [*lines, *others[:_MOST_REASONS]]


def loss_lines(report: RunReport) -> list[str]:
    """What did not become an answer, each in a line: given up, malformed, no longer recorded."""
    about = report.manifest
    lines = [
        f"query {query}: {rows} rows were given up ({why})"
        for query, losses in about.get("lost", {}).items()
        for why, rows in losses.items()
    ]
    lines += [
        f"stream {stream}: {records} malformed records were kept aside"
        for stream, records in about.get("dead_letters", {}).items()
    ]
    lines += [
        f"stream {stream} stopped: {why}; correct it and start again, nothing is lost"
        for stream, why in about.get("stopped_streams", {}).items()
    ]
    if about.get("record_parts_dropped"):
        lines.append("the oldest part of the record made room for the newest")
    return lines


def comparison_table(reports: Mapping[str, RunReport]) -> Rows:
    """Several runs of the same workload side by side."""
    first = next(iter(reports.values()))
    rows: Rows = [
        (
            "policy", "mean", "p95", "utility/tuple", "utility/query", "stale", "overhead",
            *(f"p95 {c}" for c in first.classes),
        )
    ]  # fmt: skip
    for name, report in reports.items():
        overall = report.overall()
        spent = report.spent
        rows.append(
            (
                name,
                duration(overall.mean_s),
                duration(overall.percentiles_s[95]),
                number(overall.utility),
                number(report.utility_per_application),
                f"{report.overall_staleness:.1%}",
                f"{spent.overhead_ns / max(spent.total_ns, 1):.1%}",
                *(duration(s.percentiles_s[95]) for s in report.by_class().values()),
            )
        )
    return rows


def as_json(report: RunReport) -> dict[str, Any]:
    """The summary a script wants."""
    counted, delivered = _counted(report), report.result_rows
    return {
        "manifest": dict(report.manifest),
        "duration_s": report.duration_s,
        "utility_per_tuple": _or_none(report.overall().utility),
        "utility_per_application": _or_none(report.utility_per_application),
        "staleness": report.overall_staleness,
        "overall": _summary_json(report.overall(), counted),
        "classes": {n: _summary_json(s, counted) for n, s in report.by_class().items()},
        "class_metrics": class_metrics(report),
        "queries": {
            name: {
                **_summary_json(summary, counted),
                **({} if delivered is None else {"rows": delivered[q]}),
                "staleness": float(report.staleness[q]),
                "dropped": report.dropped[q],
            }
            for q, (name, summary) in enumerate(report.by_query().items())
        },
        "overload": overload_json(report),
        "time_ns": {
            "total": report.spent.total_ns,
            "work": report.spent.work_ns,
            "box_calls": report.spent.call_ns,
            "superboxes": report.spent.superbox_ns,
            "storage": report.spent.storage_ns,
            "scheduling": report.spent.scheduling_ns,
            "idle": report.spent.idle_ns,
        },
    }


def plot_run(report: RunReport, path: Path) -> Path:
    """Response time, utility and backlog over time, and their spread, by class."""
    return plot_runs({str(report.manifest["policy"]): report}, path)


def plot_runs(reports: Mapping[str, RunReport], path: Path) -> Path:
    """One column per run, on the same axes, so that runs can be compared by eye."""
    with_utility = any(not math.isnan(r.overall().utility) for r in reports.values())
    with_classes = any(len(r.classes) > 1 for r in reports.values())
    kinds = ["response_s", "utility", "inversion", "backlog", "spread"]
    kinds = [k for k in kinds if with_utility or k != "utility"]
    kinds = [k for k in kinds if with_classes or k != "inversion"]

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(kinds), len(reports), squeeze=False, sharey="row")
        for column, (name, report) in enumerate(reports.items()):
            for row, kind in enumerate(kinds):
                _PANELS[kind](grid[row][column], report)
            grid[0][column].set_title(name)
        for row, kind in enumerate(kinds):
            grid[row][0].set_ylabel(_LABELS[kind])
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=max(1, len(labels)))

    return save_figure(draw, path, size=(max(6.0, 4.5 * len(reports)), 2.4 * len(kinds)))


#: Queries are many: fewer columns for them.
_OF_QUERIES = (50, 90, 95, 99)
_LABELS = {
    "response_s": "mean response (s)",
    "utility": "utility",
    "inversion": "priority inversion (PrIR)",
    "backlog": "tuples waiting",
    "spread": "response (s)",
}


def _heads(percentiles: Sequence[int]) -> tuple[str, ...]:
    return "mean", *(f"p{p}" for p in percentiles), "utility"


def _counted(report: RunReport) -> str:
    """What the figures count: on Spark answered tuples, whether or not they gave a row."""
    return "answers" if report.counts_answers else "results"


def _cells(s: Summary, shown: Sequence[int]) -> tuple[str, ...]:
    percentiles = (duration(s.percentiles_s[p]) for p in shown)
    return count(s.count), duration(s.mean_s), *percentiles, number(s.utility)


def _summary_json(s: Summary, counted: str) -> dict[str, Any]:
    return {
        counted: s.count,
        "mean_s": _or_none(s.mean_s),
        **{f"p{p}_s": _or_none(v) for p, v in s.percentiles_s.items()},
        "utility": _or_none(s.utility),
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _over_time(kind: str, axes: Axes, report: RunReport) -> None:
    columns = report.over_time()
    for c, name in enumerate(report.classes):
        values = columns[f"{kind}/{name}"]
        some = ~np.isnan(values)  # bridge the slots in which nothing left
        axes.plot(
            columns["time_s"][some], values[some], label=name, color=colour(c), marker=".", ms=3
        )
    axes.set_xlabel("time (s)")


def _response(axes: Axes, report: RunReport) -> None:
    _over_time("response_s", axes, report)
    if len(report.outputs):
        axes.set_yscale("log")


def _utility(axes: Axes, report: RunReport) -> None:
    _over_time("utility", axes, report)
    axes.set_ylim(-0.05, 1.05)


def _backlog(axes: Axes, report: RunReport) -> None:
    for c, name in enumerate(report.classes):
        axes.plot(
            report.backlog.at_ns / 1e9, report.backlog.pending[:, c], label=name, color=colour(c)
        )
    axes.set_xlabel("time (s)")


def _spread(axes: Axes, report: RunReport) -> None:
    figures = ClassFigures.of(report)
    whiskers(axes, figures)
    if sum(figures.counts):
        axes.set_yscale("log")


_PANELS = {
    "response_s": _response,
    "utility": _utility,
    "inversion": inversion_over_time,
    "backlog": _backlog,
    "spread": _spread,
}
