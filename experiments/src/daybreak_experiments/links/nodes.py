"""Figure 9 and section 5.2: one node against two, and the three deadline rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from daybreak.links.chain import DeadlineRule
from daybreak.links.link_classes import LinkClass
from daybreak.links.needs import Need, need_of_all
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SEEDS, SHORT, all_needs, kb, near
from daybreak_experiments.rules import above, as_claimed, below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TWO = (1.0, 1.0)
RULES: tuple[DeadlineRule, ...] = ("none", "even", "cost")
#: Class 1 and both, KB/s, per scheduler and rule.
REFERENCE: dict[tuple[str, DeadlineRule], tuple[float, float]] = {
    ("min-slack", "none"): (3.55, 3.56),
    ("conveyor-belt", "none"): (3.52, 3.68),
    ("min-slack", "even"): (2.51, 2.53),
    ("conveyor-belt", "even"): (2.28, 2.84),
    ("min-slack", "cost"): (2.49, 2.50),
    ("conveyor-belt", "cost"): (2.10, 2.82),
}


def fig9(ctx: Context) -> Outcome:
    names = ("fifo", "static-priority", "min-slack", "conveyor-belt")
    scenarios = [LinkScenario(scheduler=n, hops=h) for n in names for h in ((1.0,), TWO)]
    found = all_needs(ctx, scenarios)
    one = dict(zip(names, found[::2], strict=True))
    two = dict(zip(names, found[1::2], strict=True))
    rows = [["scheduler", "class 1, one node", "two nodes", "both, one node", "two nodes"]]
    for n in names:
        both = [kb(need_of_all(one[n])), kb(need_of_all(two[n]))]
        rows.append([SHORT[n], kb(one[n][0]), kb(two[n][0]), *both])

    def worse(name: str, cls: int = 0) -> float:
        return two[name][cls].bytes_per_s / one[name][cls].bytes_per_s - 1

    dynamic = min(worse("min-slack"), worse("conveyor-belt"))
    claims = [
        Claim(
            "FIFO is somewhat worse on two nodes, not greatly",
            "robust",
            "somewhat worse",
            f"{worse('fifo'):+.0%} for class 1",
            required("by up to 25 %", 0 < worse("fifo") < 0.25),
        ),
        Claim(
            "MSF and CB deteriorate significantly when intermediate nodes know nothing",
            "robust",
            "significant deterioration",
            f"{worse('min-slack'):+.0%} and {worse('conveyor-belt'):+.0%} for class 1",
            above(0.3, dynamic),
        ),
        Claim(
            "SP is almost identical on two nodes",
            "published",
            "almost identical",
            f"class 1 {worse('static-priority'):+.0%}, class 2 {worse('static-priority', 1):+.0%}",
            below(0.1, worse("static-priority")),
        ),
        near("SP on two nodes, class 1", two["static-priority"][0], 2.24),
    ]
    note = (
        "SP's need for class 2 is almost the same, as the text says; class 1 needs 1.5 KB/s only "
        "because most of its tuples pass just in time, and a second transfer makes those late."
    )
    return Outcome(claims, rows, partial(_draw, one, two), [note])


def _draw(one: Mapping[str, list[Need]], two: Mapping[str, list[Need]], figure: Figure) -> None:
    axes = figure.subplots()
    for i, name in enumerate(one):
        for k, (needs, label) in enumerate(((one, "one node"), (two, "two nodes"))):
            for c, hatch in ((0, ""), (1, "//")):
                axes.bar(
                    i + 0.2 * (k + 2 * c) - 0.3,
                    needs[name][c].kb_per_s,
                    0.18,
                    color=f"C{k}",
                    hatch=hatch,
                    edgecolor="white",
                    label=f"class {c + 1}, {label}" if i == 0 else None,
                )
    axes.set_xticks(range(len(one)), [SHORT[n] for n in one])
    axes.set_ylabel("required bandwidth, KB/s")
    axes.set_ylim(0, 5)
    axes.legend(ncols=2, loc="upper left")


def section_5_2(ctx: Context) -> Outcome:
    names = ("min-slack", "conveyor-belt", "due")
    keys = [(name, rule) for rule in RULES for name in names]
    scenarios = [LinkScenario(scheduler=n, hops=TWO, rule=r) for n, r in keys]
    found = dict(zip(keys, all_needs(ctx, scenarios), strict=True))
    slower, crossed = _other_chains(ctx)
    rows = [["chain", "rule", "scheduler", "class 1, KB/s", "both, KB/s"]]
    for (name, rule), needs in found.items():
        rows.append(["two equal links", rule, SHORT[name], kb(needs[0]), kb(need_of_all(needs))])
    for label, other in (("second link 20 % slower", slower), ("cross traffic", crossed)):
        for rule, needs in other.items():
            rows.append([label, rule, "DUE", kb(needs[0]), kb(need_of_all(needs))])
    claims = []
    for key, (first, both) in REFERENCE.items():
        label = f"{SHORT[key[0]]}, two nodes, {key[1]}"
        claims.append(near(f"{label}: class 1", found[key][0], first))
        claims.append(near(f"{label}: both", need_of_all(found[key]), both))
    gains = [found[n, "even"][0].bytes_per_s / found[n, "none"][0].bytes_per_s for n in names]
    claims.append(
        Claim(
            "an even split of the deadline makes up for most of the loss",
            "robust",
            "little deterioration, no number",
            f"class 1 needs {1 - max(gains):.0%} to {1 - min(gains):.0%} less than unmodified",
            below(0.75, max(gains)),
        )
    )
    better = all(found[n, "cost"][0].bytes_per_s <= found[n, "even"][0].bytes_per_s for n in names)
    claims.append(
        Claim(
            "handing down the deadline less the downstream transfers is better still",
            "robust",
            "not in the text",
            "for class 1 with every scheduler" if better else "not always",
            as_claimed(better),
        )
    )
    queueing = [
        (other["even"][0].kb_per_s, other["cost"][0].kb_per_s) for other in (slower, crossed)
    ]
    claims.append(
        Claim(
            "where the second link queues by itself, the even split is the better one",
            "robust",
            "not in the text",
            "class 1 with DUE, even against cost: "
            + ", ".join(f"{even:.2f} against {cost:.2f}" for even, cost in queueing),
            as_claimed(all(even < cost for even, cost in queueing)),
        )
    )
    note = (
        "The cost rule counts on an empty second link. Two equal links are that case: the second "
        "cannot queue what the first has paced. A slower or a shared second link can."
    )
    return Outcome(claims, rows, notes=[note])


def _other_chains(
    ctx: Context,
) -> tuple[dict[DeadlineRule, list[Need]], dict[DeadlineRule, list[Need]]]:
    """A second link that is slower, and one that strangers use as well."""
    stranger = LinkClass(name="stranger", value=3, deadline_s=1, size_bytes=500, rate_per_s=1)
    found = all_needs(
        ctx,
        [LinkScenario(scheduler="due", hops=(1.0, 0.8), rule=r) for r in RULES]
        + [LinkScenario(scheduler="due", hops=TWO, rule=r, cross=(stranger,)) for r in RULES],
    )
    return dict(zip(RULES, found[:3], strict=True)), dict(zip(RULES, found[3:], strict=True))


EXPERIMENTS = (
    Experiment("links/fig9", "Unmodified schedulers on one node and on two", fig9, seeds=SEEDS),
    Experiment("links/section5.2", "Deadlines for intermediate nodes", section_5_2, seeds=SEEDS),
)
