"""``daybreak why``: what the late answers of a query were lost to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.console import console, print_json
from daybreak.report.why import now_lines, why_lines
from daybreak.runtime.control import NotRunning, call
from daybreak.runtime.why.findings import WORST_TOLD, seconds_of, why


def why_late(
    run: Annotated[Path, typer.Argument(help="A run directory; the run may go on or have ended.")],
    query: Annotated[str, typer.Argument(help="A query's name.")],
    at: Annotated[
        str | None,
        typer.Option(help="Around this time: 08:12:44, a date and time, or 95s since the start."),
    ] = None,
    last: Annotated[str, typer.Option(help="How much of the record: 90s, 5m, 2h.")] = "5m",
    worst: Annotated[int, typer.Option(min=1, help="How many answers to tell.")] = WORST_TOLD,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says what the worst answers of a query were lost to, and what it waits for now.

    The stages of an answer add up to its response time.

    Example: daybreak why runs/wildfire fire --last 5m
    """
    last_s = seconds_of(last, "--last")
    now = None if at is not None else _now(run, query)
    found = why(run, query, at=at, last_s=last_s, most=worst)
    if json:
        print_json({**found.as_json(), "now": now})
        return
    to = console()
    for line in (*why_lines(found), *(now_lines(now) if now is not None else ())):
        to.print(line, markup=False, highlight=False, soft_wrap=True)


def _now(run: Path, query: str) -> dict[str, Any] | None:
    """What it waits for at this moment; the run writes first what it has noted so far."""
    try:
        found: dict[str, Any] = call(run, "why", {"query": query})
    except NotRunning:
        return None
    return found
