"""``daybreak report``: what a finished run left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.console import console, print_json
from daybreak.report.classes import treatment_table
from daybreak.report.figures import can_draw
from daybreak.report.overload import dropped_table, overload_lines
from daybreak.report.run import (
    as_json,
    class_table,
    ingest_lines,
    job_lines,
    loss_lines,
    plot_run,
    query_table,
    starts_lines,
    time_table,
)
from daybreak.report.text import table
from daybreak.runtime.report import RunReport
from daybreak.runtime.starts import load_run, record_of


def report(
    run: Annotated[Path, typer.Argument(help="A run directory, or the folder of its record.")],
    queries: Annotated[int, typer.Option(min=0, help="How many queries to list.")] = 10,
    png: Annotated[
        Path | None, typer.Option(help="Where the picture goes; default: into the run's folder.")
    ] = None,
    last_start: Annotated[
        bool, typer.Option("--last-start", help="Only the last start of the run directory.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows a run's response times, utility and overheads, over all its starts.

    Example: daybreak report runs/simulation/round-robin
    """
    record = record_of(run)
    found = RunReport.load(record) if last_start else load_run(record)
    if json:
        print_json(as_json(found))
        return
    to = console()
    about = found.manifest
    to.print(
        f"[bold]{about.get('pipeline', run.name)}[/] under {about['policy']} "
        f"({about['world']}), {found.duration_s:.3g} s, {about['decisions']} decisions"
    )
    for line in starts_lines(found):
        to.print(line, markup=False, highlight=False)
    to.print(table(class_table(found)))
    if rows := treatment_table(found):
        to.print(table(rows))
    if queries:
        to.print(table(query_table(found, queries), title=f"slowest {queries} queries"))
    if rows := dropped_table(found, queries):
        to.print(table(rows, title="dropped by load shedding"))
    to.print(table(time_table(found)))
    for line in overload_lines(found):
        to.print(line)
    for line in (*job_lines(found), *ingest_lines(found), *loss_lines(found)):
        to.print(line, markup=False, highlight=False)
    if can_draw():
        to.print(f"picture: {plot_run(found, png or record / 'report.png')}")
