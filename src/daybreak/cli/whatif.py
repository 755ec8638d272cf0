"""``daybreak whatif``: a recorded run under other policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.completion import complete_policy
from daybreak.cli.console import console, print_json, progress
from daybreak.cli.control import named_policy
from daybreak.model.errors import ConfigError
from daybreak.report.figures import can_draw
from daybreak.report.text import count, table
from daybreak.report.whatif import (
    calibration_line,
    calibration_table,
    plot_whatif,
    promise_lines,
    whatif_table,
)
from daybreak.simulation.replay import MOST
from daybreak.simulation.whatif import Wanted, WhatIf, what_if


def whatif(
    run: Annotated[Path, typer.Argument(help="The directory of a run on Spark, finished or not.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Another policy: NAME or 'NAME {\"train\": 100}'; may be repeated.",
            autocompletion=complete_policy,
        ),
    ] = None,
    last_s: Annotated[float | None, typer.Option(min=0.1, help="Only the last seconds.")] = None,
    seed: Annotated[int, typer.Option(help="For policies that draw.")] = 1,
    most: Annotated[
        int, typer.Option(min=1, help="Replay at most this many deliveries, the newest ones.")
    ] = MOST,
    png: Annotated[Path | None, typer.Option(help="Write the curves as a picture there.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with the curves.")] = False,
) -> None:
    """Replays what a run recorded under other policies, in virtual time.

    The run's own policy is replayed, too: how far that is from what was recorded is how far the
    others can be trusted.

    Example: daybreak whatif runs/wildfire --policy stride --policy fcfs --png curves.png
    """
    if png is not None and not can_draw():
        raise ConfigError("--png", "matplotlib is not installed", "pip install 'daybreak[plot]'")
    wanted = [Wanted(*named_policy(text)) for text in policy or ()]
    with progress("replaying") as report_progress:
        found = what_if(run, wanted, seed=seed, last_s=last_s, most=most, progress=report_progress)
    picture = plot_whatif(found, png) if png is not None else None
    if json:
        print_json(found.as_json())
        return
    _show(found)
    if picture is not None:
        console().print(f"picture: {picture}")


def _show(found: WhatIf) -> None:
    to = console()
    until_s = found.from_s + float(found.edges_s[-1])
    to.print(
        f"from {found.from_s:.3g} to {until_s:.3g} s: {count(found.tuples)} tuples to answer, "
        f"in {count(found.deliveries)} deliveries",
        highlight=False,
    )
    if found.capped:
        to.print(f"the newest of {count(found.known)} deliveries, for --most {found.most}")
    to.print(table(whatif_table(found), title="the recorded arrivals under each policy"))
    for line in promise_lines(found):
        to.print(line, markup=False, highlight=False)
    to.print(calibration_line(found), highlight=False)
    to.print(table(calibration_table(found), title="replayed / recorded"))
    for caveat in found.caveats:
        to.print(f"note: {caveat}", markup=False, highlight=False)
