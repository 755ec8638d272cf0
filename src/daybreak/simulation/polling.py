"""A system that polls, in virtual time: AQSIOS as class-based-thesis simulates it (5.3, 6.2).

Its cores never rest: a box that is called pays its set-up whether or not it holds tuples, so an
operator called more often than needed costs the others time. What differs from ``executor``:

* a box call costs ``Box.call_ns`` (set-up) and ``cost_ns`` per tuple, both with noise;
* a superbox (a query) takes what had arrived when it was picked, and runs as one piece;
* boxes that *wait* merge their inputs in order of time, as STREAM's joins do: a tuple goes on
  once every other input has reached its arrival time;
* boxes may *hold* their newest tuple until the next one arrives (``aggregate_sync``);
* sources have cores of their own (``sources``), and the workload may change during the run;
* a call on another core than the box's last one may cost extra (a cold cache).

Events are ordered as in ``executor``; tuples carry their arrival time and their luck.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal, NamedTuple

from daybreak.model.network import Network
from daybreak.model.overheads import Overheads
from daybreak.policies.base import BasePolicy, Change, Plan, Work
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.runtime.state import SystemState
from daybreak.simulation.executor import GOLDEN, NEVER, charge_of, passing
from daybreak.simulation.randomness import generator_for, random_for
from daybreak.simulation.simulate import collector_paused
from daybreak.simulation.sources import Deliveries
from daybreak.version import __version__


class Event(NamedTuple):
    """Something about the workload changes during the run."""

    at_ns: int
    what: Literal["class-priority", "query-class", "selectivity"]
    #: Index of the class, query or box.
    subject: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """How the simulated system behaves; boxes by index."""

    #: Relative fluctuation of every cost, up and down.
    noise: float = 0.05
    #: Boxes that merge their inputs in order of time.
    waits: Collection[int] = frozenset()
    #: Boxes that hold their newest tuple back.
    holds: Collection[int] = frozenset()
    #: Added to a box call on another core than its last one.
    cold_ns: int = 0
    overheads: Overheads = field(default_factory=Overheads)


class _Job:
    """A plan under way on one worker: what becomes visible when its current piece ends."""

    __slots__ = ("late", "plan", "results", "spent_ns", "step")

    def __init__(self) -> None:
        self.plan = Plan(())
        self.step = 0
        self.spent_ns = 0
        #: Outputs for boxes outside the piece: queue, arrivals, lucks.
        self.late: list[tuple[int, list[int], list[float]]] = []
        #: Results: query, arrivals, departures.
        self.results: list[tuple[int, list[int], list[int]]] = []


class PollingExecutor:
    """Runs plans against tuples that are handed over; see the module for the rules."""

    riding: frozenset[int] = frozenset()

    def __init__(
        self,
        state: SystemState,
        deliveries: Deliveries,
        monitor: Monitor,
        system: System,
        *,
        workers: int = 1,
        seed: int = 1,
        events: Sequence[Event] = (),
    ) -> None:
        network = state.network
        self.workers = workers
        self.now_ns = 0
        self._state, self._network, self._monitor, self._system = state, network, monitor, system
        self._at = [*deliveries.at_ns.tolist(), NEVER]
        self._arrived_at = deliveries.arrival_ns.tolist()
        self._stream = deliveries.stream.tolist()
        # Drawn by tuple, not by schedule: policies are compared on the same fates.
        self._luck = generator_for(seed, "luck").random(len(self._stream)).tolist()
        self._next = 0
        self._events = sorted(events)
        self._ends = [NEVER] * workers
        self._jobs = [_Job() for _ in range(workers)]
        self._scheduler_free_ns = 0
        self._random = random_for(seed, "noise").random
        self._set_up = [b.call_ns for b in network.boxes]
        self._cost = [b.cost_ns for b in network.boxes]
        #: What really passes; the state's estimates follow it.
        self._passes = [b.selectivity for b in network.boxes]
        self._last_worker = [-1] * len(network.boxes)
        self._lay_queues()

    def _lay_queues(self) -> None:
        """One queue per box, and one per input where a box waits."""
        network, waits = self._network, self._system.waits
        boxes = len(network.boxes)
        self._queue_box = list(range(boxes))
        self._inputs: list[tuple[int, ...]] = [() for _ in range(boxes)]
        self._entries: list[list[int]] = [[] for _ in network.streams]
        self._feeds: list[list[int]] = [[] for _ in range(boxes)]
        for b, box in enumerate(network.boxes):
            for name in box.inputs:
                queue = b
                if b in waits:
                    queue = len(self._queue_box)
                    self._queue_box.append(b)
                    self._inputs[b] += (queue,)
                if name in network.stream_index:
                    self._entries[network.stream_index[name]].append(queue)
                else:
                    self._feeds[network.box_index[name]].append(queue)
        self._arrivals: list[list[int]] = [[] for _ in self._queue_box]
        self._lucks: list[list[float]] = [[] for _ in self._queue_box]
        #: Arrival of the newest tuple each queue has seen.
        self._reached = [-1] * len(self._queue_box)
        self._shares = any(len(qs) > 1 for qs in network.box_queries)

    def start(self, worker: int, plan: Plan, work: Work) -> tuple[int, ...]:
        job, ready = self._jobs[worker], self.now_ns
        job.plan, job.step, job.spent_ns = plan, 0, 0
        self._monitor.decisions += 1
        if work.invocations:
            # One lock guards the schedule: one decision after the other (6.1.3).
            charge = charge_of(work, self._system.overheads)
            self._monitor.invoked(charge, work)
            ready = max(ready, self._scheduler_free_ns) + charge
            self._scheduler_free_ns = ready
        self._run_piece(worker, job, ready)
        return ()

    def advance(self, loop: Loop) -> bool:
        ends, at = self._ends, self._at
        while True:
            now = min(ends)
            if self._events and self._events[0].at_ns <= now:
                self._apply(self._events.pop(0), loop)
                return True
            if at[self._next] < now and (now == NEVER or (loop.idle and self._listens(loop))):
                self.now_ns = at[self._next]
                self._deliver(self.now_ns, loop)
                return True
            if now == NEVER:
                return False
            self.now_ns = now
            if at[self._next] <= now:
                self._deliver(now, loop)
            worker = ends.index(now)
            job = self._jobs[worker]
            self._reveal(job, loop)
            quota = job.plan.quota_ns
            if job.step < len(job.plan.steps) and (quota is None or job.spent_ns < quota):
                self._run_piece(worker, job, now)
                if not loop.idle:
                    continue
                return True
            ends[worker] = NEVER
            loop.completed(job.plan, worker, job.spent_ns, now)
            return not (at[self._next] == NEVER and self._drained())

    def _listens(self, loop: Loop) -> bool:
        return getattr(loop.arrived, "__func__", None) is not BasePolicy.on_arrival

    def _drained(self) -> bool:
        under_way = any(j.late or j.results for j in self._jobs)
        return not under_way and not any(self._state.pending)

    def _apply(self, event: Event, loop: Loop) -> None:
        self.now_ns = max(self.now_ns, event.at_ns)
        state = self._state
        if event.what == "selectivity":
            self._passes[event.subject] = event.value
        elif event.what == "class-priority":
            state.class_priority[event.subject] = event.value
            loop.changed(Change("class-priority", event.subject), self.now_ns)
        else:
            state.query_class[event.subject] = int(event.value)
            loop.changed(Change("query-class", event.subject), self.now_ns)

    def _deliver(self, until_ns: int, loop: Loop) -> None:
        """Queues every tuple the sources have handed over by this instant."""
        if until_ns >= self._monitor.next_sample_ns:
            self._monitor.sample(until_ns, self._state)
        state, boxes, entries = self._state, self._queue_box, self._entries
        pending, head, total, reached = (
            state.pending, state.head_ns, state.arrival_sum_ns, self._reached,
        )  # fmt: skip
        arrivals, lucks, tell = self._arrivals, self._lucks, self._listens(loop)
        at, stamps, streams, luck, i = (
            self._at, self._arrived_at, self._stream, self._luck, self._next,
        )  # fmt: skip
        while at[i] <= until_ns:
            stamp, u = stamps[i], luck[i]
            for queue in entries[streams[i]]:
                b = boxes[queue]
                if not pending[b]:
                    head[b] = stamp
                pending[b] += 1
                total[b] += stamp
                reached[queue] = stamp
                arrivals[queue].append(stamp)
                lucks[queue].append(u)
                u = (u + GOLDEN) % 1.0
                if tell:
                    loop.arrived(b, 1, at[i])
            i += 1
        self._next = i

    def _run_piece(self, worker: int, job: _Job, now: int) -> None:
        """Runs the next step, or all that are left where they are one superbox."""
        steps, quota = job.plan.steps, job.plan.quota_ns
        last = len(steps) if job.plan.superbox else job.step + 1
        inside: Collection[int] | None = None
        if self._shares or not job.plan.superbox:
            inside = {s[0] for s in steps[job.step + 1 : last]}
        end = now
        while job.step < last and (
            quota is None or job.step == 0 or job.spent_ns + end - now < quota
        ):
            box, limit, fraction = steps[job.step]
            job.step += 1
            end = self._call(worker, job, box, limit, fraction, end, inside)
        job.spent_ns += end - now
        self._ends[worker] = end

    def _call(
        self,
        worker: int,
        job: _Job,
        box: int,
        limit: int | None,
        fraction: float,
        now: int,
        inside: Collection[int] | None,
    ) -> int:
        """One box call; returns when it ends."""
        state, monitor = self._state, self._monitor
        spread = 1.0 + self._system.noise * (2.0 * self._random() - 1.0)
        began = now + round(self._set_up[box] * spread)
        if self._system.cold_ns:
            if self._last_worker[box] not in (worker, -1):
                began += self._system.cold_ns
            self._last_worker[box] = worker
        state.calls[box] += 1
        monitor.call_ns += began - now
        if not state.pending[box]:
            return began
        stamps, lucks = self._take(box, limit, fraction)
        taken = len(stamps)
        if not taken:
            return began
        each = self._cost[box] * spread
        work = round(taken * each)
        end = began + work
        monitor.work_ns += work
        passes, kept, out = self._passes[box], None, stamps
        if passes != 1.0:
            kept, lucks = passing(lucks, passes)
            out = [stamps[i] for i in kept]
        state.tuples_in[box] += taken
        state.tuples_out[box] += len(out)
        state.work_ns[box] += work
        state.refine(box, taken, len(out), work)
        if not out:
            return end
        for q in self._network.queries_at[box]:
            left = [began + round((i + 1) * each) for i in (range(taken) if kept is None else kept)]
            job.results.append((q, out, left))
        turn = 0.0
        for queue in self._feeds[box]:
            onward = lucks if not turn else [(u + turn) % 1.0 for u in lucks]
            turn += GOLDEN
            if inside is None or self._queue_box[queue] in inside:
                self._put(queue, out, onward)
            else:
                job.late.append((queue, out, onward))
        return end

    def _put(self, queue: int, stamps: list[int], lucks: list[float]) -> int:
        """Queues tuples at a box; returns the box."""
        state, box = self._state, self._queue_box[queue]
        if not state.pending[box]:
            state.head_ns[box] = stamps[0]
        state.pending[box] += len(stamps)
        state.arrival_sum_ns[box] += sum(stamps)
        self._reached[queue] = max(self._reached[queue], stamps[-1])
        self._arrivals[queue] += stamps
        self._lucks[queue] += lucks
        return box

    def _take(self, box: int, limit: int | None, fraction: float) -> tuple[list[int], list[float]]:
        """What a call may work on: all that is queued, less what must wait and what is barred."""
        state, ended = self._state, self._at[self._next] == NEVER
        held = state.pending[box]
        most = held
        if limit is not None or fraction < 1.0:
            most = min(max(1, ceil(held * fraction)), held if limit is None else limit)
        if self._inputs[box]:
            stamps, lucks = self._merge(self._inputs[box], most, ended)
        elif box in self._system.holds and not ended:
            stamps, lucks = self._cut(box, min(most, held - 1))
        elif most == held:
            stamps, lucks = self._arrivals[box], self._lucks[box]
            self._arrivals[box], self._lucks[box] = [], []
        else:
            stamps, lucks = self._cut(box, most)
        state.pending[box] = held - len(stamps)
        if not state.pending[box]:
            state.arrival_sum_ns[box] = 0
        else:
            state.arrival_sum_ns[box] -= sum(stamps)
            queues = self._inputs[box] or (box,)
            state.head_ns[box] = min(self._arrivals[q][0] for q in queues if self._arrivals[q])
        return stamps, lucks

    def _cut(self, queue: int, count: int) -> tuple[list[int], list[float]]:
        arrivals, lucks = self._arrivals[queue], self._lucks[queue]
        taken = arrivals[:count], lucks[:count]
        del arrivals[:count], lucks[:count]
        return taken

    def _merge(
        self, queues: Sequence[int], most: int, ended: bool
    ) -> tuple[list[int], list[float]]:
        """Of all inputs, in order of time, what every input has reached."""
        reached = NEVER if ended else min(self._reached[q] for q in queues)
        ready: list[tuple[int, float, int]] = []
        for q in queues:
            count = bisect_right(self._arrivals[q], reached)
            pairs = zip(self._arrivals[q][:count], self._lucks[q][:count], strict=True)
            ready.extend((stamp, luck, q) for stamp, luck in pairs)
        ready.sort()
        del ready[most:]
        for q in queues:
            self._cut(q, sum(1 for _, _, at in ready if at == q))
        return [stamp for stamp, _, _ in ready], [luck for _, luck, _ in ready]

    def _reveal(self, job: _Job, loop: Loop) -> None:
        """A piece ended: its outputs reach other boxes, its results leave."""
        for q, arrivals, departures in job.results:
            self._monitor.left(q, arrivals, departures)
        for queue, stamps, lucks in job.late:
            loop.arrived(self._put(queue, stamps, lucks), len(stamps), self.now_ns)
        job.results, job.late = [], []


def simulate_polling(
    network: Network,
    policy: BasePolicy,
    deliveries: Deliveries,
    system: System,
    *,
    workers: int = 1,
    seed: int = 1,
    events: Sequence[Event] = (),
    about: dict[str, Any] | None = None,
) -> RunReport:
    """Runs until every tuple has been worked off; the same seed gives the same run."""
    state = SystemState(network, workers, polls=True)
    last_ns = int(deliveries.at_ns[-1]) if len(deliveries.at_ns) else 0
    monitor = Monitor(network, sample_every_ns=max(last_ns // 200, 1))
    executor = PollingExecutor(
        state, deliveries, monitor, system, workers=workers, seed=seed, events=events
    )
    monitor.tell_of_results(policy)
    with collector_paused():
        Loop(state, policy, executor, seed).run()
    manifest = {
        "daybreak": __version__,
        "world": "simulation",
        **policy.told(),
        "seed": seed,
        "arrivals": len(deliveries.at_ns),
        **(about or {}),
    }
    return monitor.report(state, executor.now_ns, workers, manifest)
