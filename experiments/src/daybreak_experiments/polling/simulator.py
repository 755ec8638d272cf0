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

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.model.overheads import Overheads
from daybreak.policies.base import BasePolicy, Change, Plan, Work
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.executor import GOLDEN, charge_of, passing
from daybreak.simulation.loop import NEVER, SimulationLoop
from daybreak.simulation.randomness import generator_for, random_for
from daybreak.simulation.simulate import collector_paused
from daybreak.version import __version__
from daybreak_experiments.polling.deliveries import Deliveries
from daybreak_experiments.polling.queues import Queues, Train


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
        self._shares = any(len(qs) > 1 for qs in network.box_queries)
        self._last_worker = [-1] * len(network.boxes)
        #: Boxes whose estimates follow what is measured; elsewhere the declared figures stay.
        changing = {e.subject for e in events if e.what == "selectivity"}
        self._learns = [p != 1.0 or b in changing for b, p in enumerate(self._passes)]
        self._queues = Queues(state, system.waits, system.holds)

    def start(self, worker: int, plan: Plan, work: Work) -> None:
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

    def advance(self, loop: SimulationLoop) -> bool:
        ends, at = self._ends, self._at
        while True:
            now = min(ends)
            if loop.wake_ns < now and loop.idle and self._wakes(loop, now):
                alone = now == at[self._next] == NEVER and not self._events
                return not alone or loop.alone_until_wake()
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

    def _wakes(self, loop: SimulationLoop, ends_ns: int) -> bool:
        """Goes to the instant a policy waits for, unless something happens before."""
        wake, arrival = loop.wake_ns, self._at[self._next]
        if self._events and self._events[0].at_ns <= wake:
            return False
        if arrival <= wake and (ends_ns == NEVER or self._listens(loop)):
            return False
        self.now_ns = wake
        if arrival <= wake:
            self._deliver(wake, loop)
        return True

    def _listens(self, loop: SimulationLoop) -> bool:
        return getattr(loop.arrived, "__func__", None) is not BasePolicy.on_arrival

    def _drained(self) -> bool:
        under_way = any(j.late or j.results for j in self._jobs)
        return not under_way and not any(self._state.pending)

    def _apply(self, event: Event, loop: SimulationLoop) -> None:
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

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> None:
        """Queues every tuple the sources have handed over by this instant."""
        if until_ns >= self._monitor.next_sample_ns:
            self._monitor.sample(until_ns, self._state)
        state, queues = self._state, self._queues
        boxes, entries = queues.box, queues.entries
        pending, head, total, reached = (
            state.pending, state.head_ns, state.arrival_sum_ns, queues.reached,
        )  # fmt: skip
        arrivals, lucks, tell = queues.arrivals, queues.lucks, self._listens(loop)
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
        queues.ended = at[i] == NEVER

    def _run_piece(self, worker: int, job: _Job, now: int) -> None:
        """Runs the next step, or all that are left where they are one superbox."""
        steps, quota = job.plan.steps, job.plan.quota_ns
        end = now
        if not job.plan.superbox:
            box, limit, fraction = steps[job.step]
            job.step += 1
            end = self._call(worker, job, box, limit, fraction, end, ())
        elif quota is None and not self._shares:
            job.step = len(steps)
            end = self._run_query(worker, job, end)
        else:
            inside = {s[0] for s in steps}
            while job.step < len(steps) and (quota is None or not job.step or end - now < quota):
                box, limit, fraction = steps[job.step]
                job.step += 1
                end = self._call(worker, job, box, limit, fraction, end, inside)
        job.spent_ns += end - now
        self._ends[worker] = end

    def _run_query(self, worker: int, job: _Job, now: int) -> int:
        """The same as ``_call`` step by step, where all boxes belong to the plan alone.

        Trains go from box to box without being queued: this is most of what a run does.
        """
        state, system, random = self._state, self._system, self._random
        pending, calls, set_ups = state.pending, state.calls, self._set_up
        queues = self._queues
        direct, feeds, of_queue, put = queues.direct, queues.feeds, queues.box, queues.put
        spread2, cold_ns = 2.0 * system.noise, system.cold_ns
        handed: dict[int, Train] = {}
        end, called_ns = now, 0
        for box, limit, fraction in job.plan.steps:
            spread = 1.0 + spread2 * (random() - 0.5)
            set_up = int(set_ups[box] * spread)
            if cold_ns:
                if self._last_worker[box] not in (worker, -1):
                    set_up += cold_ns
                self._last_worker[box] = worker
            end += set_up
            called_ns += set_up
            calls[box] += 1
            train = handed.pop(box, None)
            if train is None:
                if not pending[box]:
                    continue
                train = queues.take(box, limit, fraction)
            if not train[0]:
                continue
            end, out, lucks = self._work(job, box, train, end, spread)
            if not out:
                continue
            turn = 0.0
            for queue in feeds[box]:
                onward = lucks if not turn else [(u + turn) % 1.0 for u in lucks]
                turn += GOLDEN
                to = of_queue[queue]
                if direct[to] and not pending[to] and to not in handed:
                    handed[to] = (out, onward)
                else:
                    if to in handed:
                        put(to, *handed.pop(to))
                    put(queue, out, onward)
        self._monitor.call_ns += called_ns
        return end

    def _call(
        self,
        worker: int,
        job: _Job,
        box: int,
        limit: int | None,
        fraction: float,
        now: int,
        inside: Collection[int],
    ) -> int:
        """One box call; returns when it ends. Outputs for boxes ``inside`` are there at once."""
        state = self._state
        spread = 1.0 + self._system.noise * (2.0 * self._random() - 1.0)
        began = now + int(self._set_up[box] * spread)
        if self._system.cold_ns:
            if self._last_worker[box] not in (worker, -1):
                began += self._system.cold_ns
            self._last_worker[box] = worker
        state.calls[box] += 1
        self._monitor.call_ns += began - now
        if not state.pending[box]:
            return began
        train = self._queues.take(box, limit, fraction)
        if not train[0]:
            return began
        end, out, lucks = self._work(job, box, train, began, spread)
        turn = 0.0
        for queue in self._queues.feeds[box] if out else ():
            onward = lucks if not turn else [(u + turn) % 1.0 for u in lucks]
            turn += GOLDEN
            if self._queues.box[queue] in inside:
                self._queues.put(queue, out, onward)
            else:
                job.late.append((queue, out, onward))
        return end

    def _work(
        self, job: _Job, box: int, train: Train, began: int, spread: float
    ) -> tuple[int, list[int], list[float]]:
        """A box works on a train: when it ends, and what passes. Results are noted."""
        state, (stamps, lucks) = self._state, train
        taken = len(stamps)
        each = self._cost[box] * spread
        work = int(taken * each)
        self._monitor.work_ns += work
        passes, kept, out = self._passes[box], None, stamps
        if passes != 1.0:
            kept, lucks = passing(lucks, passes)
            out = [stamps[i] for i in kept]
        state.tuples_in[box] += taken
        state.tuples_out[box] += len(out)
        state.work_ns[box] += work
        if self._learns[box]:
            state.refine(box, taken, len(out), work)
        if out:
            for q in self._network.queries_at[box]:
                places = range(1, taken + 1) if kept is None else [i + 1 for i in kept]
                job.results.append((q, out, [began + int(i * each) for i in places]))
        return began + work, out, lucks

    def _reveal(self, job: _Job, loop: SimulationLoop) -> None:
        """A piece ended: its outputs reach other boxes, its results leave."""
        for q, arrivals, departures in job.results:
            self._monitor.left(q, arrivals, departures)
        for queue, stamps, lucks in job.late:
            loop.arrived(self._queues.put(queue, stamps, lucks), len(stamps), self.now_ns)
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
        SimulationLoop(state, policy, executor, seed).run()
    manifest = {
        "daybreak": __version__,
        "world": "simulation",
        **policy.told(),
        "seed": seed,
        "arrivals": len(deliveries.at_ns),
        **(about or {}),
    }
    return monitor.report(state, executor.now_ns, workers, manifest)
