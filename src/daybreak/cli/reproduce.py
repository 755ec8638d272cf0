"""``daybreak reproduce``: the source texts' tables and figures, judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from daybreak.cli.completion import complete_experiment
from daybreak.cli.console import console, error_console, print_json, progress
from daybreak.model.errors import ConfigError
from daybreak.report.text import table
from daybreak.suites import (
    ClaimRecord,
    ExperimentRecord,
    Request,
    all_experiments,
    find_experiments,
)

#: What --json prints of a record.
SUMMARY: tuple[Literal["experiment", "seeds", "claims", "figure"], ...] = (
    "experiment", "seeds", "claims", "figure",
)  # fmt: skip


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experiments, or patterns such as 'aurora/*'.", autocompletion=complete_experiment
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    seeds: Annotated[
        str | None,
        typer.Option(help="How many seeds to run, or which: 5 (the seeds 1 to 5) or 101-105."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes to run them on; 0: one per core.")
    ] = 0,
    trace: Annotated[
        list[str] | None, typer.Option(help="A recorded trace, as NAME=FILE; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results and pictures go.")] = Path("reproduced"),
    docs: Annotated[
        Path | None, typer.Option(help="Also write the results pages into this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Runs experiments of the source texts and judges their claims.

    Exits with 0 only if every robust claim holds.

    Example: daybreak reproduce aurora/table3.1 'links/*'
    """
    if listing:
        _list(as_json)
        return
    if not names and not every:
        raise ConfigError("reproduce", "no experiment named", "name some, or use --all or --list")
    request = Request(
        seeds=None if seeds is None else read_seeds(seeds),
        traces=_traces(trace or []),
        workers=workers,
        out=out,
    )
    chosen = find_experiments(names or ["*"])
    records: list[ExperimentRecord] = []
    for name, suite in chosen.items():
        with progress(name) as report:
            records.append(suite.run(name, replace(request, on_progress=report)))
        if not as_json:
            _show(records[-1], console())
    if as_json:
        summaries = [{key: record[key] for key in SUMMARY} for record in records]
        print_json(summaries[0] if len(summaries) == 1 else summaries)
    if docs is not None:
        for suite in dict.fromkeys(chosen.values()):
            for page in suite.write_pages(out, docs):
                error_console().print(f"wrote {page}")
    if not all(line["holds"] for r in records for line in r["claims"] if line["kind"] == "robust"):
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    titles = {name: title for name, (_, title) in all_experiments().items()}
    if as_json:
        print_json([{"experiment": n, "title": title} for n, title in titles.items()])
        return
    console().print(table([("experiment", "what it shows"), *titles.items()]))


def read_seeds(text: str) -> Sequence[int]:
    """``5`` is the seeds 1 to 5, ``101-105`` those five."""
    first, dash, last = text.partition("-")
    if first.isdecimal() and (last.isdecimal() or not dash):
        chosen = range(int(first), int(last) + 1) if dash else range(1, int(first) + 1)
        if chosen:
            return chosen
    raise ConfigError(
        "--seeds", f"{text!r} gives no seeds", "give a count (5) or a range (101-105)"
    )


def _traces(given: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or not Path(file).is_file():
            raise ConfigError("--trace", f"{text!r} is not NAME=FILE of an existing file", "fix it")
        found[name] = Path(file)
    return found


def _show(record: ExperimentRecord, to: Console) -> None:
    to.print(f"\n[bold]{record['experiment']}[/]  {record['title']}")
    if record["table"]:
        to.print(table(record["table"]))
    rows = [("verdict", "kind", "claim", "text", "ours", "rule")]
    for line in record["claims"]:
        rows.append((
            _word(line), line["kind"], line["claim"], line["paper"], line["ours"],
            line["rule"] or "-",
        ))  # fmt: skip
    to.print(table(rows))
    for note in record["notes"]:
        to.print(f"  note: {note}")
    if record["figure"]:
        to.print(f"  figure: {record['figure']}")


def _word(line: ClaimRecord) -> str:
    if line["holds"] is None:
        return "skipped" if line["kind"] == "skipped" else "-"
    return "holds" if line["holds"] else "FAILS"
