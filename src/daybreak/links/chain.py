"""Several links in a row (section 5.2): what deadline does a node in the middle go by?

A class's deadline holds at the output. Each node decides alone, so the last node gets the
class's deadline, and the others one that a rule derives from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from daybreak.links.link_classes import LinkClass, ranked
from daybreak.links.link_simulator import LinkLog, run_link
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.registry import make_scheduler
from daybreak.links.traffic import Profile, draw_traffic
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import NS_PER_S

#: ``none``: every node goes by the output's deadline, as in Figure 9. ``even``: node h of H
#: must be done after h/H of it. ``cost``: the deadline less the transfers still to come.
DeadlineRule = Literal["none", "even", "cost"]
DEADLINE_RULES: tuple[str, ...] = get_args(DeadlineRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One link of a chain."""

    bandwidth_bytes_per_s: float
    #: Classes that enter and leave at this hop and compete for it.
    cross: tuple[LinkClass, ...] = ()


def run_chain(
    arrivals: Sequence[LinkTuple],
    classes: Sequence[LinkClass],
    hops: Sequence[Hop],
    scheduler: str,
    duration_s: float,
    *,
    rule: DeadlineRule = "none",
    params: Mapping[str, Any] | None = None,
    bandwidths: Profile = (),
    seed: int = 0,
) -> LinkLog:
    """Sends the arrivals over all hops; the log tells what came out of the last one.

    Drops and queues of every hop are in the log. ``seed`` draws the cross traffic.
    """
    main = ranked(classes)
    total = LinkLog()
    waiting, at_ns = arrivals, [item.arrived_ns for item in arrivals]
    for place, hop in enumerate(hops):
        everyone = ranked([*main, *hop.cross])
        local = [everyone.index(c) for c in main]
        within_ns, later_ns_per_byte = _rule(rule, main, hops, place)
        here = [
            LinkTuple(
                local[i.cls],
                i.number,
                now,
                i.created_ns + within_ns[i.cls] - int(i.size_bytes * later_ns_per_byte),
                i.size_bytes,
                i.mandatory,
                i.created_ns,
                i.payload,
            )
            for i, now in zip(waiting, at_ns, strict=True)
        ]
        if hop.cross:
            here += _cross(hop, everyone, duration_s, seed + 1000 * place)
            here.sort(key=lambda item: item.arrived_ns)
        made = make_scheduler(scheduler, everyone, hop.bandwidth_bytes_per_s, params)
        log = run_link(here, made, duration_s, bandwidths)
        if hop.cross:
            log = _only_main(log, local)
        total.dropped += log.dropped
        total.queued += log.queued
        total.sent, total.began_ns, total.ended_ns = log.sent, log.began_ns, log.ended_ns
        waiting, at_ns = log.sent, log.ended_ns
    return total


def _rule(
    rule: DeadlineRule, classes: Sequence[LinkClass], hops: Sequence[Hop], place: int
) -> tuple[list[int], float]:
    """By when a hop must be done: ns per class, less this many ns per byte of the tuple."""
    if rule not in DEADLINE_RULES:
        raise ConfigError("chain", f"deadline rule {rule!r}", suggestion(rule, DEADLINE_RULES))
    share = (place + 1) / len(hops) if rule == "even" else 1.0
    later = hops[place + 1 :] if rule == "cost" else ()
    ns_per_byte = sum(NS_PER_S / hop.bandwidth_bytes_per_s for hop in later)
    return [round(c.deadline_ns * share) for c in classes], ns_per_byte


def _cross(
    hop: Hop, everyone: Sequence[LinkClass], duration_s: float, seed: int
) -> list[LinkTuple]:
    rank = [everyone.index(c) for c in ranked(hop.cross)]
    drawn = draw_traffic(hop.cross, duration_s, seed)
    return [replace(item, cls=rank[item.cls]) for item in drawn]


def _only_main(log: LinkLog, local: Sequence[int]) -> LinkLog:
    """The log without the cross traffic, in the ranks of the main classes."""
    rank = {there: here for here, there in enumerate(local)}

    def back(item: LinkTuple) -> LinkTuple:
        return replace(item, cls=rank[item.cls])

    kept = [i for i, item in enumerate(log.sent) if item.cls in rank]
    return LinkLog(
        sent=[back(log.sent[i]) for i in kept],
        began_ns=[log.began_ns[i] for i in kept],
        ended_ns=[log.ended_ns[i] for i in kept],
        dropped=[(back(item), why) for item, why in log.dropped if item.cls in rank],
        queued=[back(item) for item in log.queued if item.cls in rank],
    )
