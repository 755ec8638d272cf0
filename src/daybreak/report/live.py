"""A running application on the terminal: a table that follows, or a line now and then."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from daybreak.report.text import count, duration, number, table
from daybreak.runtime.snapshot import RECENT_S, Snapshot


def live_table(snapshot: Snapshot, title: str, notes: list[str]) -> RenderableType:
    """What the last seconds were like, by class."""
    rows = [("class", "priority", "p50", "p95", "utility", "waiting", "oldest")]
    for c in snapshot.classes:
        rows.append(
            (
                c.name,
                f"{c.priority:g}",
                duration(_figure(c.recent.p50_s)),
                duration(_figure(c.recent.p95_s)),
                _bar(_figure(c.recent.utility)),
                count(c.recent.waiting),
                duration(c.oldest_s),
            )
        )
    answered_per_s = sum(c.recent.answered for c in snapshot.classes) / RECENT_S
    head = f"{title}  {snapshot.elapsed_s:5.1f} s  {answered_per_s:,.0f} tuples answered/s"
    return Group(table(rows, title=head), *(Text(note) for note in notes[-5:]))


def live_line(snapshot: Snapshot) -> str:
    """The same as one line of a log."""
    parts = [
        f"{c.name}: p95 {duration(_figure(c.recent.p95_s))}, utility "
        f"{number(_figure(c.recent.utility), 2)}, {count(c.recent.waiting)} waiting"
        for c in snapshot.classes
    ]
    return f"{snapshot.elapsed_s:6.1f} s  " + " | ".join(parts)


def _figure(value: float | None) -> float:
    return math.nan if value is None else value


def _bar(utility: float) -> str:
    """Utility as a number and ten blocks."""
    if math.isnan(utility):
        return "-"
    full = round(utility * 10)
    return f"{utility:.2f} {'█' * full}{'░' * (10 - full)}"
