"""``daybreak reproduce``: the source texts' tables and figures, judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from daybreak.cli.console import console, error_console, print_json, progress
from daybreak.experiments.core import Context, Experiment, Outcome, as_json, read_seeds
from daybreak.experiments.pages import write_pages
from daybreak.experiments.registry import all_experiments, find_experiments
from daybreak.model.errors import ConfigError
from daybreak.report.figures import can_draw, save_figure
from daybreak.report.text import table


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments, or patterns such as 'aurora/*'.")
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
    chosen = find_experiments(names or ["*"])
    traces = _traces(trace or [])
    wanted = None if seeds is None else read_seeds(seeds)
    records: list[dict[str, Any]] = []
    held = True
    for experiment in chosen:
        context = Context(
            seeds=wanted or range(1, experiment.seeds + 1), traces=traces, workers=workers
        )
        record, outcome = _run(experiment, context, out)
        records.append(record)
        held = held and outcome.holds
        if not as_json:
            _show(experiment, outcome, record, console())
    if as_json:
        print_json(records[0] if len(records) == 1 else records)
    if docs is not None:
        for page in write_pages(out, docs):
            error_console().print(f"wrote {page}")
    if not held:
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    everything = all_experiments()
    if as_json:
        print_json([{"experiment": n, "title": e.title} for n, e in everything.items()])
        return
    rows = [("experiment", "what it shows"), *((n, e.title) for n, e in everything.items())]
    console().print(table(rows))


def _traces(given: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or not Path(file).is_file():
            raise ConfigError("--trace", f"{text!r} is not NAME=FILE of an existing file", "fix it")
        found[name] = Path(file)
    return found


def _run(experiment: Experiment, context: Context, out: Path) -> tuple[dict[str, Any], Outcome]:
    with progress(experiment.name) as report:
        outcome = experiment.run(replace(context, on_progress=report))
    stem = experiment.name.replace("/", "-")
    figure = None
    if outcome.draw is not None and can_draw():
        figure = str(save_figure(outcome.draw, out / f"{stem}.png"))
    record = {
        "experiment": experiment.name,
        "seeds": list(context.seeds),
        "claims": [as_json(line) for line in outcome.claims],
        "figure": figure,
    }
    page = {
        **record,
        "title": experiment.title,
        "table": [list(row) for row in outcome.table],
        "notes": list(outcome.notes),
    }
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{stem}.json"
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(page, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(target)
    return record, outcome


def _show(experiment: Experiment, outcome: Outcome, record: dict[str, Any], to: Console) -> None:
    to.print(f"\n[bold]{experiment.name}[/]  {experiment.title}")
    if outcome.table:
        to.print(table(outcome.table))
    verdicts = [("verdict", "kind", "claim", "text", "ours", "rule")]
    for line in outcome.claims:
        verdict = "FAILS" if line.verdict == "fails" else line.verdict
        rule = line.rule.requires if line.rule is not None else "-"
        verdicts.append((verdict, line.kind, line.claim, line.paper, line.ours, rule))
    to.print(table(verdicts))
    for note in outcome.notes:
        to.print(f"  note: {note}")
    if record["figure"]:
        to.print(f"  figure: {record['figure']}")
    elif outcome.draw is not None:
        to.print("  no figure: install the plot extra (pip install 'daybreak[plot]')")
