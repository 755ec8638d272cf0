"""``daybreak run-script``: an ordinary Spark program, its streaming queries governed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daybreak.cli.completion import complete_policy
from daybreak.cli.console import error_console
from daybreak.cli.dashboard import DEFAULT_ADDRESS, DashboardAddress, need_web, say_plainly, serve
from daybreak.cli.logs import LogFormat, LogLevel, set_up
from daybreak.extras import need_pyspark
from daybreak.model.errors import ConfigError
from daybreak.report.run import class_table, query_table
from daybreak.report.text import table
from daybreak.runtime.eventlog import EVENTS_FILE

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor


def run_script(
    script: Annotated[Path, typer.Argument(help="A Python program that starts streaming queries.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The program's own arguments, after --.")
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help="A TOML file: classes, and which queries belong to which.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(help="Decides whose micro-batch runs next.", autocompletion=complete_policy),
    ] = "planned",
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Micro-batches at a time; default: 2.")
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Keep a record there, for report and whatif; default: write nothing."),
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve a web page that shows and controls queries.")
    ] = False,
    dashboard_address: DashboardAddress = DEFAULT_ADDRESS,
    log_format: LogFormat = "text",
    log_level: LogLevel = "warning",
) -> None:
    """Runs a Spark program unchanged, and lets a policy decide when its queries run.

    Ends with the program's exit code; a summary goes to standard error. With --run-dir it keeps a
    record for daybreak report, whatif and dashboard, and answers daybreak top, pause and set.

    Example: daybreak run-script streams.py --classes classes.toml --dashboard -- --input /data
    """
    if not script.is_file():
        raise ConfigError(str(script), "is not a file", "name a Python program")
    set_up(log_format, log_level)
    if dashboard:
        need_web(dashboard_address)
    need_pyspark("daybreak run-script")
    from daybreak.spark.governed.class_book import ClassBook
    from daybreak.spark.governed.governor import Governor
    from daybreak.spark.governed.governor_commands import handle
    from daybreak.spark.governed.governor_files import own_run_dir
    from daybreak.spark.governed.governor_options import chosen_policy
    from daybreak.spark.governed.script import governing, run_program

    chosen_policy(policy)  # refused before Spark starts
    book = ClassBook.read(classes) if classes is not None else None
    if run_dir is not None:
        own_run_dir(run_dir, script.stem).close()  # refused before Spark starts, too
    pages = ExitStack()

    def make(spark: Any, others: Sequence[Governor]) -> Governor:
        folder = run_dir
        if folder is not None and others:
            say_plainly(f"a further session is governed, but not recorded in {folder}")
            folder = None
        governor = Governor(spark, policy, book, workers=workers, name=script.stem, run_dir=folder)
        if dashboard:
            ask = partial(handle, governor)
            pages.enter_context(serve(ask, dashboard_address, folder, say_plainly))
        return governor

    with pages, governing(make) as governors:
        code = run_program(script, arguments or [])
    for governor in governors:
        _tell(governor)
    raise typer.Exit(code)


def _tell(governor: Governor) -> None:
    report, to = governor.stop(), error_console()
    if report.queries:
        to.print(table(class_table(report)))
        to.print(table(query_table(report, 10), title="slowest queries"))
    free = report.manifest["free_seen"]
    to.print(
        f"{report.manifest['governed']} queries were governed under {governor.policy.name}, "
        f"{len(free)} ran free",
        highlight=False,
    )
    for name, why in free.items():
        say_plainly(f"query {name} ran free: {why}")
    for name, why in governor.failures.items():
        say_plainly(f"query {name} failed: {why}")
    if governor.folder is not None:
        files = (governor.folder / name for name in ("record", EVENTS_FILE))
        say_plainly(f"written: {', '.join(str(file) for file in files if file.exists())}")
        say_plainly(f"next: daybreak whatif {governor.folder} --policy fcfs")
