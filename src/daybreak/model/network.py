"""Streams, boxes, queries and the network they form.

A *box* is an operator with a cost per tuple and a selectivity; a *query* is the tree of boxes
above an output box, with a class, a QoS graph and a freshness weight; a *network* is all of
them, and boxes may be shared. ``Network`` checks the whole once and numbers it: everything
below (policies, runtime) speaks in these indices.

Indices follow the natural order of names (b2 before b10), so the order in which things were
listed never matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from daybreak.model.arrivals import Arrivals
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import QoSGraph
from daybreak.model.weights import weights_by_subscribers

BoxKind = Literal["filter", "map", "union", "aggregate", "join"]
BOX_KINDS: tuple[str, ...] = get_args(BoxKind)
Service = Literal["constant", "exponential"]
SERVICES: tuple[str, ...] = get_args(Service)
DEFAULT_CLASS = "default"
#: Priorities of classes. Shares of a period (``cqc``) are still above 0 at both ends, and what all
#: classes yield together can be added up in floats.
LEAST_PRIORITY, MOST_PRIORITY = 1e-9, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryClass:
    """The administrator's word on how important a group of queries is."""

    name: str
    priority: float = 1.0
    #: QoS graph of the class's queries that declare none.
    qos: QoSGraph | None = None

    def __post_init__(self) -> None:
        if not LEAST_PRIORITY <= self.priority <= MOST_PRIORITY:
            remedy = f"priorities are above 0, from {LEAST_PRIORITY:g} to {MOST_PRIORITY:g}"
            raise ConfigError(f"class {self.name!r}", f"priority {self.priority}", remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A named input."""

    name: str
    arrivals: Arrivals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One operator. ``inputs`` name streams or other boxes."""

    name: str
    inputs: tuple[str, ...]
    kind: BoxKind = "map"
    cost_ns: int = 0
    selectivity: float = 1.0
    #: Fixed cost of one call, on top of the overheads every call has.
    call_ns: int = 0
    #: How long the results of a call take to come, beyond its work and without the CPU.
    wait_ns: int = 0
    #: Whether the time per tuple is always ``cost_ns``, or exponential with that mean.
    service: Service = "constant"
    tuple_bytes: int = 100

    def __post_init__(self) -> None:
        def refuse(finding: str, remedy: str) -> ConfigError:
            return ConfigError(f"box {self.name!r}", finding, remedy)

        if not self.inputs:
            raise refuse("has no inputs", "name at least one stream or box")
        if self.kind not in BOX_KINDS:
            raise refuse(f"kind {self.kind!r}", suggestion(self.kind, BOX_KINDS))
        if self.service not in SERVICES:
            raise refuse(f"service {self.service!r}", suggestion(self.service, SERVICES))
        if not 0 <= self.cost_ns <= 10**15:
            raise refuse(f"cost of {self.cost_ns} ns", "give 0 to 1e15 ns per tuple")
        if not 0 <= self.call_ns <= 10**15:
            raise refuse(f"call cost of {self.call_ns} ns", "give 0 to 1e15 ns per call")
        if not 0 <= self.wait_ns <= 10**15:
            raise refuse(f"wait of {self.wait_ns} ns", "give 0 to 1e15 ns per call")
        if not 0 <= self.selectivity <= 1000:
            raise refuse(f"selectivity {self.selectivity}", "give 0 to 1000 outputs per input")
        if self.tuple_bytes < 1:
            raise refuse(f"tuple_bytes {self.tuple_bytes}", "a tuple has at least one byte")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A continuous query: everything upstream of its ``output`` box."""

    name: str
    output: str
    cls: str = DEFAULT_CLASS
    qos: QoSGraph | None = None
    weight: float = 1.0
    #: How many users registered it; a network derives its weight from that where it is known.
    subscribers: int | None = None

    def __post_init__(self) -> None:
        place = f"query {self.name!r}"
        if not 0 < self.weight <= 1:
            raise ConfigError(place, f"weight {self.weight}", "freshness weights lie in (0, 1]")
        if self.subscribers is not None and self.subscribers < 0:
            raise ConfigError(place, f"subscribers {self.subscribers}", "give 0 or more")


T = TypeVar("T", Stream, Box, Query, QueryClass)


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort key that puts b2 before b10, total over any names."""
    parts = re.split(r"([0-9]+)", name)  # odd positions hold the numbers
    return tuple((i % 2 == 1, int(p) if i % 2 else 0, p) for i, p in enumerate(parts))


class Network:
    """A checked, numbered network of queries. Immutable."""

    def __init__(
        self,
        *,
        streams: Iterable[Stream],
        boxes: Iterable[Box],
        queries: Iterable[Query],
        classes: Iterable[QueryClass] = (),
        as_listed: bool = False,
    ) -> None:
        """``as_listed`` keeps the order given, for a network that grew while it ran."""
        sort = not as_listed
        self.streams = _numbered("stream", streams, sort)
        self.boxes = _numbered("box", boxes, sort)
        declared = list(classes) or [QueryClass(name=DEFAULT_CLASS)]
        # Highest priority first: class 0 is the most important one.
        self.classes = tuple(
            sorted(_numbered("class", declared), key=lambda c: (-c.priority, natural(c.name)))
        )
        self.class_index = {c.name: i for i, c in enumerate(self.classes)}
        numbered = _numbered("query", queries, sort)
        self.queries = tuple(self._with_qos(q) for q in _weighed(numbered))
        self.stream_index = {s.name: i for i, s in enumerate(self.streams)}
        self.box_index = {b.name: i for i, b in enumerate(self.boxes)}
        self.query_index = {q.name: i for i, q in enumerate(self.queries)}
        self._down_paths: dict[tuple[int, int], tuple[int, ...]] = {}
        self._connect()
        self._check_acyclic()
        self._trace_queries()

    def _with_qos(self, query: Query) -> Query:
        at = self.class_index.get(query.cls)
        if at is None:
            raise ConfigError(
                f"query {query.name!r}",
                f"class {query.cls!r} is not declared",
                suggestion(query.cls, self.class_index),
            )
        return query if query.qos else replace(query, qos=self.classes[at].qos)

    def _connect(self) -> None:
        both = self.stream_index.keys() & self.box_index.keys()
        if both:
            name = min(both)
            raise ConfigError(f"box {name!r}", "a stream has the same name", "rename one of them")
        stream_boxes: list[list[int]] = [[] for _ in self.streams]
        downstream: list[list[int]] = [[] for _ in self.boxes]
        upstream: list[list[int]] = [[] for _ in self.boxes]
        for b, box in enumerate(self.boxes):
            for name in box.inputs:
                if name in self.stream_index:
                    stream_boxes[self.stream_index[name]].append(b)
                elif name in self.box_index:
                    downstream[self.box_index[name]].append(b)
                    upstream[b].append(self.box_index[name])
                else:
                    raise ConfigError(
                        f"box {box.name!r}",
                        f"input {name!r} is neither a stream nor a box",
                        suggestion(name, [*self.stream_index, *self.box_index]),
                    )
        self.stream_boxes = _frozen(stream_boxes)
        #: Boxes fed by each box, and boxes feeding it.
        self.downstream = _frozen(downstream)
        self.upstream = _frozen(upstream)
        #: Boxes fed directly by a stream: the candidates of push-through policies.
        self.input_boxes = tuple(sorted({b for boxes in stream_boxes for b in boxes}))

    def _check_acyclic(self) -> None:
        waiting = [len(up) for up in self.upstream]
        free = [b for b, n in enumerate(waiting) if n == 0]
        order: list[int] = []
        while free:
            b = free.pop()
            order.append(b)
            for d in self.downstream[b]:
                waiting[d] -= 1
                if waiting[d] == 0:
                    free.append(d)
        if len(order) < len(self.boxes):
            stuck = sorted(self.boxes[b].name for b, n in enumerate(waiting) if n > 0)
            raise ConfigError(
                f"box {stuck[0]!r}",
                f"boxes feed each other in a circle: {', '.join(stuck[:5])}",
                "tuples must flow one way: cut one of the inputs",
            )
        #: Every box after all that feed it.
        self.topological = tuple(order)

    def _trace_queries(self) -> None:
        queries_at: list[list[int]] = [[] for _ in self.boxes]
        box_queries: list[list[int]] = [[] for _ in self.boxes]
        trees: list[tuple[int, ...]] = []
        for q, query in enumerate(self.queries):
            root = self.box_index.get(query.output)
            if root is None:
                raise ConfigError(
                    f"query {query.name!r}",
                    f"output box {query.output!r} is not declared",
                    suggestion(query.output, self.box_index),
                )
            queries_at[root].append(q)
            trees.append(self._post_order(root))
            for b in trees[-1]:
                box_queries[b].append(q)
        #: Queries whose output box this is, and all queries a box serves.
        self.queries_at = _frozen(queries_at)
        self.box_queries = _frozen(box_queries)
        #: The boxes of each query, every box after those that feed it (post-order).
        self.query_boxes = tuple(trees)
        for b, served in enumerate(box_queries):
            if not served:
                raise ConfigError(
                    f"box {self.boxes[b].name!r}", "feeds no query", "remove it, or add a query"
                )

    def _post_order(self, root: int) -> tuple[int, ...]:
        """Post-order with an explicit stack: chains may be thousands of boxes deep."""
        order: list[int] = []
        seen = {root}
        stack: list[tuple[int, int]] = [(root, 0)]
        while stack:
            box, child = stack.pop()
            if child == len(self.upstream[box]):
                order.append(box)
                continue
            stack.append((box, child + 1))
            up = self.upstream[box][child]
            if up not in seen:
                seen.add(up)
                stack.append((up, 0))
        return tuple(order)

    def with_query(self, box: Box, query: Query, streams: Iterable[Stream] = ()) -> Network:
        """This network with one more query of one box; all others keep their indices.

        A box and a query of the same names are replaced where they are.
        """
        boxes = {b.name: b for b in self.boxes}
        queries = {q.name: q for q in self.queries}
        known = {s.name: s for s in self.streams}
        return Network(
            streams=[*known.values(), *(s for s in streams if s.name not in known)],
            boxes={**boxes, box.name: box}.values(),
            queries={**queries, query.name: query}.values(),
            classes=self.classes,
            as_listed=True,
        )

    def down_path(self, box: int, query: int) -> tuple[int, ...]:
        """D(b): the box and those downstream of it within one query, in flow order."""
        known = self._down_paths.get((box, query))
        if known is not None:
            return known
        reached = {box}
        path: list[int] = []
        for b in self.query_boxes[query]:
            if b in reached:
                path.append(b)
                reached.update(self.downstream[b])
        self._down_paths[box, query] = tuple(path)
        return tuple(path)

    def class_of(self, query: int) -> int:
        """The declared class of a query (the runtime's catalog knows the current one)."""
        return self.class_index[self.queries[query].cls]

    def total_cost_ns(self, stream: int) -> float:
        """Expected work one tuple of this stream causes, over all queries."""
        flow = [0.0] * len(self.boxes)
        for b in self.stream_boxes[stream]:
            flow[b] += 1.0
        total = 0.0
        for b in self.topological:
            total += flow[b] * self.boxes[b].cost_ns
            for d in self.downstream[b]:
                flow[d] += flow[b] * self.boxes[b].selectivity
        return total

    def __repr__(self) -> str:
        return (
            f"Network({len(self.streams)} streams, {len(self.boxes)} boxes, "
            f"{len(self.queries)} queries, {len(self.classes)} classes)"
        )


def chain(
    name: str, stream: str, costs_ns: Sequence[int], selectivities: Sequence[float] = ()
) -> list[Box]:
    """A chain of boxes named ``name.1``, ``name.2``, ... from a stream to its last box."""
    passes = list(selectivities) or [1.0] * len(costs_ns)
    return [
        Box(
            name=f"{name}.{i + 1}",
            inputs=(stream if i == 0 else f"{name}.{i}",),
            kind="filter",
            cost_ns=cost,
            selectivity=share,
        )
        for i, (cost, share) in enumerate(zip(costs_ns, passes, strict=True))
    ]


def _numbered(what: str, items: Iterable[T], sort: bool = True) -> tuple[T, ...]:
    named: dict[str, T] = {}
    for item in items:
        if not item.name:
            raise ConfigError(what, "has an empty name", "name it")
        if item.name in named:
            raise ConfigError(f"{what} {item.name!r}", "is declared twice", "rename one of them")
        named[item.name] = item
    return tuple(named[name] for name in (sorted(named, key=natural) if sort else named))


def _weighed(queries: Sequence[Query]) -> list[Query]:
    derived = weights_by_subscribers(
        {q.name: q.subscribers for q in queries if q.subscribers is not None}
    )
    return [replace(q, weight=derived.get(q.name, q.weight)) for q in queries]


def _frozen(lists: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(items) for items in lists)
