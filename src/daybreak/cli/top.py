"""``daybreak top``: a running pipeline on the terminal, with the numbers of the dashboard."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from daybreak.cli.console import console, error_console, print_json
from daybreak.cli.watch import stop_signals
from daybreak.model.errors import ConfigError, suggestion
from daybreak.report.top import FRAME_LINES, JOBS, SORTS, stream_lines, top_frame
from daybreak.runtime.control import NotRunning, call
from daybreak.runtime.snapshot import JobRow, Point, Snapshot


def top(
    run: Annotated[Path, typer.Argument(help="The run directory of a running pipeline.")],
    sort: Annotated[str, typer.Option(help=f"Queries by {', '.join(SORTS)}.")] = "waiting",
    queries: Annotated[
        int | None, typer.Option(min=0, help="How many to list; default: what fits.")
    ] = None,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between frames.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON.")] = False,
) -> None:
    """Follows a running pipeline: classes, queries, jobs and the scheduler's share; Ctrl-C ends it.

    Queries that are parked or retried come first.

    Example: daybreak top runs/wildfire --sort oldest
    """
    if sort not in SORTS:
        raise ConfigError("--sort", f"unknown key {sort!r}", suggestion(sort, SORTS))
    if as_json:
        print_json(_asked(run))
        return
    to = console()
    frames = _Frames(run, sort, queries)
    if once or not sys.stdout.isatty():
        to.print(frames.next(to))
        return
    try:
        _follow(to, lambda: frames.next(to), every_s)
    except NotRunning:
        error_console().print(f"the run has ended: daybreak report {run}", highlight=False)


class _Frames:
    """Asks for what is new, and keeps what was new before."""

    def __init__(self, run: Path, sort: str, most: int | None) -> None:
        self._run, self._sort, self._most = run, sort, most
        self._last: Point | None = None
        self._jobs: deque[JobRow] = deque(maxlen=JOBS)

    def next(self, to: Console) -> RenderableType:
        seen = self._jobs[-1].seq if self._jobs else -1
        points = self._last.seq if self._last else -1
        found = Snapshot.from_json(_asked(self._run, jobs_after=seen, points_after=points))
        self._last = found.last or self._last
        self._jobs.extend(found.jobs)
        room = (
            to.height
            - len(stream_lines(found))
            - FRAME_LINES
            - JOBS
            - len(found.classes)
            - len(found.troubles)
        )
        most = self._most if self._most is not None else max(5, room)
        return top_frame(found, self._last, list(self._jobs), self._sort, most)


def _follow(to: Console, frame: Callable[[], RenderableType], every_s: float) -> None:
    first = frame()  # before the screen is cleared: whoever mistyped reads the error
    screen = Live(first, console=to, screen=True, auto_refresh=False)
    with stop_signals() as stopped, screen as live:
        due = time.monotonic() + every_s
        while not stopped.wait(max(0.0, due - time.monotonic())):
            due += every_s
            live.update(frame(), refresh=True)


def _asked(run: Path, **after: int) -> dict[str, object]:
    try:
        found: dict[str, object] = call(run, "snapshot", after)
    except NotRunning as error:
        raise NotRunning(
            error.place,
            error.finding,
            f"see what it left with daybreak report {run} or daybreak dashboard {run}, "
            "or start it with daybreak run",
        ) from None
    return found
