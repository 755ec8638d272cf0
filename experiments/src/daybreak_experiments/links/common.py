"""What the link experiments share: parallel searches for needs, and how they are printed."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.links.needs import Against, Need, needs
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context
from daybreak_experiments.rules import required

#: Short names of the schedulers, as the text prints them.
SHORT = {
    "fifo": "FIFO",
    "static-priority": "SP",
    "min-slack": "MSF",
    "conveyor-belt": "CB",
    "hybrid": "hybrid",
    "due": "DUE",
    "due-window": "DUE-W",
}
SEEDS = 24


@dataclass(frozen=True, slots=True)
class Job:
    """One search: a scenario over all seeds. Travels to a worker process."""

    scenario: LinkScenario
    seeds: tuple[int, ...]
    against: Against = "expected"


def solve(job: Job) -> list[Need]:
    # Millions of tuples come and go and none is part of a cycle: the collector would only
    # walk them again and again, for a third of the time.
    gc.disable()
    try:
        return needs(job.scenario, job.seeds, against=job.against)
    finally:
        gc.enable()


def all_needs(
    ctx: Context, scenarios: Sequence[LinkScenario], against: Against = "expected"
) -> list[list[Need]]:
    """The needs of every scenario's classes, over all cores."""
    return ctx.map(solve, [Job(s, tuple(ctx.seeds), against) for s in scenarios])


def kb(need: Need) -> str:
    """KB/s with its standard error."""
    if math.isnan(need.bytes_per_s):
        return "not reached"
    error = need.standard_error / 1000
    return f"{need.kb_per_s:.2f}" if math.isnan(error) else f"{need.kb_per_s:.2f} ± {error:.3f}"


def near(claim: str, ours: Need, reference_kb: float) -> Claim:
    """Holds within three standard errors of the difference to a reference of equal size.

    The reference is a mean over as many seeds and printed with two decimals, so its own
    standard error and half of its last digit count too.
    """
    error = 3 * math.sqrt(2) * ours.standard_error / 1000 + 0.005
    distance = abs(ours.kb_per_s - reference_kb)
    return Claim(
        claim,
        "robust",
        f"{reference_kb:.2f} KB/s (reference)",
        kb(ours),
        required("within 3 standard errors of the difference", distance <= error),
    )
