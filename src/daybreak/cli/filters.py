"""``daybreak filters``: the optimum of a conjunction of filter services, and what if."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer

from daybreak.cli.console import console, print_json, progress
from daybreak.filters import (
    Dependencies,
    Filter,
    Load,
    condon_flow,
    load_filters,
    make_router,
    optimum_per_s,
    optimum_with_dependencies,
    simulate,
)
from daybreak.report.text import duration, table

app = typer.Typer(help="Routes tuples through filter services.", no_args_is_help=True)

FiltersFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file with [filters.NAME] tables.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def optimum(file: FiltersFile, json: Json = False) -> None:
    """The largest throughput any routing can reach, and the flow that reaches it.

    Example: daybreak filters optimum examples/filters.toml
    """
    filters = load_filters(file)
    graph = Dependencies([f.name for f in filters], {f.name: f.after for f in filters})
    flows = {
        " -> ".join(filters[i].name for i in order): flow
        for order, flow in (_flow(filters) if graph.none else {}).items()
    }
    best = _optimum(filters, graph)
    if json:
        print_json({"optimum_per_s": best, "flows_per_s": flows})
        return
    to = console()
    to.print(f"F* = {best:.4g} tuples/s")
    if flows:
        to.print(table([("order", "tuples/s"), *((o, f"{f:.4g}") for o, f in flows.items())]))
    else:
        to.print("with dependencies: over the orders that keep them; no flow is shown")


def _flow(filters: tuple[Filter, ...]) -> dict[tuple[int, ...], float]:
    return condon_flow([f.estimate for f in filters])


def _optimum(filters: tuple[Filter, ...], graph: Dependencies) -> float:
    estimates = [f.estimate for f in filters]
    if graph.none:
        return optimum_per_s(estimates)
    return optimum_with_dependencies(estimates, graph)


@app.command("simulate")
def simulate_(
    file: FiltersFile,
    rate: Annotated[
        float | None, typer.Option(help="Tuples per second; default: saturated.")
    ] = None,
    router: Annotated[str, typer.Option(help="The router.")] = "free-first",
    compare: Annotated[
        str | None, typer.Option(help="Further routers on the same tuples: R2,R3.")
    ] = None,
    uniform: Annotated[bool, typer.Option(help="Equal gaps instead of Poisson.")] = False,
    tuples: Annotated[int, typer.Option(min=100, help="Tuples per run.")] = 10_000,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 4,
    online: Annotated[
        bool, typer.Option(help="The router estimates the services' figures itself.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Most tuples in a call.")] = 1,
    json: Json = False,
) -> None:
    """What routers would do with these services: throughput, latency, duplicated work.

    Example: daybreak filters simulate examples/filters.toml --rate 8 --compare fixed,condon
    """
    filters = load_filters(file)
    names = [router, *(n.strip() for n in (compare or "").split(",") if n.strip())]
    graph = Dependencies([f.name for f in filters], {f.name: f.after for f in filters})
    load = (
        Load(tuples=tuples, population=64)
        if rate is None
        else Load(tuples=tuples, rate_per_s=rate, process="uniform" if uniform else "poisson")
    )
    found: dict[str, dict[str, Any]] = {}
    with progress("simulating") as report:
        for done, name in enumerate(dict.fromkeys(names)):
            report(done, len(names))
            runs = [
                simulate(filters, make_router(name), load, seed, online=online, batch=batch)
                for seed in range(1, seeds + 1)
            ]
            found[name] = {
                "decided_per_s": mean(r.throughput_per_s for r in runs),
                "mean_latency_s": mean(r.mean_latency_s for r in runs),
                "duplicated": mean(r.counts.duplicated / r.counts.handed for r in runs),
            }
    best = _optimum(filters, graph)
    if json:
        print_json({"optimum_per_s": best, "rate_per_s": rate, "routers": found})
        return
    rows = [("router", "decided/s", "of F*", "mean latency", "duplicated")]
    for name, row in found.items():
        rows.append(
            (
                name,
                f"{row['decided_per_s']:.2f}",
                f"{row['decided_per_s'] / best:.1%}",
                duration(row["mean_latency_s"]),
                f"{row['duplicated']:.1%}",
            )
        )
    what = "saturated" if rate is None else f"{rate:g} tuples/s"
    console().print(table(rows, title=f"{what}; F* = {best:.4g} tuples/s"))
