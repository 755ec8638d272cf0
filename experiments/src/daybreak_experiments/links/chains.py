"""Section 5.2 beyond two nodes: a chain of three, with the same deadline rules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from daybreak.links.chain import DeadlineRule
from daybreak.links.needs import Need, need_of_all
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Line, Note, Outcome
from daybreak_experiments.links.common import SHORT, all_needs, kb
from daybreak_experiments.links.nodes import RULES
from daybreak_experiments.rules import at_most, below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("min-slack", "conveyor-belt", "due")
NODES = (1, 2, 3)
#: What three nodes may need more than one where deadlines are handed down: "little".
LITTLE = 0.15
Found = dict[tuple[str, DeadlineRule, int], list[Need]]


def three_nodes(ctx: Context) -> Outcome:
    keys: list[tuple[str, DeadlineRule, int]] = [
        (name, rule, nodes) for name in NAMES for rule in RULES for nodes in NODES
        if nodes > 1 or rule == "none"
    ]  # fmt: skip
    scenarios = [LinkScenario(scheduler=n, rule=r, hops=(1.0,) * k) for n, r, k in keys]
    found: Found = dict(zip(keys, all_needs(ctx, scenarios), strict=True))

    def first(name: str, rule: DeadlineRule, nodes: int) -> float:
        return found[name, rule if nodes > 1 else "none", nodes][0].kb_per_s

    rows = [["scheduler", "rule", *(f"class 1, {k} nodes" for k in NODES), "both, 3 nodes"]]
    for name in NAMES:
        for rule in RULES:
            needs = [found[name, rule if k > 1 else "none", k] for k in NODES]
            both = kb(need_of_all(needs[-1]))
            rows.append([SHORT[name], rule, *(kb(n[0]) for n in needs), both])
    even = {n: first(n, "even", 3) / first(n, "none", 3) for n in NAMES}
    cost = {n: first(n, "cost", 3) / first(n, "none", 1) for n in NAMES}
    claims: list[Line] = [
        Claim(
            "where intermediate nodes know nothing, three nodes are worse than two",
            "robust",
            "not in the text",
            ", ".join(
                f"{SHORT[n]} {first(n, 'none', 2):.2f} to {first(n, 'none', 3):.2f}" for n in NAMES
            ),
            required(
                "for class 1 with every scheduler",
                *(first(n, "none", 3) > first(n, "none", 2) for n in NAMES),
            ),
        ),
        Claim(
            "an even split of the deadline makes up for most of that on three nodes, too",
            "robust",
            "little deterioration, no number",
            f"class 1 needs {1 - max(even.values()):.0%} to {1 - min(even.values()):.0%} less "
            "than unmodified",
            below(0.75, *even.values()),
        ),
        Claim(
            "handing down the deadline less the downstream transfers is better still",
            "robust",
            "not in the text",
            ", ".join(
                f"{SHORT[n]} {first(n, 'cost', 3):.2f} against {first(n, 'even', 3):.2f}"
                for n in NAMES
            ),
            required(
                "for class 1 with every scheduler",
                *(first(n, "cost", 3) <= first(n, "even", 3) for n in NAMES),
            ),
        ),
        Claim(
            "three nodes with that rule need little more than one",
            "published",
            "little deterioration, no number",
            ", ".join(f"{SHORT[n]} {cost[n] - 1:+.0%}" for n in NAMES),
            at_most(1 + LITTLE, *cost.values()),
        ),
        Note(
            "bandwidth of each further node, class 1, with the cost rule (KB/s)",
            ", ".join(
                f"{SHORT[n]} {(first(n, 'cost', 3) - first(n, 'none', 1)) / 2:+.2f}" for n in NAMES
            ),
        ),
    ]
    note = "All links of a chain have the same bandwidth. The text tries two nodes."
    return Outcome(claims, rows, partial(_draw, found), [note])


def _draw(found: Found, figure: Figure) -> None:
    for axes, name in zip(figure.subplots(1, len(NAMES), sharey=True), NAMES, strict=True):
        for rule in RULES:
            needs = [found[name, rule if k > 1 else "none", k][0].kb_per_s for k in NODES]
            axes.plot(NODES, needs, marker="o", label=rule)
        axes.set_title(SHORT[name])
        axes.set_xticks(NODES)
        axes.set_xlabel("nodes")
    figure.axes[0].set_ylabel("class 1 needs, KB/s")
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].legend(title="rule")


EXPERIMENTS = (
    Experiment("links/three_nodes", "Deadlines for a chain of three nodes", three_nodes, seeds=8),
)
