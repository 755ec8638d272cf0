"""The machine that schedules queries: typed events in, instructions out.

It is closed: nothing changes but in ``handle``, and others see it through frozen views
(``view.EngineView``).

It has no thread, no clock and does no I/O, so a test tells it what happened and compares what it
answers, and a replay in virtual time takes the same decisions as a run on Spark:

    >>> engine.handle(now_ns, SegmentArrived(segment))
    [StartJob(order=1, worker=0, ...)]

A query has one owner at any time (``queries.Owner``), and each of its tuples is in one place: it
waits in the inbox, it is in one order, it is on its way out by a ``Skip``, or it is past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from daybreak.engine import events as ev
from daybreak.engine.admission import Demand, demand_for
from daybreak.engine.core import Core, Settings
from daybreak.engine.express import Express
from daybreak.engine.inbox import Arrival, Inbox, Waiting
from daybreak.engine.ingest import STEP_NS, Ingestion
from daybreak.engine.instructions import Instruction, WakeAt
from daybreak.engine.journal import EngineOrigin, Journal
from daybreak.engine.lifecycle import FULL, Lifecycle
from daybreak.engine.orders import Order, Orders
from daybreak.engine.overload import LoadShedding
from daybreak.engine.queries import Owner, QueryBug, QueryFacts
from daybreak.engine.state import JobState
from daybreak.engine.story import StoryLine, as_text, story_of
from daybreak.engine.view import EngineView, changes_numbers_only, view_of
from daybreak.policies.base import BasePolicy, Change, Plan, Wait, Work
from daybreak.policies.reasons import Reason

#: A policy that asks to be asked again at once is asked again after so long.
LEAST_WAIT_NS = 1_000_000
#: An ``EngineBug`` shows so many lines of its query's story: the last jobs and what led to them.
#: Half as many may miss how the query got there, twice as many fill two screens.
STORY_LINES = 40


class Engine:
    """One policy, its queries and their workers. One thread uses it."""

    def __init__(
        self,
        state: JobState,
        facts: Sequence[QueryFacts],
        inboxes: Sequence[Inbox],
        policy: BasePolicy,
        settings: Settings,
        next_seq: Mapping[str, int] | None = None,
    ) -> None:
        """``inboxes`` hold what waits already; ``next_seq``: the first segment that is not in
        them, by stream."""
        #: What it has heard and answered. ``handle`` alone adds to it.
        self.journal = Journal(
            EngineOrigin.of(state, facts, inboxes, policy, settings, next_seq or {})
        )
        self.settings = settings
        self._core = Core(state, facts, inboxes, policy, settings)
        self._state, self._queries = self._core.state, self._core.queries
        self._lifecycle = Lifecycle(self._core)
        self._orders = Orders(self._core, self._lifecycle)
        self._express = Express(self._core.state)
        self._ingestion = Ingestion(self._core)
        self._shedding: LoadShedding | None = None
        if settings.shedding is not None:
            self._shedding = LoadShedding(self._core, self._lifecycle, settings.shedding)
        self._idle = list(range(state.workers))
        #: When the policy wants to be asked again, as far as it said when it had no plan.
        self._planned_ns = 0
        self._stopping = False
        #: The first segment that has not been handed to the queries, by stream.
        self._next_seq = dict(next_seq or {})
        #: Rows that arrived so far, by stream.
        self._arrived_rows: dict[str, int] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Started: self._started,
            ev.Woke: self._woke,
            ev.SegmentArrived: self._segment_arrived,
            ev.WatermarkRaised: self._watermark_raised,
            ev.RangeArrived: self._range_arrived,
            ev.SourceShows: self._ingestion.shows,
            ev.Ingested: self._ingested,
            ev.JobBegan: self._orders.began,
            ev.JobEnded: self._job_ended,
            ev.Delivered: self._lifecycle.delivered,
            ev.Skipped: self._lifecycle.skipped,
            ev.LogFull: self._log_full,
            ev.Stop: self._stop,
            ev.SetPriority: self._set_priority,
            ev.AssignClass: self._assign_class,
            ev.SetWeight: self._set_weight,
            ev.SetSubscribers: self._set_subscribers,
            ev.SwitchPolicy: lambda e: self._core.switch(e.policy, e.seed),
            ev.AddQuery: self._add_query,
            ev.Pause: self._lifecycle.pause,
            ev.Resume: self._lifecycle.resume,
            ev.Drop: self._lifecycle.drop,
        }
        #: As others see it; any thread may read it.
        self.view = self._view()
        self._has_view = True

    def handle(self, now_ns: int, *events: ev.Event) -> list[Instruction]:
        """What is to be done because of these events, which happened by now.

        Idle workers are given work once, after the last of them. ``now_ns`` counts from anywhere
        and never goes back: retries, time limits and all that policies decide go by it, and so
        must the stamps of what arrives. ``EngineBug`` ends with the story of the query concerned.
        """
        core = self._core
        core.now_ns = max(core.now_ns, now_ns)
        try:
            for event in events:
                self._handlers[type(event)](event)
            if not self._stopping:
                self._dispatch()
        except QueryBug as bug:
            self.journal.add(now_ns, events, core.out)
            raise QueryBug(f"{bug}\n{self._told(bug.box)}", bug.box) from bug
        out, core.out = core.out, []
        self.journal.add(now_ns, events, out)
        self._has_view = False
        is_old = core.now_ns - self.view.at_ns >= self.settings.view_every_ns
        if is_old or not all(map(changes_numbers_only, events)):
            self.look()
        return out

    def story(self, box: int) -> list[StoryLine]:
        """The events and instructions that concern a query, the newest last; any thread may ask.

        Of those that the journal keeps, and only since the query came.
        """
        view = self.view
        return story_of(self.journal.entries(), box, view.facts[box].reads, view.query_class[box])

    def _told(self, box: int) -> str:
        self.look()
        names = [facts.name for facts in self.view.facts]
        return "\n".join(as_text(line, box, names) for line in self.story(box)[-STORY_LINES:])

    # What others may look at, on the thread that calls ``handle``

    def look(self) -> EngineView:
        """Brings ``view`` up to this moment."""
        if not self._has_view:
            self.view, self._has_view = self._view(), True
        return self.view

    def _view(self) -> EngineView:
        return view_of(self._core, self._next_seq, self._arrived_rows)

    def waiting(self, box: int) -> tuple[Waiting, ...]:
        """Lists what waits for a query, oldest first."""
        return tuple(self._queries.inboxes[box].waiting)

    def cell(self, box: int) -> tuple[int, ...]:
        """Lists the queries that may run as one job with this one, and itself."""
        return tuple(self._core.compositor.cell(box))

    def demand(self, facts: QueryFacts, cls: int, rate_per_s: Callable[[str], float]) -> Demand:
        """States what one more query would ask for; ``rate_per_s``: of a stream."""
        return demand_for(self._core, facts, cls, rate_per_s)

    @property
    def orders(self) -> Mapping[int, Order]:
        """Orders under way, by number."""
        return self._orders.under_way

    @property
    def sheds(self) -> bool:
        """Whether it gives up tuples under overload, and so has to be woken now and then."""
        return self._shedding is not None

    @property
    def busy(self) -> bool:
        return bool(self._orders.under_way)

    @property
    def quiet(self) -> bool:
        """Whether all that arrived is answered, as far as queries may run."""
        retrying = any(s.state == "retrying" for s in self._queries.status)
        idle = not self.busy and not self._lifecycle.skips
        return idle and not retrying and not any(self._state.pending)

    def explain(self, box: int, now_ns: int) -> Reason | None:
        """The policy's reason for how long a query waits or waited; it changes nothing."""
        return self._core.policy.explain(box, now_ns)

    def skipping(self, box: int) -> list[Waiting]:
        """What is being given up of a query, and not yet recorded."""
        return self._lifecycle.skipping(box)

    # Decisions

    def _dispatch(self) -> None:
        """Gives work to idle workers until there is none for them."""
        core = self._core
        while self._express.idle and (urgent := self._express.next()) is not None:
            self._orders.start(self._express.idle.pop(), urgent, Owner.EXPRESS, Work())
        while self._idle:
            stream = self._ingestion.urgent()
            if stream is not None:
                self._ingestion.start(stream, self._idle.pop())
                continue
            asked = self._ask()
            if asked is None:
                break
            worker, plan = asked
            if not self._may_start(plan):
                core.policy.on_completion(plan, worker, 0, core.now_ns)
                continue
            self._idle.remove(worker)
            self._ingestion.job_started()
            self._orders.start(worker, plan, Owner.PLANNED, core.work)
            if core.work.invocations:
                core.work.clear()
        if self._idle and (stream := self._ingestion.next()) is not None:
            # The policy may want its last worker back at an instant of its own.
            away_ns = self._planned_ns - core.now_ns if len(self._idle) == 1 else STEP_NS
            self._ingestion.start(stream, self._idle.pop(), away_ns)

    def _ask(self) -> tuple[int, Plan] | None:
        """The first idle worker that the policy has a plan for; one may have none, another one."""
        core, waits = self._core, []
        for worker in reversed(self._idle):
            decision = core.policy.decide(core.now_ns, worker)
            if isinstance(decision, Plan):
                return worker, decision
            core.work.clear()
            if isinstance(decision, Wait):
                waits.append(decision.until_ns)
        self._planned_ns = min(waits, default=core.now_ns + STEP_NS)
        if waits:
            core.emit(WakeAt(max(self._planned_ns, core.now_ns + LEAST_WAIT_NS)))
        return None

    def _may_start(self, plan: Plan) -> bool:
        """False if the plan was overtaken: its queries run or ran in another's job, or are held."""
        owners = [self._queries.owner(step.box) for step in plan.steps]
        if Owner.PLANNED in owners:
            box = plan.steps[owners.index(Owner.PLANNED)].box
            name, policy = self._queries.facts[box].name, self._core.policy.name
            raise QueryBug(f"{policy} planned query {name!r}, which is running", box)
        if any(owner is not Owner.IDLE for owner in owners):
            return False
        return any(self._state.pending[step.box] for step in plan.steps)

    # Events

    def _started(self, _event: ev.Started) -> None:
        for box in range(len(self._queries)):
            self._queries.inboxes[box].arrived_by(self._core.now_ns)
            self._queries.show(box)
            if pending := self._state.pending[box]:
                self._core.arrived(box, pending)

    def _woke(self, event: ev.Woke) -> None:
        self._state.processor = event.processor
        self._orders.watch()
        self._hand_back(self._ingestion.watch())
        self._lifecycle.retry()
        if self._shedding is not None:
            self._shedding.woke()

    def is_new(self, segment: Arrival) -> bool:
        """False of a batch that comes again after a crash: its tuples are counted already."""
        return segment.seq >= self._next_seq.get(segment.stream, 0)

    def _segment_arrived(self, event: ev.SegmentArrived) -> None:
        segment = event.segment
        if not self.is_new(segment):
            return
        stream = segment.stream
        self._next_seq[stream] = segment.seq + 1
        self._arrived_rows[stream] = self._arrived_rows.get(stream, 0) + segment.rows
        for box in self._queries.readers(stream):
            self._state.arrived[box] += segment.rows
            self._core.arrived(box, self._queries.inboxes[box].arrive(segment))

    def _watermark_raised(self, event: ev.WatermarkRaised) -> None:
        for box in self._queries.readers(event.tick.stream):
            self._core.arrived(box, self._queries.inboxes[box].tick(event.tick))

    def _range_arrived(self, event: ev.RangeArrived) -> None:
        for box in event.boxes:
            self._state.arrived[box] += event.item.tuples
            self._queries.inboxes[box].put(event.item)
            self._core.arrived(box, event.item.tuples)

    def _ingested(self, event: ev.Ingested) -> None:
        self._hand_back(self._ingestion.ended(event))

    def _hand_back(self, worker: int | None) -> None:
        """Lets the policy have the worker of a step of ingest that has ended, if one has."""
        if worker is not None:
            self._idle.append(worker)

    def _job_ended(self, event: ev.JobEnded) -> None:
        order = self._orders.ended(event)
        (self._express.idle if order.express else self._idle).append(order.worker)
        if self._shedding is not None:
            self._shedding.settle(b for b in order.boxes if not self._queries.in_job(b))

    def _log_full(self, event: ev.LogFull) -> None:
        """Lagging queries that may skip do so; the others hold up the sources."""
        skips: dict[int, int] = {}
        for box, status in enumerate(self._queries.status):
            if status.state == "dropped" or self._queries.in_job(box) or self._blocks(box):
                continue
            if self.skipping(box):
                continue
            if self._queries.facts[box].answers == "windows":
                skips[box] = event.windows.get(box, 0)
            else:
                skips[box] = tuples_before(self._queries.inboxes[box].waiting, event.cut)
        self._lifecycle.skip({b: n for b, n in skips.items() if n}, FULL)

    def _blocks(self, box: int) -> bool:
        """Whether a query rather slows the sources down than loses rows."""
        declared = self._queries.facts[box].on_full
        if declared is not None:
            return declared == "block"
        priorities = self._state.class_priority
        return priorities[self._state.query_class[box]] == max(priorities)

    def _stop(self, _event: ev.Stop) -> None:
        self._stopping = True

    # Commands

    def _changed(self, what: Any, subject: int) -> None:
        self._core.policy.on_change(Change(what, subject), self._core.now_ns)

    def _set_priority(self, event: ev.SetPriority) -> None:
        self._state.class_priority[event.cls] = event.priority
        self._changed("class-priority", event.cls)

    def _assign_class(self, event: ev.AssignClass) -> None:
        self._state.query_class[event.box] = event.cls
        self._changed("query-class", event.box)

    def _set_weight(self, event: ev.SetWeight) -> None:
        self._state.subscribers.pop(event.box, None)  # from now on it follows them no more
        self._state.query_weight[event.box] = event.weight
        self._changed("weight", event.box)

    def _set_subscribers(self, event: ev.SetSubscribers) -> None:
        for box in dict.fromkeys([*self._state.subscribed(event.box, event.count), event.box]):
            self._changed("weight", box)

    def _add_query(self, event: ev.AddQuery) -> None:
        core, box = self._core, event.box
        self._state.adopt(event.network)
        self._state.renew(box)
        inbox = event.inbox.copy()  # the journal keeps the event as it came
        inbox.arrived_by(core.now_ns)
        self._queries.add(box, event.facts, inbox)
        self._queries.own(box, Owner.IDLE)
        core.compositor.adopt(box)
        if self._shedding is not None:
            self._shedding.forget(box)
        if core.policy.keeps_learning():
            core.policy.on_query_added(box, core.now_ns)
            core.arrived(box, self._state.pending[box])
        else:  # it sizes its tables when it is attached: a fresh one begins from nothing
            core.switch(type(core.policy)(core.policy.params), core.settings.seed)


def tuples_before(waiting: Iterable[Waiting], cut: Mapping[str, tuple[int, int]]) -> int:
    """The shortest prefix of an inbox that holds all that lies before these places."""
    taken = before = 0
    for item in waiting:
        taken += item.tuples
        if item.stream in cut and (item.seq, item.row) < cut[item.stream]:
            before = taken
    return before
