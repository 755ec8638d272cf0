"""``daybreak run`` and ``daybreak check``: a pipeline on Spark."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daybreak.cli.completion import complete_policy
from daybreak.cli.console import console, print_json
from daybreak.cli.dashboard import (
    DEFAULT_ADDRESS,
    DashboardAddress,
    need_web,
    say_plainly,
    serve_run,
)
from daybreak.cli.logs import LogFormat, LogLevel, set_up, spark_as_events, teller
from daybreak.cli.watch import Watch
from daybreak.extras import need_pyspark
from daybreak.model.errors import ConfigError, ConfigErrors, Findings
from daybreak.model.pipeline import Pipeline
from daybreak.model.shedding import SheddingParams
from daybreak.model.sparkconf import SparkSettings, settings_of_command
from daybreak.policies.registry import make_policy, make_policy_with
from daybreak.report.classes import treatment_table
from daybreak.report.figures import can_draw
from daybreak.report.overload import dropped_table
from daybreak.report.run import as_json as report_as_json
from daybreak.report.run import class_table, loss_lines, plot_run, query_table, time_table
from daybreak.report.text import table
from daybreak.runtime.report import RunReport

if TYPE_CHECKING:
    from daybreak.spark.app import App
    from daybreak.spark.declared.application import CheckedApplication
    from daybreak.spark.run import Run
    from daybreak.spark.sql.checked import CheckedQuery

PipelineFile = Annotated[Path, typer.Argument(help="A pipeline file.")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark master, such as local[2] or spark://host:7077; default: as in the pipeline, "
        "or local[*]."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="A setting of Spark, KEY=VALUE, over the pipeline's; may be repeated."),
]
Packages = Annotated[
    list[str] | None,
    typer.Option(help="Packages for Spark to resolve, group:artifact:version, between commas."),
]
DriverHost = Annotated[
    str | None,
    typer.Option(
        help="Where executors of a cluster find this process; default: found by asking the master."
    ),
]
PolicyName = Annotated[
    str | None, typer.Option(help="Instead of the file's policy.", autocompletion=complete_policy)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check(
    pipeline: PipelineFile,
    policy: PolicyName = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    driver_host: DriverHost = None,
    as_json: AsJson = False,
) -> None:
    """Validates a pipeline and shows what would run, or all that is wrong; starts nothing.

    Example: daybreak check pipeline.toml
    """
    try:
        settings = settings_of_command(master, conf or (), packages or ())
        application = _checked(pipeline, policy, settings, driver_host)
    except ConfigError as error:
        if not as_json:
            raise
        errors = error.errors if isinstance(error, ConfigErrors) else (error,)
        parts = ("place", "finding", "remedy")
        print_json({"errors": [{part: getattr(e, part) for part in parts} for e in errors]})
        raise typer.Exit(2) from None
    if as_json:
        print_json(_as_json(application))
        return
    rows = [("query", "class", "reads", "kind", "one job with", "columns", "sink")]
    together = application.together()
    for name, checked in application.checked.items():
        spec = application.specs[name]
        sink = spec.sink.shown if spec.sink else "memory"
        columns = ", ".join(checked.schema.names)
        others = _some(together[name])
        reads = ", ".join(checked.reads)
        rows.append((name, spec.cls, reads, _kind(checked), others, columns, sink))
    console().print(table(rows))
    console().print(
        f"{len(application.checked)} queries in {len(application.network.classes)} classes, "
        f"policy {application.policy.name}, time zone {application.timezone}: "
        "valid; nothing was started"
    )


def _checked(
    pipeline: Path, policy: str | None, settings: SparkSettings, driver_host: str | None
) -> CheckedApplication:
    """Spark starts once, whatever is wrong: a user sees all findings together."""
    findings = Findings()
    declared = Pipeline.read(pipeline, findings)
    application = open_app(declared, policy, settings, driver_host, findings).check(
        policy, findings
    )
    application.sinks(_run_dir(declared))
    return application


def run(
    pipeline: PipelineFile,
    policy: PolicyName = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="State, checkpoints and report; default: runs/NAME.")
    ] = None,
    duration_s: Annotated[
        float | None,
        typer.Option(min=0.0, help="Stop after this many seconds; default: at Ctrl-C."),
    ] = None,
    until_end: Annotated[
        bool,
        typer.Option(help="Stop when all present input is answered; closes open windows."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Threads that submit jobs; left out: 2, planned: 3."),
    ] = None,
    express: Annotated[
        int,
        typer.Option(min=0, max=16, help="Additional threads for the most important class alone."),
    ] = 0,
    reset_query: Annotated[
        list[str] | None, typer.Option(help="Restart this query at the next segment.")
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(help="Give up the position of this query, which is no longer declared."),
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve a web page that shows and controls the run.")
    ] = False,
    dashboard_address: DashboardAddress = DEFAULT_ADDRESS,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    driver_host: DriverHost = None,
    shed: Annotated[
        bool | None, typer.Option("--shed/--no-shed", help="Drop tuples under overload.")
    ] = None,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    as_json: AsJson = False,
) -> None:
    """Runs a pipeline on Spark until Ctrl-C, and ends in a report.

    After a crash, start it again with the same run directory: nothing is lost, nothing comes
    twice. A query that an earlier start declared and this one does not keeps its place in the
    streams for keep_undeclared (a limit of the pipeline, 7 days), unless --forget names it.

    Example: daybreak run pipeline.toml --policy stride --duration-s 60 --log-format json
    """
    declared = Pipeline.read(pipeline)
    settings = settings_of_command(master, conf or (), packages or ())
    only_json = set_up(log_format, log_level)
    if dashboard:
        need_web(dashboard_address)
    with spark_as_events() if only_json else nullcontext():
        app = open_app(declared, policy, settings, driver_host)
    if shed is not None:
        app.shedding = (declared.shedding or SheddingParams()) if shed else None
    folder = run_dir or _run_dir(declared)
    started = app.run(
        policy,
        run_dir=folder,
        workers=workers,
        express=express,
        reset=reset_query or (),
        forget=forget or (),
        on_failure="report",  # in the status, the event log, the summary and the exit code
    )
    with started as running, ExitStack() as beside:
        if dashboard:
            say = teller("dashboard") if only_json else say_plainly
            beside.enter_context(serve_run(running, dashboard_address, say))
        drained = _draining(running) if until_end else None
        title = f"{declared.name} under {running.policy.name}"
        lines = teller("status") if only_json else None
        watch = Watch(running, title, lines=lines)
        watch.until(
            lambda elapsed: (
                (duration_s is not None and elapsed >= duration_s)
                or (drained is not None and drained.done())
            )
        )
        if drained is not None and drained.done():
            drained.result()  # raises what went wrong
    _tell_end(running, folder, as_json=as_json, only_json=only_json)
    if running.failures or running.stopped_streams:
        raise typer.Exit(1)


def _run_dir(pipeline: Pipeline) -> Path:
    """Where a run is kept unless ``--run-dir`` names another place."""
    return Path("runs") / pipeline.name


def _tell_end(running: Run, folder: Path, *, as_json: bool, only_json: bool) -> None:
    report = running.report()
    if as_json:
        print_json(
            {
                **report_as_json(report),
                "failures": running.failures,
                "stopped_streams": running.stopped_streams,
            }
        )
    else:
        _show(report, running.folder / "record")
        console().print(f"next: daybreak whatif {folder} --policy fcfs")
    say = teller("summary") if only_json else say_plainly
    for name, rows in report.manifest["late"].items():
        say(f"query {name}: {rows} rows were late, kept in {running.folder / 'late' / name}")
    for line in loss_lines(report):
        say(line)
    for name, why in running.failures.items():
        say(f"query {name} failed and was parked: {why}")


def _show(report: RunReport, record: Path) -> None:
    to = console()
    to.print(table(class_table(report)))
    if treatment := treatment_table(report):
        to.print(table(treatment))
    to.print(table(query_table(report, 10), title="slowest queries"))
    to.print(table(time_table(report)))
    if rows := dropped_table(report, 10):
        to.print(table(rows, title="dropped by load shedding"))
    to.print(f"report: {record}")
    if can_draw():
        try:
            to.print(f"picture: {plot_run(report, record / 'report.png')}")
        except OSError as error:  # a full disk is no reason to end badly
            to.print(f"no picture: {error}")


def _draining(running: Run) -> Future[None]:
    """Waits for the end of bounded input on a thread of its own, so that Ctrl-C is heard."""
    outcome: Future[None] = Future()

    def drain() -> None:
        try:
            running.drain(flush=True)
            outcome.set_result(None)
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=drain, name="drain", daemon=True).start()
    return outcome


def open_app(
    pipeline: Pipeline,
    policy: str | None,
    settings: SparkSettings,
    driver_host: str | None = None,
    findings: Findings | None = None,
) -> App:
    """The application on a Spark of its own; ``settings`` go before the pipeline's.

    What needs no Spark is refused before it starts, unless ``findings`` are gathered.
    """
    if findings is None:
        _refuse_early(pipeline, policy)
    need_pyspark("daybreak")
    from daybreak.spark.app import App
    from daybreak.spark.session import open_session

    chosen = settings.over(pipeline.spark)
    spark = open_session(
        pipeline.name, chosen.master or "local[*]", driver_host=driver_host, settings=chosen
    )
    return App.from_pipeline(pipeline, spark, findings)


def _refuse_early(pipeline: Pipeline, policy: str | None) -> None:
    if policy is not None:
        make_policy_with(policy)
    else:
        make_policy(pipeline.policy, pipeline.policy_table, place=f"{pipeline.name}: [app]")
    for query in pipeline.queries:
        if query.sql is None:
            raise ConfigError(
                query.place, "has no SQL", "a query of boxes can only be simulated: add sql"
            )


def _some(names: list[str], most: int = 2) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "-"


def _kind(checked: CheckedQuery) -> str:
    """What a query does; of one over windows, how long they are and what they are made from."""
    if checked.windows is None:
        return checked.kind
    panes = ", from panes" if checked.windows.pane_us is not None else ""
    return f"{checked.kind} of {checked.windows.over}{panes}"


def _as_json(application: CheckedApplication) -> dict[str, object]:
    together = application.together()
    return {
        "policy": application.policy.name,
        "timezone": application.timezone,
        "queries": [
            {
                "query": name,
                "class": application.specs[name].cls,
                "reads": list(checked.reads),
                "kind": checked.kind,
                "together": together[name],
                "columns": checked.schema.names,
            }
            for name, checked in application.checked.items()
        ],
    }
