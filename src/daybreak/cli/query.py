"""``daybreak query``: one SELECT over what a run keeps of its streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.console import console, print_json
from daybreak.cli.run import AsJson, Conf, DriverHost, Master, Packages, PipelineFile, open_app
from daybreak.model.pipeline import Pipeline
from daybreak.model.sparkconf import settings_of_command
from daybreak.report.text import table


def query(
    pipeline: PipelineFile,
    sql: Annotated[str, typer.Argument(help="A SELECT over the pipeline's streams and views.")],
    run_dir: Annotated[
        Path | None, typer.Option(help="The run's directory; default: runs/NAME.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Print at most this many rows.")] = 50,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    driver_host: DriverHost = None,
    as_json: AsJson = False,
) -> None:
    """Asks once, over what the streams of a run retain (retain = "1 hour" in the pipeline).

    Works while the pipeline runs, and after. It has a Spark of its own and takes no turn in the
    run's schedule.

    Example: daybreak query pipeline.toml 'SELECT max(temperature) AS top FROM readings'
    """
    declared = Pipeline.read(pipeline)
    settings = settings_of_command(master, conf or (), packages or ())
    app = open_app(declared, None, settings, driver_host)
    from daybreak.spark.jobs.adhoc import Kept, ad_hoc
    from daybreak.spark.sinks.text_formats import plain_rows

    application = app.check()
    folder = run_dir or Path("runs") / declared.name
    kept = Kept(folder, application.name, application.log, application.store)
    found = ad_hoc(application.spark, kept, application.schemas, sql)
    shown = list(plain_rows(found))
    if as_json:
        print_json(shown)
        return
    cells = [[str(cell) for cell in row.values()] for row in shown[:rows]]
    console().print(table([found.column_names, *cells]))
    if len(shown) > rows:
        console().print(f"... and {len(shown) - rows} more rows: --rows or --json shows them")
