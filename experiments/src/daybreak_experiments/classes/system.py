"""The simulated system of class-based-thesis (5.3.1, 6.2): a workload as a network, and its runs.

Queries are window, select, project, aggregate, two-way join, union and except, each ending in an
output operator; every query has streams of its own. The text profiles AQSIOS but prints no
costs: set-up, scheduling and tuple costs are ours, chosen so that tuple work alone loads 5G_4 to
three quarters and 5I and the 3x_6 to nine tenths at the stated rates
(docs/results/notes/classes.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from daybreak.model import (
    Arrivals,
    Box,
    Network,
    Overheads,
    QoSGraph,
    Query,
    QueryClass,
    Stream,
)
from daybreak.model.arrivals import Phase
from daybreak.model.network import BoxKind
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy
from daybreak.policies.parts.mbd.ruler import ruler, slots_of
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.randomness import random_for
from daybreak_experiments.classes.workloads import ClassLoad, Profile, SharedQuery, Workload
from daybreak_experiments.polling.deliveries import Deliveries, through_sources
from daybreak_experiments.polling.simulator import Event, System, simulate_polling

SET_UP_NS = 8_000
SCHEDULING = Overheads(fixed_ns=2_000)
#: Tuple costs (ns): 2, 7, 6, 10, 9 and 4 µs, all times 1.4. A union costs what a projection
#: does and an except what a join does.
COST_NS = {
    "window": 2_800,
    "select": 9_800,
    "project": 8_400,
    "aggregate": 14_000,
    "join": 12_600,
    "union": 8_400,
    "except": 12_600,
    "output": 5_600,
}
#: Tuple costs differ by so much between queries, up and down.
SPREAD = 0.2
#: Selections pass a share in this range (Table 3), joins and excepts this one.
SELECTS = (0.25, 1.0)
JOIN_SELECTIVITY = 0.5
SOURCE_POLL_NS, SOURCE_TUPLE_NS = 100, 500

BOX_KIND: dict[str, BoxKind] = {
    "window": "map",
    "select": "filter",
    "project": "map",
    "aggregate": "aggregate",
    "join": "join",
    "union": "union",
    "except": "join",
    "output": "map",
    "source": "map",
}
SourceOrder = Literal["round-robin", "mbd"]


def operator_of(box: str) -> str:
    """The operator a box is, from its name: ``3.12/join`` is a join."""
    return box.rpartition("/")[2].rstrip("0123456789")


class _Builder:
    """Collects the parts of a network, query by query."""

    def __init__(self, workload: Workload, seed: int, deadlines_ms: Sequence[float] = ()) -> None:
        self.workload = workload
        self.seed = seed
        self.deadlines_ms = deadlines_ms
        self.streams: list[Stream] = []
        self.boxes: list[Box] = []
        self.queries: list[Query] = []

    def add(self, cls: ClassLoad, index: int, kind: str, original: int) -> None:
        """Query ``index`` of a class, a replica of ``original`` or itself. Equal places in two
        classes have equal costs, so classes of equal numbers carry equal load (D, 3D_6)."""
        random = random_for(self.seed, f"classes/{kind}/{original}")
        name, factor = f"{cls.name}.{index}", random.uniform(1 - SPREAD, 1 + SPREAD)
        passes = random.uniform(*SELECTS) if kind == "select" else 1.0
        inputs = [self._input(cls, name, side) for side in range(1, 3 if kind == "join" else 2)]
        if kind == "join":
            passes = _first(cls.join_selectivity, JOIN_SELECTIVITY)
            if cls.selects_before_joins:
                share = _first(cls.select_selectivity, 1.0)
                inputs = [
                    self._box(f"{name}/select{side}", [source], factor, share)
                    for side, source in enumerate(inputs, 1)
                ]
        elif kind == "select":
            passes = _first(cls.select_selectivity, passes)
        if kind in ("join", "aggregate"):
            inputs = [
                self._box(f"{name}/window{side}", [source], factor)
                for side, source in enumerate(inputs, 1)
            ]
        last = self._box(f"{name}/{kind}", inputs, factor, passes)
        qos = None
        if self.deadlines_ms:
            deadline_ms = self.deadlines_ms[index % len(self.deadlines_ms)]
            qos = QoSGraph.deadline(deadline_ms / 1e3)
        self._finish(name, cls.name, last, factor, qos)

    def add_shared(self, shared: SharedQuery) -> None:
        """A query over the first stream of each class it reads; windows come before an except."""
        inputs = [self._source(f"{cls}.1/in1") for cls in shared.reads]
        passes = 1.0
        if shared.kind == "except":
            passes = JOIN_SELECTIVITY
            inputs = [
                self._box(f"{shared.name}/window{side}", [source])
                for side, source in enumerate(inputs, 1)
            ]
        box = self._box(f"{shared.name}/{shared.kind}", inputs, 1.0, passes)
        self._finish(shared.name, shared.cls, box, 1.0)

    def _finish(
        self, name: str, cls: str, last: str, factor: float, qos: QoSGraph | None = None
    ) -> None:
        output = self._box(f"{name}/output", [last], factor)
        self.queries.append(Query(name=name, output=output, cls=cls, qos=qos))

    def _input(self, cls: ClassLoad, query: str, side: int) -> str:
        stream = f"{query}/in{side}"
        self.streams.append(Stream(name=stream, arrivals=_arrivals(cls)))
        if not self.workload.source_cores:
            source = f"{query}/source{side}"
            self.boxes.append(
                Box(
                    name=source, inputs=(stream,), kind="map",
                    cost_ns=SOURCE_TUPLE_NS, call_ns=SOURCE_POLL_NS,
                )
            )  # fmt: skip
        return self._source(stream)

    def _source(self, stream: str) -> str:
        return stream if self.workload.source_cores else stream.replace("/in", "/source")

    def _box(
        self, name: str, inputs: Sequence[str], factor: float = 1.0, passes: float = 1.0
    ) -> str:
        operator = operator_of(name)
        self.boxes.append(
            Box(
                name=name,
                inputs=tuple(inputs),
                kind=BOX_KIND[operator],
                cost_ns=round(COST_NS[operator] * factor),
                call_ns=SET_UP_NS,
                selectivity=passes,
            )
        )
        return name


def _first(profile: Profile, otherwise: float) -> float:
    return profile[0][1] if profile and profile[0][0] == 0 else otherwise


def _arrivals(cls: ClassLoad) -> Arrivals:
    steps = cls.rates
    if not steps:
        return Arrivals(rate_per_s=cls.rate_per_s)
    if steps[0][0] > 0:
        steps = ((0.0, cls.rate_per_s), *steps)
    phases = [
        Phase(factor=rate / cls.rate_per_s, duration_s=until - since)
        for (since, rate), (until, _) in pairwise(steps)
    ]
    # The list of phases repeats: the last one lasts beyond any run.
    phases.append(Phase(factor=steps[-1][1] / cls.rate_per_s, duration_s=1e6))
    return Arrivals(rate_per_s=cls.rate_per_s, phases=tuple(phases))


def network_of(workload: Workload, seed: int = 1, deadlines_ms: Sequence[float] = ()) -> Network:
    """The workload's queries; without source cores, its sources are boxes too.

    ``deadlines_ms`` gives the queries of every class these deadlines in turn.
    """
    builder = _Builder(workload, seed, deadlines_ms)
    for cls in workload.classes:
        for index, (kind, original) in enumerate(cls.dealt(), 1):
            builder.add(cls, index, kind, original)
    for shared in workload.shared:
        builder.add_shared(shared)
    return Network(
        streams=builder.streams,
        boxes=builder.boxes,
        queries=builder.queries,
        classes=[QueryClass(name=c.name, priority=c.priority) for c in workload.classes],
    )


def tuple_load(workload: Workload, network: Network) -> float:
    """Tuple work per operational core at the declared rates, without set-up and scheduling."""
    work = sum(
        (s.arrivals.rate_per_s or 0.0) * network.total_cost_ns(i) / NS_PER_S
        for i, s in enumerate(network.streams)
        if s.arrivals
    )
    return work / workload.cores


def divided_cores(workload: Workload, network: Network, total: int) -> tuple[int, int]:
    """So many cores divided by expected load: operational ones, and the sources' (2.2.3)."""
    rates = [s.arrivals.rate_per_s or 0.0 for s in network.streams if s.arrivals]
    sources = sum(rates) * SOURCE_TUPLE_NS / NS_PER_S
    operational = tuple_load(workload, network) * workload.cores
    share = round(total * sources / (sources + operational))
    own = min(max(1, share), total - 1)
    return total - own, own


