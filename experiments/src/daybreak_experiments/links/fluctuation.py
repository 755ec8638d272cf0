"""Section 6: bandwidth and input rates that fluctuate, where the text expects CB to be best."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daybreak.links.needs import Floats, met_percent
from daybreak.links.scenario import LinkScenario, Steps
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SHORT
from daybreak_experiments.rules import as_claimed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("static-priority", "min-slack", "conveyor-belt", "hybrid", "due", "due-window")
PERIOD_S = 40
GRID_KB = (1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.4)


def _waves(high: float, low: float) -> Steps:
    """Alternates every 20 s; the mean factor is 1."""
    return tuple(
        (float(start), high if (start // (PERIOD_S // 2)) % 2 == 0 else low)
        for start in range(0, 800, PERIOD_S // 2)
    )


KINDS: dict[str, tuple[Steps, Steps]] = {
    "bandwidth x 1.5 / x 0.5": ((), _waves(1.5, 0.5)),
    "input rates x 1.5 / x 0.5": (_waves(1.5, 0.5), ()),
}


def _met(job: tuple[str, str, float, tuple[int, ...]]) -> list[float]:
    kind, name, kb_per_s, seeds = job
    rates, bandwidths = KINDS[kind]
    scenario = LinkScenario(
        scheduler=name,
        bandwidth_bytes_per_s=kb_per_s * 1000,
        rates=rates,
        bandwidths=bandwidths,
    )
    mean: list[float] = np.mean(
        [met_percent(scenario, s, "actual") for s in seeds], axis=0
    ).tolist()
    return mean


def section_6(ctx: Context) -> Outcome:
    seeds = tuple(ctx.seeds)
    jobs = [(k, n, b, seeds) for k in KINDS for n in NAMES for b in GRID_KB]
    met = np.array(ctx.map(_met, jobs)).reshape(len(KINDS), len(NAMES), len(GRID_KB), 2)
    rows = [["fluctuates", "scheduler", *(f"{k} KB/s" for k in GRID_KB)]]
    for i, kind in enumerate(KINDS):
        for j, name in enumerate(NAMES):
            rows.append([kind, SHORT[name], *(f"{a:.0f} / {b:.0f}" for a, b in met[i, j])])
    belt, due = (met[:, NAMES.index(n)] for n in ("conveyor-belt", "due"))
    first = bool((np.minimum(due[..., 0], 100) >= np.minimum(belt[..., 0], 100) - 1).all())
    met_both = [[_first_met(met[i, NAMES.index(n)]) for i in range(2)] for n in NAMES]
    best = dict(zip(NAMES, met_both, strict=True))
    claims = [
        Claim(
            "CB guarantees class 1 and passes what is left to class 2",
            "robust",
            "guarantees the highest class",
            f"class 1 met from {_shown([_first_met(b[:, :1]) for b in belt])} KB/s on",
            as_claimed((belt[:, -1, 0] >= 100).all()),
        ),
        Claim(
            "CB is optimal where bandwidth or input rates fluctuate",
            "published",
            "would be optimal",
            "both met from (KB/s) " + ", ".join(f"{SHORT[n]} {_shown(m)}" for n, m in best.items()),
            as_claimed(
                all(best["conveyor-belt"][i] <= min(m[i] for m in best.values()) for i in range(2))
            ),
        ),
        Claim(
            "DUE meets class 1 wherever CB does",
            "robust",
            "not in the text",
            "everywhere" if first else "not everywhere",
            as_claimed(first),
        ),
        Claim(
            "and both classes at no more bandwidth than CB",
            "robust",
            "not in the text",
            f"DUE {_shown(best['due'])}, CB {_shown(best['conveyor-belt'])} KB/s",
            as_claimed(all(best["due"][i] <= best["conveyor-belt"][i] for i in range(2))),
        ),
    ]
    note = (
        "Cells: class 1 / class 2 in per cent of the minimum, of actual arrivals. Factors change "
        "every 20 s and average 1; a transfer keeps the bandwidth it began with. The hybrid sees "
        "the bandwidth of the moment and switches with it."
    )
    return Outcome(claims, rows, partial(_draw, met), [note])


def _first_met(met: Floats) -> float:
    """The bandwidth from which every class stays met; infinite if none does."""
    for i, bandwidth in enumerate(GRID_KB):
        if (met[i:] >= 100).all():
            return bandwidth
    return float("inf")


def _shown(pair: list[float]) -> str:
    return " / ".join(f"{k}" if np.isfinite(k) else f"over {GRID_KB[-1]}" for k in pair)


def _draw(met: Floats, figure: Figure) -> None:
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for i, kind in enumerate(KINDS):
        for c in (0, 1):
            for j, name in enumerate(NAMES):
                axes[i, c].plot(GRID_KB, met[i, j, :, c], ".-", label=SHORT[name])
            axes[i, c].axhline(100, color="black", lw=0.8)
            axes[i, c].set_title(f"{kind}: class {c + 1}", fontsize=9)
            axes[i, c].set_ylim(0, 175)
        axes[i, 0].set_ylabel("% of the minimum")
    for c in (0, 1):
        axes[1, c].set_xlabel("mean bandwidth, KB/s")
    axes[0, 1].legend(loc="upper left", ncols=3, fontsize=8)


EXPERIMENTS = (
    Experiment("links/section6", "Fluctuating bandwidth and input rates", section_6, seeds=6),
)
