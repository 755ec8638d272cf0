"""A link in virtual time.

A scheduler sees the tuples that came during a transfer when that transfer ends: none of its
decisions can depend on them earlier, so one loop over transfers is exact and needs no event
queue. Links in a chain feed forward, so they run one after the other (`chain.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple, windows_met
from daybreak.links.scheduler import DropReason, Scheduler
from daybreak.links.traffic import Profile
from daybreak.model.qos import NS_PER_S

_NEVER_NS = 1 << 62


@dataclass(slots=True)
class LinkLog:
    """Everything that happened on one link; nothing is lost: see ``counts``."""

    #: Tuples in the order sent, with the instants their transfers began and ended.
    sent: list[LinkTuple] = field(default_factory=list)
    began_ns: list[int] = field(default_factory=list)
    ended_ns: list[int] = field(default_factory=list)
    dropped: list[tuple[LinkTuple, DropReason]] = field(default_factory=list)
    #: What still waited when the run ended.
    queued: list[LinkTuple] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """What became of one class; ``arrived == delivered + expired + evicted + queued``."""

    arrived: int
    delivered: int
    expired: int
    evicted: int
    queued: int
    windows: int
    windows_met: int

    @property
    def share(self) -> float:
        """Delivered per arrived; 1 where nothing arrived."""
        return self.delivered / self.arrived if self.arrived else 1.0

    @property
    def window_share(self) -> float:
        """The share of complete windows that got their minimum."""
        return self.windows_met / self.windows if self.windows else 1.0


def run_link(
    arrivals: Sequence[LinkTuple],
    scheduler: Scheduler,
    duration_s: float,
    bandwidths: Profile = (),
) -> LinkLog:
    """Runs one link until ``duration_s``; a transfer that would end later does not begin.

    ``bandwidths`` multiplies the scheduler's bandwidth from given seconds on. A transfer keeps
    the bandwidth it began with.
    """
    until_ns = round(duration_s * NS_PER_S)
    base = scheduler.bandwidth_bytes_per_s
    changes = [(round(at_s * NS_PER_S), factor * base) for at_s, factor in bandwidths]
    changes.append((_NEVER_NS, base))
    times = [item.arrived_ns for item in arrivals]
    times.append(_NEVER_NS)
    log = LinkLog()
    sent, began, ended = log.sent.append, log.began_ns.append, log.ended_ns.append
    arrive, pick = scheduler.arrive, scheduler.pick
    now = at = change = 0
    while now < until_ns:
        while times[at] <= now:
            arrive(arrivals[at], now)
            at += 1
        if now >= changes[change][0]:
            scheduler.retune(changes[change][1], now)
            change += 1
            continue
        item = pick(now)
        if item is None:
            now = times[at]
            continue
        end = now + int(item.size_bytes * scheduler.ns_per_byte)
        if end > until_ns:
            log.queued.append(item)
            break
        sent(item)
        began(now)
        ended(end)
        now = end
    log.dropped = scheduler.dropped
    log.queued += [*scheduler.clear(), *arrivals[at:]]
    return log


def counts(log: LinkLog, classes: Sequence[LinkClass]) -> list[ClassCounts]:
    """The account of every class."""
    delivered: list[list[int]] = [[] for _ in classes]
    for item in log.sent:
        delivered[item.cls].append(item.number)
    expired, evicted, queued = ([0] * len(classes) for _ in range(3))
    for item, reason in log.dropped:
        (expired if reason is DropReason.EXPIRED else evicted)[item.cls] += 1
    for item in log.queued:
        queued[item.cls] += 1
    found = []
    for rank, cls in enumerate(classes):
        arrived = len(delivered[rank]) + expired[rank] + evicted[rank] + queued[rank]
        met, windows = windows_met(delivered[rank], arrived, cls)
        found.append(
            ClassCounts(
                arrived,
                len(delivered[rank]),
                expired[rank],
                evicted[rank],
                queued[rank],
                windows,
                met,
            )
        )
    return found