def events_of(workload: Workload, network: Network) -> list[Event]:
    """What the workload changes during the run; rates are in the arrivals already."""
    events: list[Event] = []

    def follow(profile: Profile, what: Literal["class-priority", "selectivity"], at: int) -> None:
        events.extend(Event(_ns(s), what, at, value) for s, value in profile if s > 0)

    for cls in workload.classes:
        follow(cls.priorities, "class-priority", network.class_index[cls.name])
        for box, declared in enumerate(network.boxes):
            if not declared.name.startswith(f"{cls.name}."):
                continue
            operator = operator_of(declared.name)
            if operator == "select":
                follow(cls.select_selectivity, "selectivity", box)
            elif operator == "join":
                follow(cls.join_selectivity, "selectivity", box)
    for moved in workload.assignments:
        query, to = network.query_index[moved.query], network.class_index[moved.cls]
        events.append(Event(_ns(moved.at_s), "query-class", query, to))
    return events


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def run_workload(
    workload: Workload,
    policy: BasePolicy,
    seed: int = 1,
    *,
    aggregate_sync: bool = False,
    cold_ns: int = 0,
    cores: int | None = None,
    source_cores: int | None = None,
    source_order: SourceOrder = "round-robin",
    deadlines_ms: Sequence[float] = (),
    input_share: float = 1.0,
) -> RunReport:
    """One run: the same seed gives the same queries, arrivals and fates, whatever the policy.

    ``aggregate_sync``: aggregates hold their newest tuple until the next arrives. ``cold_ns``
    is added to box calls on another core than the box's last one. ``cores`` and ``source_cores``
    replace the workload's. ``input_share`` scales its input rates.
    """
    if input_share != 1.0:
        workload = workload.with_input(input_share)
    workload = replace(
        workload,
        cores=workload.cores if cores is None else cores,
        source_cores=workload.source_cores if source_cores is None else source_cores,
    )
    network = network_of(workload, seed, deadlines_ms)
    schedule = draw_schedule(network, workload.duration_s, seed)
    deliveries = Deliveries.at_once(schedule)
    if workload.source_cores:
        deliveries = through_sources(
            schedule,
            source_turns(network, source_order),
            cores=workload.source_cores,
            poll_ns=SOURCE_POLL_NS,
            tuple_ns=SOURCE_TUPLE_NS,
        )
    operators = [operator_of(b.name) for b in network.boxes]
    system = System(
        waits=frozenset(b for b, o in enumerate(operators) if o in ("join", "except")),
        holds=frozenset(b for b, o in enumerate(operators) if aggregate_sync and o == "aggregate"),
        cold_ns=cold_ns,
        overheads=SCHEDULING,
    )
    return simulate_polling(
        network,
        policy,
        deliveries,
        system,
        workers=workload.cores,
        seed=seed,
        events=events_of(workload, network),
        about={
            "workload": workload.name,
            "source_cores": workload.source_cores,
            "priority_changes": priority_changes(workload),
        },
    )


def source_turns(network: Network, order: SourceOrder) -> tuple[int, ...]:
    """The streams in polling order: each once, or as often as its class's priority (6.3.6)."""
    if order == "round-robin":
        return tuple(range(len(network.streams)))
    priorities = []
    for boxes in network.stream_boxes:
        cls = min(network.class_of(q) for b in boxes for q in network.box_queries[b])
        priorities.append(round(network.classes[cls].priority))
    return slots_of(ruler(priorities))


def priority_changes(workload: Workload) -> list[dict[str, float | str]]:
    """For reports: when which class got which priority."""
    return [
        {"at_s": at_s, "class": cls.name, "priority": priority}
        for cls in workload.classes
        for at_s, priority in cls.priorities
    ]
