"""Section 5.3: moving a selective box before a congested link."""

from __future__ import annotations

import numpy as np

from daybreak.links.box_migration import LinkName, Placement, advise, link_classes
from daybreak.links.link_classes import LinkClass
from daybreak.links.needs import met_percent
from daybreak.links.scenario import LinkScenario
from daybreak.model import Arrivals, Box, Network, Query, Stream
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed

LINK: LinkName = ("field", "centre")
BANDWIDTH = 4000.0
#: What the applications behind the two queries need.
NEEDS = {
    "threats": LinkClass(name="threats", value=2, deadline_s=1.4, m=9, n=10),
    "traffic": LinkClass(name="traffic", value=1, deadline_s=1.95, m=6, n=10),
}


def battlefield() -> Placement:
    """Sensors in the field, all boxes in the centre: the filter sits behind the link."""
    network = Network(
        streams=[
            Stream(name="radar", arrivals=Arrivals(rate_per_s=10)),
            Stream(name="patrol", arrivals=Arrivals(rate_per_s=4)),
        ],
        boxes=[
            Box(name="decode", inputs=("radar",), tuple_bytes=500),
            Box(name="hostile", inputs=("decode",), selectivity=0.15, tuple_bytes=500),
            Box(name="merge", inputs=("patrol",), tuple_bytes=500),
        ],
        queries=[Query(name="threats", output="hostile"), Query(name="traffic", output="merge")],
    )
    return Placement(
        network=network,
        streams_at={"radar": "field", "patrol": "field"},
        boxes_at={"decode": "centre", "hostile": "centre", "merge": "centre"},
        clients_at={"threats": "centre", "traffic": "centre"},
        links={LINK: BANDWIDTH, ("centre", "field"): BANDWIDTH},
        stream_bytes={"radar": 500, "patrol": 500},
    )


def _simulated(placement: Placement, seeds: tuple[int, ...]) -> dict[str, float]:
    classes = link_classes(placement, LINK, NEEDS)
    scenario = LinkScenario(classes=classes, scheduler="due", bandwidth_bytes_per_s=BANDWIDTH)
    met = np.mean([met_percent(scenario, seed, "actual") for seed in seeds], axis=0)
    return {c.name: float(v) for c, v in zip(scenario.classes, met, strict=True)}


def section_5_3(ctx: Context) -> Outcome:
    before = battlefield()
    moves = advise(before)
    after = before
    for move in moves:
        after = after.moved(move.boxes, move.target)
    seeds = tuple(ctx.seeds)
    rows = [["placement", "flow", "rate, 1/s", "KB/s", "delivered, % of the minimum"]]
    worst: list[float] = []
    for label, placement in (("before", before), ("after", after)):
        met = _simulated(placement, seeds)
        worst.append(min(met.values()))
        for flow in placement.flows():
            if flow.link == LINK:
                load = f"{flow.bytes_per_s / 1000:.2f}"
                figures = [f"{flow.rate_per_s:.2f}", load, f"{met[flow.source]:.0f}"]
                rows.append([label, flow.source, *figures])
    proposed = "; ".join(
        f"{' and '.join(m.boxes)} to {m.target}, saves {m.saved_bytes_per_s / 1000:.2f} KB/s"
        for m in moves
    )
    claims = [
        Claim(
            "the low-selectivity box behind the saturated link is found",
            "robust",
            "migrate it, discard before the link",
            proposed,
            as_claimed([m.boxes for m in moves] == [("decode", "hostile")]),
        ),
        Claim(
            "after the move every class is met, before it not",
            "robust",
            "reduces the load",
            f"worst class {worst[0]:.0f} % before, {worst[1]:.0f} % after",
            as_claimed(worst[0] < 100 <= worst[1]),
        ),
    ]
    note = (
        "The filter moves together with the box that feeds it, so that tuples cross the link "
        "once. The minimum of a filtered flow is counted on what the filter lets through."
    )
    return Outcome(claims, rows, notes=[note])


EXPERIMENTS = (
    Experiment("links/section5.3", "Moving boxes across a saturated link", section_5_3, seeds=6),
)
