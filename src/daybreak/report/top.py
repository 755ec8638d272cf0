"""A running application as a screen of a terminal: classes, queries, jobs; fits 80 columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from daybreak.report.text import count, duration, number
from daybreak.runtime.snapshot import JobRow, Point, QueryRow, Snapshot

#: What queries can be sorted by, the largest first, names from a to z.
SORTS: dict[str, Callable[[QueryRow], Any]] = {
    "waiting": lambda q: (-q.waiting, -q.oldest_s),
    "oldest": lambda q: -q.oldest_s,
    "rate": lambda q: -q.arrived_per_s,
    "cost": lambda q: -q.cost_us,
    "tuples": lambda q: -q.tuples,
    "stale": lambda q: -q.staleness,
    "class": lambda q: (-q.priority, q.cls),
    "name": lambda q: q.name,
}
STYLES = {"running": "green", "paused": "yellow", "retrying": "magenta", "parked": "bold red"}
#: Lines of a frame besides those of classes, queries and jobs.
FRAME_LINES = 16
JOBS = 4
#: Errors of queries that are shown, at most.
ERRORS = 4
#: A stream that has waited so long for the scheduler in all is named.
LONG_WAIT_S = 1.0


def top_frame(
    s: Snapshot, last: Point | None, jobs: Sequence[JobRow], sort: str, most: int
) -> RenderableType:
    """``last``: the newest point there is; ``jobs``: the newest jobs; ``most``: queries to list."""
    shown = sorted(s.queries, key=lambda q: (_rank(q), SORTS[sort](q), q.name))[:most]
    rest = len(s.queries) - len(shown)
    parts: list[RenderableType] = [_head(s, last), _classes(s), _queries(shown)]
    if rest > 0:
        parts.append(Text(f"and {rest} more", style="dim"))
    parts += _errors(shown)
    parts += [_plain(line, style="red") for line in stream_lines(s)]
    parts += [_plain(line, style="dim") for line in ingest_lines(s)[:ERRORS]]
    parts.append(_jobs(s, jobs[-JOBS:]))
    parts += [_plain(f"{task}: {why}", style="red") for task, why in s.troubles.items()]
    return Group(*parts)


def stream_lines(s: Snapshot) -> list[str]:
    """Streams whose source fails or has stopped, each in a line."""
    return [
        f"stream {row.name} {'stopped' if row.stopped else 'fails'}: {row.error}"
        for row in s.streams
        if row.error is not None
    ]


def ingest_lines(s: Snapshot) -> list[str]:
    """Streams that are not read directly, with the reason, and those that waited for their turn."""
    ways = {row.name: row.ingest for row in s.streams if row.ingest}
    return [
        *(f"stream {name} is read by {way}" for name, way in ways.items() if way != "direct"),
        *(
            f"stream {row.name} was read for {duration(row.ingest_work_s)} and waited "
            f"{duration(row.ingest_waited_s)} for its turn"
            for row in s.streams
            if row.ingest_waited_s >= LONG_WAIT_S
        ),
    ]


def _rank(q: QueryRow) -> int:
    """What needs an operator comes first, whatever is sorted by."""
    return {"parked": 0, "retrying": 1}.get(q.state, 2)


def _head(s: Snapshot, last: Point | None) -> Text:
    log = f"  log {s.log_bytes / s.log_max_bytes:.0%} full" if s.log_max_bytes else ""
    shares = (
        f"scheduler {last.scheduler_share:.1%}  workers {last.busy_share:.0%} busy" if last else ""
    )
    first = f"{s.pipeline} under {s.policy}  {duration(s.elapsed_s)}  {s.decisions} decisions"
    return Text.assemble((first, "bold"), f"\n{shares}{log}", overflow="ellipsis")


def _classes(s: Snapshot) -> Table:
    made = _table("class:l", "prio", "p50", "p95", "utility", "stale", "waiting", "oldest", ":l")
    for c in s.classes:
        worrying = "starving" if c.starving else "inverted" if c.inversion > 0 else ""
        made.add_row(
            _plain(c.name), f"{c.priority:g}", _span(c.recent.p50_s), _span(c.recent.p95_s),
            number(math.nan if c.recent.utility is None else c.recent.utility, 2),
            f"{c.recent.staleness:.0%}", count(c.recent.waiting), duration(c.oldest_s),
            Text(worrying, style="red"),
        )  # fmt: skip
    return made


def _queries(rows: Sequence[QueryRow]) -> Table:
    made = _table("query:l", "class:l", "state:l", "waiting", "oldest", "in/s", "cost", "stale")
    made.columns[0].max_width, made.columns[1].max_width = 18, 10
    for q in rows:
        made.add_row(
            _plain(q.name), _plain(q.cls), Text(q.state, style=STYLES.get(q.state, "")),
            count(q.waiting), duration(q.oldest_s) if q.waiting else "-",
            f"{q.arrived_per_s:.0f}", duration(q.cost_us / 1e6), f"{q.staleness:.0%}",
        )  # fmt: skip
    return made


def _errors(rows: Sequence[QueryRow]) -> list[Text]:
    failing = [q for q in rows if q.error is not None][:ERRORS]
    return [_plain(f"{q.name}: {q.error}", style="red") for q in failing]


def _jobs(s: Snapshot, jobs: Sequence[JobRow]) -> Table:
    names = {q.number: q.name for q in s.queries}
    made = _table("jobs:l", "along", "ended", "worker", "tuples", "rows", "took", ":l")
    made.columns[0].max_width = 18
    for job in reversed(jobs):
        asked = names.get(job.queries[0], "-") if job.queries else "-"
        along = str(len(job.queries) - 1) if len(job.queries) > 1 else ""
        made.add_row(
            _plain(asked), along, f"-{max(0.0, s.elapsed_s - job.end_s):.1f} s",
            str(job.worker), count(job.tuples), count(job.rows),
            duration(job.end_s - job.begin_s), Text("failed" if job.failed else "", style="red"),
        )  # fmt: skip
    return made


def _table(*heads: str) -> Table:
    """Columns to the right, those marked ``:l`` to the left; nothing wraps."""
    made = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        name, _, left = head.partition(":")
        made.add_column(
            name, justify="left" if left else "right", no_wrap=True, overflow="ellipsis"
        )
    return made


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _plain(text: str, style: str = "") -> Text:
    """On one line, and without meaning: names and errors may hold anything."""
    line = " ".join(part for part in text.split() if part.isprintable())
    return Text(line, style=style, no_wrap=True, overflow="ellipsis")
