"""``daybreak freshen``: plan, simulate and keep a mirror."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from daybreak.cli.console import console, error_console, print_json
from daybreak.cli.keep import keep
from daybreak.freshness import (
    RefreshLimits,
    RefreshPlan,
    bandwidth_of,
    condensed,
    curve,
    floor_for_age,
    floor_for_freshness,
    perceived_freshness,
    plan,
)
from daybreak.freshness import baselines as base
from daybreak.freshness.heuristics import heuristic
from daybreak.freshness.mirror import Floats, Ints, Mirror
from daybreak.freshness.mirror_files import MirrorTable, read_mirror, write_plan
from daybreak.freshness.mirror_simulator import simulate
from daybreak.model.errors import ConfigError, suggestion
from daybreak.report.figures import can_draw, save_figure
from daybreak.report.text import count, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(
    help="Plans how often to refresh the objects of a mirror, and keeps a mirror fresh.",
    no_args_is_help=True,
)

Objects = Annotated[
    Path,
    typer.Argument(
        help="CSV or Parquet with change_rate and, if known, id, access, size, floor, cap, group."
    ),
]
Bandwidth = Annotated[
    float, typer.Option("--bandwidth", "-b", help="Units of size that may be fetched per period.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("plan")
def plan_command(
    objects: Objects,
    bandwidth: Bandwidth,
    out: Annotated[
        Path | None, typer.Option(help="Write the plan here (.parquet or .csv).")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan into this PNG.")] = None,
    least_freshness: Annotated[
        float | None, typer.Option(help="Keep every object at least this fresh, such as 0.5.")
    ] = None,
    age: Annotated[
        float | None, typer.Option(help="No copy older than this many periods, but for --risk.")
    ] = None,
    risk: Annotated[float, typer.Option(help="How often a copy may be older than --age.")] = 0.05,
    group_cap: Annotated[
        list[str] | None,
        typer.Option(help="Bandwidth of a group, as NAME=AMOUNT; *=AMOUNT for all others."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The best refresh frequencies for a bandwidth, with a proof of how good they are.

    Example: daybreak freshen plan pages.parquet --bandwidth 250000 --out plan.parquet
    """
    given = read_mirror(objects)
    limits = given.limits(_floors(given.mirror, least_freshness, age, risk), _caps(group_cap or []))
    made = plan(given.mirror, bandwidth, limits)
    found = _summary(given.mirror, made, limits)
    written = []
    if out is not None:
        write_plan(out, given, made)
        written.append(out)
    if plot is not None:
        if not can_draw():
            raise ConfigError("--plot", "matplotlib is missing", "pip install 'daybreak[plot]'")
        written.append(save_figure(lambda figure: _draw(figure, given, made), plot))
    if as_json:
        print_json({**found, "written": [str(path) for path in written]})
    else:
        console().print(table(_readable(found)))
    for path in written:
        error_console().print(f"wrote {path}")


def _floors(mirror: Mirror, least: float | None, age: float | None, risk: float) -> Floats | None:
    floors = []
    if least is not None:
        floors.append(floor_for_freshness(mirror, least))
    if age is not None:
        floors.append(floor_for_age(mirror, age, risk))
    return np.maximum.reduce(floors) if floors else None


def _caps(given: list[str]) -> dict[str, float]:
    caps: dict[str, float] = {}
    for text in given:
        name, _, amount = text.rpartition("=")
        try:
            caps[name] = float(amount)
        except ValueError:
            name = ""
        if not name:
            raise ConfigError("--group-cap", f"{text!r} is not NAME=AMOUNT", "correct it")
    return caps


def _summary(mirror: Mirror, made: RefreshPlan, limits: RefreshLimits) -> dict[str, Any]:
    half = bandwidth_of(mirror, floor_for_freshness(mirror, 0.5))
    found: dict[str, Any] = {
        "objects": len(mirror),
        "bandwidth": made.bandwidth,
        "spent": made.spent,
        "perceived_freshness": made.perceived_freshness,
        "gap": made.gap,
        "mu": made.multiplier,
        "never_refreshed": int(((made.frequency == 0) & (mirror.change_rate > 0)).sum()),
        "perceived_freshness_uniform": perceived_freshness(
            mirror, base.uniform(mirror, made.bandwidth)
        ),
        "bandwidth_for_half": half,
    }
    if half <= made.bandwidth and limits.floor is None and limits.group is None:
        floored = plan(
            mirror, made.bandwidth, RefreshLimits(floor_for_freshness(mirror, 0.5), limits.cap)
        )
        found["perceived_freshness_with_half"] = floored.perceived_freshness
    return found


def _readable(found: dict[str, Any]) -> list[tuple[str, str]]:
    half = f"needs bandwidth {found['bandwidth_for_half']:.6g}"
    if "perceived_freshness_with_half" in found:
        half += f"; perceived freshness then {found['perceived_freshness_with_half']:.6f}"
    return [
        ("", "plan"),
        ("objects", count(found["objects"])),
        ("bandwidth used", f"{found['spent']:.6g} of {found['bandwidth']:.6g} per period"),
        ("perceived freshness", f"{found['perceived_freshness']:.6f}"),
        ("no plan is better by more than", f"{found['gap']:.1e}"),
        ("one more unit of bandwidth buys", f"{found['mu']:.3e}"),
        ("objects never refreshed", count(found["never_refreshed"])),
        ("the same, all refreshed equally often", f"{found['perceived_freshness_uniform']:.6f}"),
        ("every object at least 50 % fresh", half),
    ]


