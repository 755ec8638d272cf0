"""Moving boxes across a saturated link (section 5.3).

A link carries what the boxes on one node hand to boxes on another. A box that discards most
of its input should sit before the link, not behind it; one that multiplies it, behind. The
advice names the boxes to move and the bandwidth that saves; nothing is moved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from daybreak.links.link_classes import LinkClass
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import Network

#: (from node, to node)
LinkName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LinkFlow:
    """What one stream or box sends over one link; once, however many boxes read it there."""

    source: str
    link: LinkName
    rate_per_s: float
    size_bytes: int
    queries: frozenset[int]

    @property
    def bytes_per_s(self) -> float:
        return self.rate_per_s * self.size_bytes


@dataclass(frozen=True)
class Placement:
    """A network spread over nodes: where streams enter, boxes run and results are wanted."""

    network: Network
    streams_at: Mapping[str, str]
    boxes_at: Mapping[str, str]
    clients_at: Mapping[str, str]
    #: Bandwidth of every link there is, bytes/s.
    links: Mapping[LinkName, float]
    stream_bytes: Mapping[str, int] = field(default_factory=dict)
    #: CPU seconds per second a node may spend; nodes left out have plenty.
    cpus: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, names, placed in (
            ("stream", self.network.stream_index, self.streams_at),
            ("box", self.network.box_index, self.boxes_at),
            ("query", self.network.query_index, self.clients_at),
        ):
            for name in names:
                if name not in placed:
                    raise ConfigError(f"placement: {what} {name!r}", "has no node", "place it")
            for name in placed:
                if name not in names:
                    remedy = suggestion(name, names)
                    raise ConfigError("placement", f"{what} {name!r} is not declared", remedy)
        for (source, target), bandwidth in self.links.items():
            if source == target or not bandwidth > 0:
                raise ConfigError(
                    "placement", f"link {source} -> {target} of {bandwidth} bytes/s", "correct it"
                )

    def flows(self) -> list[LinkFlow]:
        """Everything that crosses between nodes."""
        net, rates = self.network, self.rates()
        found: list[LinkFlow] = []
        for s, stream in enumerate(net.streams):
            here = self.streams_at[stream.name]
            size = self.stream_bytes.get(stream.name, 100)
            for there, boxes in self._targets(here, net.stream_boxes[s]).items():
                queries = frozenset(q for b in boxes for q in net.box_queries[b])
                found.append(
                    LinkFlow(stream.name, (here, there), rates[stream.name], size, queries)
                )
        for b, box in enumerate(net.boxes):
            here = self.boxes_at[box.name]
            targets = self._targets(here, net.downstream[b])
            served = {t: {q for d in ds for q in net.box_queries[d]} for t, ds in targets.items()}
            for q in net.queries_at[b]:
                there = self.clients_at[net.queries[q].name]
                if there != here:
                    served.setdefault(there, set()).add(q)
            for there, wanted in served.items():
                link, rate = (here, there), rates[box.name]
                found.append(LinkFlow(box.name, link, rate, box.tuple_bytes, frozenset(wanted)))
        return found

    def loads(self) -> dict[LinkName, float]:
        """Bytes per second offered to every link, also to those that do not exist."""
        loads = dict.fromkeys(self.links, 0.0)
        for flow in self.flows():
            loads[flow.link] = loads.get(flow.link, 0.0) + flow.bytes_per_s
        return loads

    def rates(self) -> dict[str, float]:
        """Tuples per second that every stream and box puts out."""
        net = self.network
        rates: dict[str, float] = {}
        for stream in net.streams:
            if stream.arrivals is None or stream.arrivals.rate_per_s is None:
                raise ConfigError(f"stream {stream.name!r}", "has no rate", "declare its arrivals")
            rates[stream.name] = stream.arrivals.rate_per_s
        for b in net.topological:
            box = net.boxes[b]
            rates[box.name] = box.selectivity * sum(rates[name] for name in box.inputs)
        return rates

    def cpu_loads(self) -> dict[str, float]:
        """CPU seconds per second that the boxes of every node take."""
        rates = self.rates()
        loads: dict[str, float] = {}
        for box in self.network.boxes:
            node = self.boxes_at[box.name]
            work = box.cost_ns / 1e9 * sum(rates[name] for name in box.inputs)
            loads[node] = loads.get(node, 0.0) + work
        return loads

    def moved(self, boxes: Iterable[str], to: str) -> Placement:
        return replace(self, boxes_at={**self.boxes_at, **dict.fromkeys(boxes, to)})

    def _targets(self, here: str, boxes: Iterable[int]) -> dict[str, list[int]]:
        """The boxes on other nodes, by node."""
        targets: dict[str, list[int]] = {}
        for b in boxes:
            there = self.boxes_at[self.network.boxes[b].name]
            if there != here:
                targets.setdefault(there, []).append(b)
        return targets


@dataclass(frozen=True, slots=True)
class Move:
    """Boxes to move together, and what the link they cross carries before and after."""

    boxes: tuple[str, ...]
    source: str
    target: str
    link: LinkName
    before_bytes_per_s: float
    after_bytes_per_s: float

    @property
    def saved_bytes_per_s(self) -> float:
        return self.before_bytes_per_s - self.after_bytes_per_s


def advise(placement: Placement) -> list[Move]:
    """Moves that relieve saturated links, the most saving first, until none is left.

    No move overloads another link or a node's CPU, and none needs a link that does not exist.
    """
    moves: list[Move] = []
    while True:
        best = max(
            _candidates(placement), key=lambda m: (m.saved_bytes_per_s, -len(m.boxes)), default=None
        )
        if best is None:
            return moves
        moves.append(best)
        placement = placement.moved(best.boxes, best.target)


def _candidates(placement: Placement) -> Iterator[Move]:
    before = placement.loads()
    for link, bandwidth in placement.links.items():
        if before[link] <= bandwidth:
            continue
        sender, receiver = link
        for source, target in ((receiver, sender), (sender, receiver)):
            for boxes in _groups(placement, source, upstream=source == receiver):
                after = placement.moved(boxes, target)
                load = after.loads()
                if load[link] < before[link] and _harmless(placement, after, before, load):
                    yield Move(boxes, source, target, link, before[link], load[link])


def _groups(placement: Placement, node: str, *, upstream: bool) -> list[tuple[str, ...]]:
    """Each box of a node with all of the node's boxes before (or behind) it.

    Moved together, tuples still cross the link once and in one direction.
    """
    net = placement.network
    arcs = net.upstream if upstream else net.downstream
    groups: set[tuple[str, ...]] = set()
    for b, box in enumerate(net.boxes):
        if placement.boxes_at[box.name] != node:
            continue
        seen, stack = {b}, [b]
        while stack:
            for other in arcs[stack.pop()]:
                if other not in seen and placement.boxes_at[net.boxes[other].name] == node:
                    seen.add(other)
                    stack.append(other)
        groups.add(tuple(net.boxes[i].name for i in sorted(seen)))
    return sorted(groups)


def _harmless(
    old: Placement,
    new: Placement,
    before: Mapping[LinkName, float],
    after: Mapping[LinkName, float],
) -> bool:
    for link, load in after.items():
        if link not in old.links and load > 0:
            return False
        if link in old.links and load > max(old.links[link], before[link]):
            return False
    was, now = old.cpu_loads(), new.cpu_loads()
    return all(now.get(n, 0.0) <= max(limit, was.get(n, 0.0)) for n, limit in old.cpus.items())


def link_classes(
    placement: Placement, link: LinkName, needs: Mapping[str, LinkClass]
) -> tuple[LinkClass, ...]:
    """The flows over one link as classes for the simulator, most valuable first.

    ``needs`` says what the results of every query need; a flow that serves several queries
    gets the needs of the most valuable one.
    """
    queries = placement.network.queries
    flows = []
    for flow in placement.flows():
        if flow.link == link and flow.rate_per_s > 0:
            wanted = [needs[queries[q].name] for q in sorted(flow.queries)]
            flows.append((max(wanted, key=lambda c: c.value), flow))
    flows.sort(key=lambda pair: (-pair[0].value, pair[1].source))
    return tuple(
        replace(
            wanted,
            name=flow.source,
            value=float(len(flows) - i),
            size_bytes=flow.size_bytes,
            rate_per_s=flow.rate_per_s,
        )
        for i, (wanted, flow) in enumerate(flows)
    )
