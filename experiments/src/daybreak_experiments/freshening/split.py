"""Section 6.2.4: a fixed schedule beside a queue that reacts; which split is best."""

from __future__ import annotations

from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Note, Outcome
from daybreak_experiments.freshening.common import PF_AXIS, mean_by, panels, robust
from daybreak_experiments.freshening.dynamic import SCORES, Bursts, simulate_split
from daybreak_experiments.freshening.mirrors import thesis_mirror
from daybreak_experiments.rules import above, below

SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
WORLDS = {
    "steady": Bursts(per_period=0.0, periods=1.0),
    "bursts of change": Bursts(per_period=4.0, periods=2.0, change_factor=30.0),
    "bursts of demand": Bursts(per_period=4.0, periods=2.0, access_factor=30.0),
    "bursts of both": Bursts(per_period=4.0, periods=2.0, change_factor=30.0, access_factor=30.0),
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
    table = [["world", "queue", *(f"B_d = {b:g} B" for b in SHARES)]]
    for w in WORLDS:
        for q in SCORES:
            table.append([w, q, *(number(means[w, q, b]) for b in SHARES)])

    def best(world: str, queue: str) -> tuple[float, float]:
        return max((means[world, queue, b], b) for b in SHARES)

    def gain(world: str, queue: str) -> str:
        peak, share = best(world, queue)
        return f"{peak - means[world, queue, 0.0]:+.3f} at {share:g}"

    helped = {w: best(w, "value")[0] - means[w, "value", 0.0] for w in WORLDS}
    return Outcome(
        claims=[
            robust(
                "where demand bursts, some dynamic bandwidth beats none",
                "proposed",
                f"demand {gain('bursts of demand', 'value')} B, both "
                f"{gain('bursts of both', 'value')} B",
                above(0.01, min(helped["bursts of demand"], helped["bursts of both"])),
            ),
            robust(
                "in a steady world it does not",
                "-",
                gain("steady", "value"),
                below(0.005, helped["steady"]),
            ),
            Note("bursts of change alone", gain("bursts of change", "value")),
            *(
                Note(f"{q.upper()}-like queue at its best split, bursts of both",
                     gain("bursts of both", q))
                for q in ("lru", "lwf")
            ),
        ],
        table=table,
        draw=panels(SHARES, plots, ("share that reacts, B_d / B", PF_AXIS)),
        notes=[(
            f"{OBJECTS} objects, {BANDWIDTH:g} refreshes per period. Bursts: four objects a period "
            "change, are asked for, or both, 30 times as often for two periods."
        )],
    )  # fmt: skip


EXPERIMENTS = (Experiment("freshening/section6.2.4", "Split bandwidth", section_6_2_4, seeds=3),)
