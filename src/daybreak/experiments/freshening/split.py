"""Section 6.2.4: a fixed schedule beside a queue that reacts; which split is best."""

from __future__ import annotations

from daybreak.experiments.core import Context, Experiment, Outcome
from daybreak.experiments.freshening.common import PF_AXIS, mean_by, panels, published, robust
from daybreak.freshness.dynamic import SCORES, Bursts, simulate_split
from daybreak.freshness.workloads import thesis_mirror
from daybreak.report.text import number

SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
WORLDS = {
    "steady": Bursts(per_period=0.0, factor=1.0, periods=1.0),
    "bursts": Bursts(per_period=4.0, factor=30.0, periods=2.0),
}
OBJECTS, BANDWIDTH, PERIODS = 200, 100.0, 40


def _run(setting: tuple[int, str, str, float]) -> float:
    seed, world, queue, share = setting
    return simulate_split(
        thesis_mirror(seed, objects=OBJECTS, theta=0.8),
        BANDWIDTH,
        share,
        queue,
        WORLDS[world],
        periods=PERIODS,
        accesses_per_period=1000,
        seed=seed,
    )


def section_6_2_4(ctx: Context) -> Outcome:
    settings = [(s, w, q, b) for s in ctx.seeds for w in WORLDS for q in SCORES for b in SHARES]
    found = ctx.map(_run, settings)
    means = mean_by([(w, q, b) for _s, w, q, b in settings], found)
    plots = {
        world: {queue: [means[world, queue, b] for b in SHARES] for queue in SCORES}
        for world in WORLDS
    }
    table = [["B_d / B", *(f"{w}: {q}" for w in WORLDS for q in SCORES)]]
    for b in SHARES:
        table.append([f"{b:g}", *(number(means[w, q, b]) for w in WORLDS for q in SCORES)])

    def best(world: str, queue: str) -> tuple[float, float]:
        return max((means[world, queue, b], b) for b in SHARES)

    peak, share = best("bursts", "value")
    gain = peak - means["bursts", "value", 0.0]
    calm = best("steady", "value")[0] - means["steady", "value", 0.0]
    simple = {q: best("bursts", q) for q in ("lru", "lwf")}
    return Outcome(
        claims=[
            robust(
                "under bursts some dynamic bandwidth beats none",
                "proposed",
                f"+{gain:.3f} at B_d = {share:g} B",
                gain > 0.01 and share > 0,
            ),
            published(
                "LRU- and LWF-like queues at their best split",
                "-",
                ", ".join(f"{q} {pf:.3f} at {b:g}" for q, (pf, b) in simple.items()),
            ),
            published("gain in a steady world", "-", f"{calm:+.3f}"),
        ],
        table=table,
        draw=panels(SHARES, plots, ("share of the bandwidth that reacts, B_d / B", PF_AXIS)),
        notes=[(
            f"{OBJECTS} objects, {BANDWIDTH:g} refreshes per period. In the second world four "
            "objects a period change and are asked for 30 times as often for two periods."
        )],
    )  # fmt: skip


EXPERIMENTS = (Experiment("freshening/section6.2.4", "Split bandwidth", section_6_2_4, seeds=3),)
