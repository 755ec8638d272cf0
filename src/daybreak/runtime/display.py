"""Figures as a person wants to read them, and tables for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daybreak.runtime.report import RunReport
    from daybreak.runtime.snapshot import Snapshot

#: Rows of a table in a notebook; further ones are counted.
MOST_ROWS = 50


def duration(seconds: float) -> str:
    """A span of time with three figures and its unit: ``12.5 ms``."""
    if math.isnan(seconds):
        return "-"
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(seconds) < limit:
            return f"{seconds * factor:.3g} {unit}" if seconds else "0"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def count(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def plural(value: int, one: str, many: str | None = None) -> str:
    """``1 query``, ``2 queries``."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """The first row holds the headings. Names come from users: all of it is escaped."""
    heads, *body = rows
    lines = [f"<p>{escape(title)}</p>", "<table>", _row("th", heads)]
    lines += [_row("td", cells) for cells in body[:MOST_ROWS]]
    lines.append("</table>")
    if len(body) > MOST_ROWS:
        lines.append(f"<p>... and {count(len(body) - MOST_ROWS)} more</p>")
    return "\n".join(lines)


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def report_line(report: RunReport) -> str:
    """A report in a line, for ``repr``."""
    about, overall = report.manifest, report.overall()
    counted = "answer" if report.counts_answers else "result"
    parts = [
        duration(report.duration_s),
        plural(len(report.queries), "query", "queries"),
        plural(overall.count, counted),
    ]
    if overall.count:
        parts.append(f"mean {duration(overall.mean_s)}, p95 {duration(overall.percentiles_s[95])}")
    name = about.get("pipeline", about.get("world", "run"))
    return f"{name} under {about.get('policy', 'an unknown policy')}: {', '.join(parts)}"


def report_html(report: RunReport) -> str:
    """A report by class."""
    counted = "answers" if report.counts_answers else "results"
    rows: list[Sequence[str]] = [
        ("class", "priority", counted, "mean", "p50", "p95", "p99", "utility")
    ]
    summaries = report.by_class()
    named = [*zip(summaries.items(), (f"{p:g}" for p in report.priorities), strict=True)]
    for (name, s), priority in [*named, (("all", report.overall()), "")]:
        levels = (duration(s.percentiles_s[p]) for p in (50, 95, 99))
        rows.append(
            (name, priority, count(s.count), duration(s.mean_s), *levels, number(s.utility))
        )
    return html_table(report_line(report), rows)


def snapshot_html(title: str, snapshot: Snapshot) -> str:
    """A running application by query."""
    rows = [("query", "class", "state", "waiting", "answers", "rows", "error")]
    rows += [
        (q.name, q.cls, q.state, count(q.waiting), count(q.tuples), count(q.rows), q.error or "")
        for q in snapshot.queries
    ]
    return html_table(title, rows)
