"""``daybreak doctor``: what is wrong here, and the command that fixes it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from daybreak.cli.console import console, print_json
from daybreak.cli.dashboard import DEFAULT_ADDRESS
from daybreak.doctor.check_result import CheckResult, CheckStatus
from daybreak.doctor.examination import examine
from daybreak.model.secrets import without_secrets
from daybreak.runtime.display import plural

_STYLES = {
    CheckStatus.OK: "green",
    CheckStatus.OPTIONAL: "dim",
    CheckStatus.WARNING: "yellow",
    CheckStatus.FAILURE: "bold red",
}
_WIDEST_CHECK = 20


def doctor(
    pipeline: Annotated[
        Path | None, typer.Argument(help="A pipeline file to examine as well.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Where its run will be kept; default: runs/NAME.")
    ] = None,
    dashboard_address: Annotated[
        str | None,
        typer.Option(help=f"HOST:PORT that a dashboard must get; default: {DEFAULT_ADDRESS}."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Examines Java, Spark, Python, packages, memory, disk and ports, and a pipeline's needs.

    Prints what is wrong and the command that fixes it. Starts nothing and writes nothing.
    Exits with 0 if a run can start here, and with 1 if any check fails.

    Example: daybreak doctor pipeline.toml
    """
    results = examine(
        pipeline,
        run_dir=run_dir,
        dashboard=dashboard_address,
        default_dashboard=DEFAULT_ADDRESS,
    )
    seen: list[CheckResult] = []
    to = console()
    for result in results:
        seen.append(result)
        if not as_json:
            _show(result, to)
    counts = Counter(result.status for result in seen)
    failed = counts[CheckStatus.FAILURE]
    if as_json:
        print_json({"ok": not failed, "checks": [result.as_json() for result in seen]})
    else:
        warned = plural(counts[CheckStatus.WARNING], "warning")
        verdict = plural(failed, "check") + " failed" if failed else "all checks passed"
        to.print(f"{verdict}, {warned}", highlight=False)
    if failed:
        raise typer.Exit(1)


def _show(result: CheckResult, to: Console) -> None:
    line = Text.assemble(
        (f"{result.status:<9}", _STYLES[result.status]),
        f"{result.check:<{_WIDEST_CHECK}} {without_secrets(result.finding)}",
    )
    to.print(line, soft_wrap=True)
    if result.remedy:
        # On a line of its own, unwrapped, to be copied.
        to.print(
            Text(f"{'':9}{'':{_WIDEST_CHECK}} -> {without_secrets(result.remedy)}"), soft_wrap=True
        )