#: Objects drawn one by one; of larger mirrors a sample, and the curve of a condensed one.
MOST_DRAWN = 5000


def _draw(figure: Figure, given: MirrorTable, made: RefreshPlan) -> None:
    left, right = figure.subplots(1, 2)
    mirror = given.mirror
    shown = _sample(mirror.access)
    points = left.scatter(
        mirror.change_rate[shown],
        made.frequency[shown],
        c=np.log10(np.maximum(mirror.access[shown], 1e-300)),
        s=4,
        cmap="viridis",
    )
    _stretch(left.set_xscale, left.set_xlim, mirror.change_rate[shown])
    _stretch(left.set_yscale, left.set_ylim, made.frequency[shown])
    left.set_xlabel("change rate (per period)")
    left.set_ylabel("refreshes per period")
    figure.colorbar(points, ax=left, label="access, log10")
    budgets = [float(b) for b in made.bandwidth * np.geomspace(0.05, 20, 25)]
    plans = curve(mirror if len(mirror) <= MOST_DRAWN else condensed(mirror), budgets)
    right.plot(budgets, [p.perceived_freshness for p in plans])
    right.plot(made.bandwidth, made.perceived_freshness, "o")
    right.set_xscale("log")
    right.set_xlabel("bandwidth per period")
    right.set_ylabel("perceived freshness (without limits)")


def _sample(access: Floats) -> Ints:
    """The objects to draw, the most read ones last: they are few, and must not be covered."""
    n = len(access)
    by_access = np.argsort(-access, kind="stable")
    if n > MOST_DRAWN:
        # Half of them at equal distances, half on a logarithmic scale: the most read are dense.
        even = np.linspace(0, n - 1, MOST_DRAWN // 2)
        dense = np.geomspace(1, n, MOST_DRAWN // 2) - 1
        by_access = by_access[np.unique(np.concatenate([even, dense]).astype(np.int64))]
    drawn: Ints = by_access[::-1]
    return drawn


def _stretch(set_scale: Callable[..., Any], limit: Callable[..., Any], values: Floats) -> None:
    """A logarithmic scale where values span orders of magnitude; 0 has a place of its own."""
    some = values[values > 0]
    if not len(some) or some.max() < 20 * some.min():
        return
    if len(some) == len(values):
        set_scale("log")
    else:
        # Below the smallest percent there is next to nothing to see.
        least = float(np.quantile(some, 0.01))
        set_scale("symlog", linthresh=least, linscale=0.3)
        limit(-least / 2, 2 * float(some.max()))


Rule = Callable[[Mirror, float], Floats]
RULES: dict[str, Rule] = {
    "plan": lambda mirror, b: plan(mirror, b).frequency,
    "pf-partitioning": lambda mirror, b: heuristic(mirror, b, "pf", 100),
    "uniform": base.uniform,
    "by-change": base.proportional_to_change,
    "by-access": base.proportional_to_access,
    "nutch": lambda mirror, b: base.by_interval_rule(mirror, b, base.NUTCH),
    "stormcrawler": lambda mirror, b: base.by_interval_rule(mirror, b, base.STORMCRAWLER),
}


@app.command("simulate")
def simulate_command(
    objects: Objects,
    bandwidth: Bandwidth,
    rules: Annotated[
        str, typer.Option(help=f"Which rules to run, of {', '.join(RULES)}.")
    ] = "plan,uniform,by-change,by-access",
    periods: Annotated[float, typer.Option(min=0.001, help="How long a run lasts.")] = 20.0,
    accesses: Annotated[float, typer.Option(min=1, help="Accesses per period.")] = 10_000.0,
    runs: Annotated[int, typer.Option(min=2, help="Independent runs.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same runs.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Runs refresh rules against random changes and accesses in virtual time.

    Example: daybreak freshen simulate pages.csv --bandwidth 500 --rules plan,uniform
    """
    mirror = read_mirror(objects).mirror
    chosen = [name.strip() for name in rules.split(",") if name.strip()]
    for name in chosen:
        if name not in RULES:
            raise ConfigError("--rules", f"no rule {name!r}", suggestion(name, RULES))
    found: list[dict[str, Any]] = []
    for name in chosen:
        frequency = RULES[name](mirror, bandwidth)
        seen = simulate(
            mirror,
            frequency,
            periods=periods,
            accesses_per_period=accesses,
            seed=seed,
            runs=runs,
        )
        found.append(
            {
                "rule": name,
                "computed": perceived_freshness(mirror, frequency),
                "simulated": seen.perceived_freshness,
                "standard_error": seen.standard_error,
                "refreshes_per_period": seen.refreshes / periods / runs,
            }
        )
    if as_json:
        print_json(found)
        return
    rows = [["rule", "computed", "simulated", "± standard error", "refreshes per period"]]
    rows += [
        [
            f["rule"],
            f"{f['computed']:.4f}",
            f"{f['simulated']:.4f}",
            f"{f['standard_error']:.4f}",
            f"{f['refreshes_per_period']:.1f}",
        ]
        for f in found
    ]
    console().print(table(rows, "perceived freshness"))


app.command("keep")(keep)
