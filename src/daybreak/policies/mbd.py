"""MBD, the Multicore Broadcast Disks scheduler (class-based-thesis, chapter 6).

Small parts make it up: a ruler over queries (``mbd_schedule``), queries that share boxes merged
(``sharing``), and a correction that watches response times by class and changes the classes'
frequencies when a higher class is slower than a lower one (``correction``, ``inversion``).

A free core takes the next query of the schedule. A query that runs on another core is skipped,
and flagged to run once more when it ends there. The schedule is rebuilt only at the end of a
round. Where boxes are not polled (on Spark), slots of queries that hold nothing are passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, View, Work
from daybreak.policies.parts.mbd.correction import (
    Correction,
    Frequencies,
    Levelling,
    Stepwise,
    Uncorrected,
)
from daybreak.policies.parts.mbd.inversion import MODULES
from daybreak.policies.parts.mbd.mbd_schedule import MbdSchedule, mbd_schedule, query_priorities
from daybreak.policies.parts.mbd.merged_queries import MergedQueries, query_costs_ns
from daybreak.policies.parts.mbd.ruler import LARGEST, whole
from daybreak.policies.parts.queues.growing_tables import put

ModuleName = Literal["none", "dvp", "ivp", "dsp", "isp", "level"]
Selectivity = Literal["off", "s", "sa"]
#: Costs that were not declared are followed when one changes by this factor.
LEARNED = 2.0
#: Slots of a query in a round, at most, where costs are learned: they are not known well enough to
#: tell queries further apart, and the schedule is built anew while they change.
MOST_SLOTS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class MbdParams:
    """Which of its modules are on."""

    #: What to do about priority inversion: nothing, a module of the text, or levelling.
    module: ModuleName = "none"
    #: Inversion is judged at this percentile of response times; 0 is the mean.
    percentile: int = 0
    #: Whether equal response times count as inversion.
    equal_inverts: bool = False
    #: Inversion is judged from so many seconds after the start or a change on.
    warm_up_s: float = 0.5
    #: Levelling waits so long before it judges what it did.
    patience_s: float = 0.5
    #: Costs and selectivities: as at the start; followed when one changed by the threshold
    #: (s); or taken again whenever inversion changes the frequencies (sa).
    selectivity: Selectivity = "off"
    #: The share by which a selectivity has to change before it is followed.
    threshold: float = 0.1
    #: Whether changes of priorities and of queries' classes are followed.
    up: bool = True
    #: Tuples a box takes at most per call; 0 means its whole queue.
    train: int = 0

    def __post_init__(self) -> None:
        def refuse(finding: str, remedy: str) -> ConfigError:
            return ConfigError("policy", finding, remedy)

        if self.train < 0:
            raise refuse(f"train {self.train}", "give 0 or more")
        if not 0 <= self.percentile < 100:
            raise refuse(f"percentile {self.percentile}", "give 1 to 99, or 0 for the mean")
        if not self.warm_up_s >= 0:
            raise refuse(f"warm_up_s {self.warm_up_s}", "give 0 or more seconds")
        if not self.patience_s >= 0:
            raise refuse(f"patience_s {self.patience_s}", "give 0 or more seconds")
        if not self.threshold > 0:
            raise refuse(f"threshold {self.threshold}", "give a share above 0, such as 0.1")
        if self.selectivity == "sa" and self.module == "none":
            raise refuse("selectivity sa without a module", "choose a module, or s")


class MulticoreBroadcastDisks(BasePolicy):
    """A cyclic schedule over queries, so that classes share cores by priority."""

    name = "mbd"
    summary = "cyclic schedule over queries by class priority and cost; modules undo inversion"
    granularity = "query"
    starves_nothing = True
    watches_results = True
    counts_idle_queries = True  # they take slots from the others of their class
    Params: ClassVar[type[Any]] = MbdParams
    params: MbdParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._random = Random(f"{seed}/mbd").random
        self._read_network()
        self._correction = self._made_correction(len(view.class_priority))
        self._started = False
        #: Units to run once more when they end, and those that have ended since.
        self._flagged: set[int] = set()
        self._again: deque[int] = deque()
        self._out: dict[int, int] = {}
        #: Units that hold tuples, where they are not polled.
        self._ready = {
            u for u, boxes in enumerate(self._units.boxes) if any(view.pending[b] for b in boxes)
        }
        if view.polls:
            # Every query is called in its turn anyway: no need to hear of every tuple.
            self.__dict__["on_arrival"] = super().on_arrival
        self._changed = False
        #: Queries that were removed, and whether the schedule does not know yet who came or went.
        self._gone: set[int] = set()
        self._outdated = False
        self._declared = all(cost > 0 for cost in query_costs_ns(view))
        self._follow_classes()
        self._follow_costs()
        self._build()

    def _read_network(self) -> None:
        self._units = MergedQueries(self.view.network, self.params.train or None)
        self._plans = self._units.plans
        #: Whether a unit runs shows at its first box: plans hold all of them.
        self._first = [boxes[0] for boxes in self._units.boxes]

    def _made_correction(self, classes: int) -> Correction:
        p = self.params
        percentile = p.percentile or None
        if p.module == "none":
            return Uncorrected(classes, percentile, equal_inverts=p.equal_inverts)
        if p.module == "level":
            return Levelling(
                classes, percentile, equal_inverts=p.equal_inverts, patience_s=p.patience_s
            )
        return Stepwise(
            classes,
            percentile,
            equal_inverts=p.equal_inverts,
            module=MODULES[p.module],
            warm_up_s=p.warm_up_s,
        )

    # What the schedule is made from

    def _follow_classes(self) -> None:
        view = self.view
        self._priority = list(view.class_priority)
        self._class = list(view.query_class)
        #: Classes in order of priority, and their frequencies in that order.
        self._order = sorted(range(len(self._priority)), key=lambda c: (-self._priority[c], c))
        self.frequencies: Frequencies = tuple(whole([self._priority[c] for c in self._order]))

    def _follow_costs(self) -> None:
        self._costs = query_costs_ns(self.view)
        self._selectivity = list(self.view.selectivity)

    def shares(self) -> list[float]:
        """In what proportion the queries of a class share its slots: by cost."""
        return self._costs

    def _build(self) -> None:
        by_class = [0.0] * len(self._order)
        for place, c in enumerate(self._order):
            by_class[c] = float(self.frequencies[place])
        most = LARGEST if self._declared else MOST_SLOTS
        shares = self.shares()
        present = [q for q in range(len(shares)) if q not in self._gone]
        of_queries = query_priorities(
            [shares[q] for q in present], [self._class[q] for q in present], by_class, most
        )
        # Sharing queries merge, and their priorities add up.
        priorities = [0.0] * len(self._units)
        for q, priority in zip(present, of_queries, strict=True):
            priorities[self._units.of_query[q]] += priority
        self.schedule: MbdSchedule = mbd_schedule(priorities)
        self.work.scanned += len(self.schedule.units)
        self._outdated = False
        self._begin_round()

    def _begin_round(self) -> None:
        self._slots = list(zip(self.schedule.units, self.schedule.chances, strict=True))
        self._cursor = 0

    # Events

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self._ready.add(self._units.of_box[box])

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self._ended(self._out.pop(worker))

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        self._ended(self._units.of_box[box])

    def _ended(self, unit: int) -> None:
        if unit in self._flagged:
            self._flagged.discard(unit)
            self._again.append(unit)
        if self.view.polls:
            return
        pending = self.view.pending
        if any(pending[b] for b in self._units.boxes[unit]):
            self._ready.add(unit)
        else:
            self._ready.discard(unit)

    def on_change(self, change: Change, now_ns: int) -> None:
        if self.params.up and change.what in ("class-priority", "query-class"):
            self._changed = True

    def on_query_added(self, query: int, now_ns: int) -> None:
        """It has slots from the next round on; frequencies and response times stay."""
        self._gone.discard(query)
        self._read_network()
        put(self._class, query, self.view.query_class[query])
        put(self._costs, query, query_costs_ns(self.view)[query])
        for box in self.view.network.query_boxes[query]:
            put(self._selectivity, box, self.view.selectivity[box])
        self._declared = self._declared and self._costs[query] > 0
        self._outdated = True
        if not self._cursor:
            self._build()  # no slot of the round was used yet

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self._gone.add(query)
        unit = self._units.of_query[query]
        self._ready.discard(unit)
        self._flagged.discard(unit)
        self._again = deque(u for u in self._again if u != unit)
        self._outdated = True

    def on_results(
        self, query: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int
    ) -> None:
        self._correction.add(self._class[query], arrivals_ns, departures_ns, tuples)

    # Decisions

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        polls, running, first, ready = self.view.polls, self.view.running, self._first, self._ready
        if not self._started:
            self._started = True
            self._correction.reset(now_ns)
        if not polls and all(running[first[u]] for u in ready):
            return None
        self.work.invocations += 1
        while self._again:
            unit = self._again.popleft()
            if self.can_run(unit):
                return self._taken(unit, worker)
        rounds_ended = 0
        while True:
            if self._cursor >= len(self._slots):
                if rounds_ended:
                    return None  # a whole round, and nobody could run
                rounds_ended = 1
                self._end_round(now_ns)
            slot = self.next_slot(now_ns, worker)
            if slot is None:
                continue
            if running[first[slot]]:
                self._flagged.add(slot)
            elif polls or slot in ready:
                return self._taken(slot, worker)

    def next_slot(self, now_ns: int, worker: int) -> int | None:
        """Whose slot is next in the round; None if the lot leaves it to nobody."""
        unit, chance = self._slots[self._cursor]
        self._cursor += 1
        return unit if chance == 1.0 or self._random() < chance else None

    def can_run(self, unit: int) -> bool:
        free = not self.view.running[self._first[unit]]
        return free and (self.view.polls or unit in self._ready)

    def _taken(self, unit: int, worker: int) -> Plan:
        self._out[worker] = unit
        return self._plans[unit]

    # The end of a round

    def _end_round(self, now_ns: int) -> None:
        """The only moment at which the schedule changes."""
        self._begin_round()
        if self._changed:
            self._changed = False
            self._follow_classes()
            self._follow_costs()
            self._restart(now_ns)
        elif self._costs_moved():
            self._follow_costs()
            self._restart(now_ns)
        else:
            if self._outdated:
                self._rebuild(now_ns)
            self._correct(now_ns)

    def _restart(self, now_ns: int) -> None:
        """The schedule's inputs changed: judge anew from now on."""
        self._correction.reset(now_ns)
        self._rebuild(now_ns)

    def _rebuild(self, now_ns: int) -> None:
        self._build()
        self.schedule_updates_ns.append(now_ns)

    def _costs_moved(self) -> bool:
        if not self._declared:
            # Costs that nobody declared are learned: while they still change, follow them.
            now = query_costs_ns(self.view)
            pairs = zip(self._costs, now, strict=True)
            return any(new > LEARNED * old or old > LEARNED * new for old, new in pairs)
        if self.params.selectivity != "s":
            return False
        share = self.params.threshold
        return any(
            abs(new - old) > share * old
            for old, new in zip(self._selectivity, self.view.selectivity, strict=True)
        )

    def _correct(self, now_ns: int) -> None:
        priorities = [self._priority[c] for c in self._order]
        frequencies = self._correction.corrected(now_ns, self._order, priorities, self.frequencies)
        if frequencies == self.frequencies:
            return
        self.frequencies = frequencies
        if self.params.selectivity == "sa":
            self._follow_costs()
        self._rebuild(now_ns)
