"""The ``daybreak`` command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer

from daybreak.cli import (
    completion,
    control,
    dashboard,
    doctor,
    filters,
    freshen,
    init,
    link,
    policies,
    query,
    replay,
    report,
    reproduce,
    run,
    run_script,
    schedule,
    simulate,
    top,
    whatif,
    why,
)
from daybreak.cli.console import error_console
from daybreak.model.errors import ConfigError, ConfigErrors
from daybreak.runtime.eventlog import only_json
from daybreak.version import __version__

app = typer.Typer(
    name="daybreak",
    help="Runs many continuous queries in one Spark application, scheduled by what matters.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("doctor")(doctor.doctor)
app.command("check")(run.check)
app.command("run")(run.run)
app.command("run-script")(run_script.run_script)
app.command("query")(query.query)
app.command("queries")(control.queries)
app.command("top")(top.top)
app.command("pause")(control.pause)
app.command("resume")(control.resume)
app.command("drop")(control.drop)
app.command("register")(control.register)
app.command("set")(control.set_values)
app.command("simulate")(simulate.simulate)
app.command("replay")(replay.replay)
app.command("whatif")(whatif.whatif)
app.command("why")(why.why_late)
app.command("dashboard")(dashboard.dashboard)
app.command("report")(report.report)
app.command("policies")(policies.policies)
app.command("schedule")(schedule.schedule)
app.command("reproduce")(reproduce.reproduce)
app.command("completion")(completion.completion)
app.add_typer(freshen.app, name="freshen")
app.add_typer(link.app, name="link")
app.add_typer(filters.app, name="filters")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"daybreak {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command; a user's mistake ends in one line and exit code 2.

    ``args``: for programs that another one starts, such as ``spark-submit``; left out: those of
    this process.
    """
    try:
        app(args)
    except ConfigError as error:
        errors = error.errors if isinstance(error, ConfigErrors) else (error,)
        for found in errors:
            if only_json():
                logging.getLogger("daybreak.command").error("%s", found)
            else:
                line = f"[bold red]error:[/] {_escaped(str(found))}"
                error_console().print(line, highlight=False, soft_wrap=True)
        sys.exit(2)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
