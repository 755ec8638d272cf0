"""``daybreak schedule``: which class gets which slot, and how long each waits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.console import console, print_json
from daybreak.model.errors import ConfigError
from daybreak.report.figures import can_draw
from daybreak.report.schedule import plot_schedule, schedule_json, schedule_table, schedule_text
from daybreak.report.text import table

#: A schedule of more slots than this is drawn or read by a script, not by eye.
READABLE = 2000


def schedule(
    priorities: Annotated[str, typer.Option(help="Class priorities, highest first: 5,4,3,2,1.")],
    png: Annotated[Path | None, typer.Option(help="Draw the schedule into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prints the slots that ABD and MBD give classes of these priorities, and CQC's waits beside.

    Example: daybreak schedule --priorities 5,4,3,2,1 --png schedule.png
    """
    wanted = _parsed(priorities)
    if png is not None and not can_draw():
        raise ConfigError("--png", "matplotlib is not installed", "install daybreak[plot]")
    picture = None if png is None else plot_schedule(wanted, png)
    if json:
        print_json(schedule_json(wanted))
        return
    to = console()
    if sum(wanted) <= READABLE:
        to.print(schedule_text(wanted), soft_wrap=True, highlight=False)
    else:
        to.print(f"{sum(wanted)} slots: too many to read; --json lists them")
    to.print(table(schedule_table(wanted)))
    if picture is not None:
        to.print(f"picture: {picture}")


def _parsed(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(
            "--priorities", f"{text!r} is not a list of whole numbers", "give 5,4,3,2,1"
        ) from error
    for number in found:
        if not 1 <= number <= 100_000:
            raise ConfigError("--priorities", f"priority {number}", "give 1 to 100000")
    if len(found) > 1000:
        raise ConfigError("--priorities", f"{len(found)} classes", "give at most 1000")
    if found != sorted(found, reverse=True):
        raise ConfigError("--priorities", f"{text!r} is not in order", "highest class first")
    return found
