"""``daybreak reproduce``: the source texts' tables and figures, judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from daybreak.cli.console import console, error_console, print_json, progress
from daybreak.experiments.core import Context, Experiment, Outcome
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
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds to run.")] = None,
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
    records: list[dict[str, Any]] = []
    held = True
    for experiment in chosen:
        record, outcome = _run(experiment, seeds, traces, out)
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


def _run(
    experiment: Experiment, seeds: int | None, traces: dict[str, Path], out: Path
) -> tuple[dict[str, Any], Outcome]:
    chosen = list(range(1, (seeds or experiment.seeds) + 1))
    with progress(experiment.name) as report:
        outcome = experiment.run(Context(seeds=chosen, traces=traces, on_progress=report))
    stem = experiment.name.replace("/", "-")
    figure = None
    if outcome.draw is not None and can_draw():
        figure = str(save_figure(outcome.draw, out / f"{stem}.png"))
    record = {
        "experiment": experiment.name,
        "seeds": chosen,
        "claims": [c.as_json() for c in outcome.claims],
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
    verdicts = [("verdict", "kind", "claim", "text", "ours")]
    for c in outcome.claims:
        verdict = "skipped" if c.kind == "skipped" else "holds" if c.holds else "FAILS"
        verdicts.append((verdict, c.kind, c.claim, c.paper, c.ours))
    to.print(table(verdicts))
    for note in outcome.notes:
        to.print(f"  note: {note}")
    if record["figure"]:
        to.print(f"  figure: {record['figure']}")
    elif outcome.draw is not None:
        to.print("  no figure: install the plot extra (pip install 'daybreak[plot]')")
