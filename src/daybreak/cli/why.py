"""``daybreak why``: what the late answers of a query were lost to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.console import console, print_json
from daybreak.report.why import now_lines, remedy_lines, why_lines
from daybreak.runtime.control import NotRunning, call
from daybreak.runtime.why.findings import WORST_TOLD, Why, seconds_of, why
from daybreak.simulation.remedies import Remedies, remedies


def why_late(
    run: Annotated[Path, typer.Argument(help="A run directory; the run may go on or have ended.")],
    query: Annotated[str, typer.Argument(help="A query's name.")],
    at: Annotated[
        str | None,
        typer.Option(help="Around this time: 08:12:44, a date and time, or 95s since the start."),
    ] = None,
    last: Annotated[str, typer.Option(help="How much of the record: 90s, 5m, 2h.")] = "5m",
    worst: Annotated[int, typer.Option(min=1, help="How many answers to tell.")] = WORST_TOLD,
    replay: Annotated[
        bool, typer.Option(help="Replay what would have helped; takes a few seconds.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says what the worst answers of a query were lost to, and what it waits for now.

    The stages of an answer add up to its response time.

    Example: daybreak why runs/wildfire fire --last 5m
    """
    last_s = seconds_of(last, "--last")
    now = None if at is not None else _now(run, query)
    found = why(run, query, at=at, last_s=last_s, most=worst)
    # Without --at the stretch is the newest, which is what replays take.
    help_ = _remedies(run, found) if replay and at is None else None
    if json:
        told = None if help_ is None else help_.as_json()
        print_json({**found.as_json(), "now": now, "help": told})
        return
    to = console()
    for line in (
        *why_lines(found),
        *(remedy_lines(help_) if help_ is not None else ()),
        *(now_lines(now) if now is not None else ()),
    ):
        to.print(line, markup=False, highlight=False, soft_wrap=True)


def _remedies(run: Path, found: Why) -> Remedies | None:
    """Only where an answer was late: what is in time needs no help."""
    if not found.missed and found.goal_s is not None:
        return None
    stretch = found.stretch
    return remedies(
        run, stretch.record, found.query, last_s=stretch.to_s - stretch.from_s,
        goal_s=found.goal_s, neighbour=found.neighbour,
    )  # fmt: skip


def _now(run: Path, query: str) -> dict[str, Any] | None:
    """What it waits for at this moment; the run writes first what it has noted so far."""
    try:
        found: dict[str, Any] = call(run, "why", {"query": query})
    except NotRunning:
        return None
    return found
