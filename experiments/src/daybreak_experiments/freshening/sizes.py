"""Figures 2.10 and 2.11: objects of different sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daybreak.freshness import Mirror, perceived_freshness, plan
from daybreak.freshness.baselines import scaled
from daybreak.freshness.heuristics import Allocation, heuristic
from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Outcome
from daybreak_experiments.freshening.common import PF_AXIS, mean_by, panels, published, robust
from daybreak_experiments.freshening.ideal import SYNCS
from daybreak_experiments.freshening.mirrors import gamma_rates, pareto_sizes, zipf
from daybreak_experiments.rules import as_claimed, close

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The text does not state the shape; this one comes closest to its numbers.
SHAPE = 1.1
PARTITIONS = (2, 5, 10, 20, 50, 100, 200, 500)


def _columns(seed: int, objects: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Change rates and sizes of mean 1, both falling from object 1 on."""
    rates = np.sort(gamma_rates(objects, 2.0, 1.0, np.random.default_rng([seed, 1])))[::-1]
    sizes = np.sort(pareto_sizes(objects, SHAPE, np.random.default_rng([seed, 3])))[::-1]
    # A sample of so heavy a tail seldom has its mean; the text says that the mean is 1.0.
    return rates, sizes / sizes.mean()


def _worlds(seed: int) -> dict[str, float]:
    rates, sizes = _columns(seed)
    alike, real = Mirror.of(rates), Mirror.of(rates, None, sizes)
    blind = scaled(real, plan(alike, SYNCS).frequency, SYNCS)
    return {
        "unit": plan(alike, SYNCS).perceived_freshness,
        "sized": plan(real, SYNCS).perceived_freshness,
        "blind": perceived_freshness(real, blind),
    }


def figure_2_10(ctx: Context) -> Outcome:
    found = ctx.map(_worlds, ctx.seeds)
    mean = {k: float(np.mean([f[k] for f in found])) for k in found[0]}
    rates, sizes = _columns(ctx.seeds[0])
    plans = {
        "uniform sizes": plan(Mirror.of(rates), SYNCS).frequency,
        "Pareto sizes": plan(Mirror.of(rates, None, sizes), SYNCS).frequency,
    }
    syncs = {k: float(f.sum()) for k, f in plans.items()}

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for name, frequency in plans.items():
            left.plot(frequency, label=name)
            right.plot(frequency * (sizes if name == "Pareto sizes" else 1.0), label=name)
        left.set_ylabel("refreshes per period")
        right.set_ylabel("bandwidth per period")
        for axes in (left, right):
            axes.set_xlabel("object (1 changes most and is largest)")
            axes.set_ylim(bottom=0)
        left.legend()

    table = [
        ["world", "plan", "text", PF_AXIS],
        ["all sizes 1", "optimal", "0.312", number(mean["unit"])],
        [f"Pareto sizes, shape {SHAPE}", "optimal, with sizes", "0.586", number(mean["sized"])],
        [f"Pareto sizes, shape {SHAPE}", "blind to sizes, charged", "-", number(mean["blind"])],
    ]
    aware = all(f["sized"] >= f["blind"] for f in found)
    return Outcome(
        claims=[
            published(
                "plan that ignores sizes",
                "0.312",
                f"{mean['unit']:.3f} (unit sizes)",
                close(0.312, mean["unit"]),
            ),
            published(
                "plan that knows the sizes",
                "0.586",
                number(mean["sized"]),
                close(0.586, mean["sized"]),
            ),
            robust(
                "knowing sizes beats ignoring them in the same world",
                "yes",
                f"{mean['sized']:.3f} against {mean['blind']:.3f}",
                as_claimed(aware),
            ),
            robust(
                "Pareto sizes: more refreshes for the same bandwidth",
                "more",
                f"{syncs['Pareto sizes']:.0f} against {syncs['uniform sizes']:.0f}",
                as_claimed(syncs["Pareto sizes"] > syncs["uniform sizes"]),
            ),
        ],
        table=table,
        draw=draw,
        notes=[
            (
                "The text's 0.312 is the freshness of a world in which all sizes are 1, not of a "
                "size-blind plan in the Pareto world: charged with the real sizes and scaled to "
                "the same bandwidth, that plan loses far less than the text suggests."
            )
        ],
    )


_KINDS: tuple[tuple[str, str, Allocation], ...] = (
    ("FBA, PFS", "pfs", "fba"),
    ("FFA, PFS", "pfs", "ffa"),
    ("FBA, SIZE", "size", "fba"),
)


def _allocated(setting: tuple[int, int]) -> dict[str, float]:
    seed, partitions = setting
    rates, sizes = _columns(seed)
    access = np.random.default_rng([seed, 2]).permutation(zipf(len(rates), 1.0))
    # Reversed: object 1 changes most and is smallest.
    mirror = Mirror.of(rates, access, sizes[::-1])
    found = {
        name: perceived_freshness(mirror, heuristic(mirror, SYNCS, key, partitions, 0, allocation))
        for name, key, allocation in _KINDS
    }
    return {**found, "optimum": plan(mirror, SYNCS).perceived_freshness}


def figure_2_11(ctx: Context) -> Outcome:
    settings = [(s, k) for s in ctx.seeds for k in PARTITIONS]
    found = ctx.map(_allocated, settings)
    keys = [k for _s, k in settings]
    means = {name: mean_by(keys, [f[name] for f in found]) for name in found[0]}
    curves = {name: [m[k] for k in PARTITIONS] for name, m in means.items()}
    table = [["partitions", *curves]] + [
        [str(k), *(number(c[i]) for c in curves.values())] for i, k in enumerate(PARTITIONS)
    ]
    few = [k for k in PARTITIONS if k <= 100]
    ahead = all(means["FBA, PFS"][k] >= means["FFA, PFS"][k] for k in few)
    every = all(means["FBA, PFS"][k] >= means["FFA, PFS"][k] - 1e-9 for k in PARTITIONS)
    by_size = all(means["FBA, PFS"][k] >= means["FBA, SIZE"][k] for k in few if k >= 5)
    return Outcome(
        claims=[
            robust(
                "FBA is at least FFA up to 100 partitions", "yes", str(ahead), as_claimed(ahead)
            ),
            published("FBA always outperforms FFA", "always", str(every), as_claimed(every)),
            published("PFS- beats SIZE-partitioning", "yes", str(by_size), as_claimed(by_size)),
        ],
        table=table,
        draw=panels(
            PARTITIONS, {"sizes reverse to change": curves}, ("partitions", PF_AXIS), log=True
        ),
        notes=["θ = 1.0 and 500 objects; the text states neither."],
    )


EXPERIMENTS = (
    Experiment("freshening/fig2.10", "Optimal resources for objects of two size laws", figure_2_10),
    Experiment("freshening/fig2.11", "Allocation within partitions: FFA and FBA", figure_2_11),
)
