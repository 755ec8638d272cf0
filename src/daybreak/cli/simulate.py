"""``daybreak simulate``: a pipeline in virtual time, under one policy or several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.completion import complete_policies, complete_policy
from daybreak.cli.console import console, print_json, progress
from daybreak.model.pipeline import Pipeline
from daybreak.model.shedding import SheddingParams
from daybreak.model.specs import SimulationParams
from daybreak.model.tables import Document, Table
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy
from daybreak.report.classes import treatment_table
from daybreak.report.figures import can_draw
from daybreak.report.overload import dropped_table, overload_lines
from daybreak.report.run import as_json, class_table, comparison_table, plot_runs, time_table
from daybreak.report.text import table
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule, load_scale
from daybreak.simulation.simulate import simulate as run_simulation


def simulate(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    policy: Annotated[
        str | None,
        typer.Option(help="Instead of the file's policy.", autocompletion=complete_policy),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Further policies on the same arrivals: P2,P3.", autocompletion=complete_policies
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the file's seed.")] = None,
    duration_s: Annotated[float | None, typer.Option(help="Simulated seconds.")] = None,
    workers: Annotated[int | None, typer.Option(help="Workers.")] = None,
    load: Annotated[float | None, typer.Option(help="Scale rates to this offered load.")] = None,
    overheads: Annotated[str | None, typer.Option(help="none, light, mid or heavy.")] = None,
    shed: Annotated[
        bool | None, typer.Option("--shed/--no-shed", help="Drop tuples under overload.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where the run reports go, one folder per policy.")
    ] = Path("runs/simulation"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Runs a pipeline in virtual time and shows what happened.

    Example: daybreak simulate examples/wildfire-sim.toml --compare round-robin,fcfs

    What another policy would have made of a run on Spark: daybreak whatif.
    """
    declared = Pipeline.read(pipeline)
    given: dict[str, Any] = {
        "seed": seed, "duration_s": duration_s, "workers": workers, "load": load,
        "overheads": overheads,
    }  # fmt: skip
    params = replace(declared.simulation, **{k: v for k, v in given.items() if v is not None})
    shedding = declared.shedding
    if shed is not None:
        shedding = (shedding or SheddingParams()) if shed else None
    policies = _policies(declared, policy, compare)
    reports: dict[str, RunReport] = {}
    with progress("simulating") as report_progress:
        for done, (name, chosen) in enumerate(policies.items()):
            report_progress(done, len(policies))
            reports[name] = _run(declared, params, chosen, shedding)
    folders = [reports[name].save(out / name) for name in reports]
    picture = plot_runs(reports, out / "comparison.png") if can_draw() else None
    if json:
        print_json({name: as_json(report) for name, report in reports.items()})
        return
    _show(declared, reports, folders, picture)


def _policies(pipeline: Pipeline, policy: str | None, compare: str | None) -> dict[str, BasePolicy]:
    first = policy or pipeline.policy
    others = [name.strip() for name in (compare or "").split(",") if name.strip()]
    found: dict[str, BasePolicy] = {}
    for name in dict.fromkeys([first, *others]):
        # The file's [policy] parameters belong to the file's policy alone.
        own = pipeline.policy_table if name == pipeline.policy else None
        document = Document("--policy" if name == policy else "--compare", "", {})
        found[name] = make_policy(name, own or Table(document, (), {}), place=document.name)
    return found


def _run(
    pipeline: Pipeline,
    params: SimulationParams,
    policy: BasePolicy,
    shedding: SheddingParams | None,
) -> RunReport:
    network = pipeline.network
    scale = load_scale(network, params.load, params.workers) if params.load else 1.0
    schedule = draw_schedule(network, params.duration_s, params.seed, scale)
    return run_simulation(
        network,
        policy,
        schedule,
        overheads=params.overhead_set(),
        workers=params.workers,
        seed=params.seed,
        shedding=shedding,
        about={"pipeline": pipeline.name, "overheads": params.overheads, "rate_scale": scale},
    )


def _show(
    pipeline: Pipeline, reports: dict[str, RunReport], folders: list[Path], picture: Path | None
) -> None:
    to = console()
    first_name, first = next(iter(reports.items()))
    to.print(
        f"[bold]{pipeline.name}[/] under {first_name}: {first.manifest['arrivals']} arrivals, "
        f"{first.duration_s:.3g} simulated seconds, {first.manifest['decisions']} decisions"
    )
    to.print(table(class_table(first)))
    if rows := dropped_table(first, 10):
        to.print(table(rows, title="dropped by load shedding"))
    if rows := treatment_table(first):
        to.print(table(rows))
    to.print(table(time_table(first)))
    for line in overload_lines(first):
        to.print(line)
    if len(reports) > 1:
        to.print(table(comparison_table(reports), title="the same arrivals under each policy"))
    for folder in folders:
        to.print(f"report: {folder}")
    if picture is not None:
        to.print(f"picture: {picture}")
    to.print(f"next: daybreak report {folders[0]}, or daybreak policies")
