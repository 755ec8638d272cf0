"""An executor in virtual time: W workers, FIFO queues, trains, and every overhead charged.

Events are totally ordered: by time, arrivals before completions, completions by worker. A box
takes its train when it starts; outputs of an inner box appear when its train ends; outputs of
an output box leave one tuple-cost apart (aurora-thesis, Table 3.1).

A tuple is its arrival time and its *luck*, one number in [0, 1) drawn when it arrives at its
first box. A box of selectivity s lets it pass if luck < s and hands on luck / s, which is again
uniform: fates are independent from box to box, cost one draw per tuple, and do not depend on
the schedule, so two policies are compared on the same tuples.

This is a hot path: a box call costs about two microseconds (benchmarks/simulator.py), and most
of that is the interpreter's price per function call. Hence few, longer functions and plain
lists; the common case (whole queue, constant cost, everything passes) runs without helpers.
"""

from __future__ import annotations

from math import ceil, floor

from daybreak.engine.state import SystemState
from daybreak.model.errors import EngineBug
from daybreak.model.overheads import Overheads
from daybreak.policies.base import Plan, Work
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.loop import NEVER, SimulationLoop
from daybreak.simulation.offered import OfferedWork
from daybreak.simulation.pipes import Pipes
from daybreak.simulation.randomness import random_for

#: Spreads the luck of copies: successive multiples of it are evenly spread modulo 1.
GOLDEN = 0.6180339887498949


class _Job:
    """A plan under way on one worker."""

    __slots__ = (
        "arrivals", "began_ns", "ends_ns", "lucks", "plan", "spent_ns", "step", "sum_ns", "through",
        "work_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.plan = Plan(())
        #: Index of the step under way; -1 while the scheduler still decides.
        self.step = -1
        self.spent_ns = 0
        #: Its one tuple goes through all boxes at once (``Pipes``).
        self.through = False
        #: The train: arrivals of its tuples, their sum, and lucks.
        self.sum_ns = 0
        self.arrivals: list[int] = []
        self.lucks: list[float] = []
        #: When the work began, how long it takes, and where costs vary, each tuple's end.
        self.began_ns = 0
        self.work_ns = 0
        self.ends_ns: list[int] | None = None


class VirtualExecutor:
    """Runs plans against drawn arrivals; see the module for the rules."""

    def __init__(
        self,
        state: SystemState,
        schedule: ArrivalSchedule,
        monitor: Monitor,
        overheads: Overheads,
        *,
        workers: int = 1,
        seed: int = 1,
        lists: bool = True,
    ) -> None:
        """``lists=False`` takes every step the general way; results are the same."""
        network = state.network
        self.workers = workers
        self.now_ns = 0
        self._state = state
        self._network = network
        self._monitor = monitor
        self._overheads = overheads
        self._at = [*schedule.at_ns.tolist(), NEVER]
        self._stream = schedule.stream.tolist()
        #: One more than there are streams: an arrival there reaches no box (``waiting``).
        self._stream_boxes = (*network.stream_boxes, ())
        self._next = 0
        #: When each worker's current step ends.
        self._ends = [NEVER] * workers
        self._jobs = [_Job() for _ in range(workers)]
        self._scheduler_free_ns = 0
        self._arrivals: list[list[int]] = [[] for _ in network.boxes]
        self._lucks: list[list[float]] = [[] for _ in network.boxes]
        self._lucky = _needs_luck(state)
        self._luck = random_for(seed, "luck").random
        self._service = random_for(seed, "service").expovariate
        self._cost = [b.cost_ns for b in network.boxes]
        self._fixed = [b.call_ns for b in network.boxes]
        self._passes = [b.selectivity for b in network.boxes]
        self._varies = [b.service == "exponential" for b in network.boxes]
        self._alone = workers == 1 and lists
        self._pipes = Pipes(state, monitor, overheads, self._arrivals, self._lucks, self._lucky)
        self._simple = [self._next_box(b) for b in range(len(network.boxes))]
        self.offered = OfferedWork(state, schedule)

    def start(self, worker: int, plan: Plan, work: Work) -> None:
        job = self._jobs[worker]
        job.plan, job.step, job.spent_ns, job.through = plan, -1, 0, False
        superbox_ns = self._overheads.superbox_ns if plan.superbox else 0
        self._monitor.decisions += 1
        ready = self.now_ns
        if work.invocations:
            # One scheduler serves all workers, one decision after the other.
            charge = charge_of(work, self._overheads)
            self._monitor.invoked(charge, work)
            if charge:
                ready = max(ready, self._scheduler_free_ns) + charge
                self._scheduler_free_ns = ready
        if superbox_ns:
            self._monitor.superbox_ns += superbox_ns
            job.spent_ns = superbox_ns
            ready += superbox_ns
        if ready > self.now_ns:
            self._ends[worker] = ready
        elif not self._begin(worker, ready):
            raise EngineBug(f"a plan had nothing to do: {plan}")

    def advance(self, loop: SimulationLoop) -> bool:
        ends, at = self._ends, self._at
        while True:
            now = min(ends)
            if loop.idle:
                arrival = at[self._next]
                if loop.wake_ns < now and loop.wake_ns < arrival:
                    if now == arrival == NEVER and not loop.alone_until_wake():
                        return False
                    self.now_ns = loop.wake_ns
                    return True
                if arrival < now:
                    self.now_ns = arrival
                    self._deliver(arrival, loop)
                    return True
            if now == NEVER:
                return False
            self.now_ns = now
            if at[self._next] <= now:
                self._deliver(now, loop)
            worker = ends.index(now)
            job = self._jobs[worker]
            step = job.step
            if job.through:
                self._pipes.leave(job.plan, now)
            elif step >= 0:
                self._emit(job, now, loop)
                if self._alone and job.plan.steps[-1][1] is None:
                    now = self._run_on(job, now, loop)
                    step = job.step
            if step + 1 == len(job.plan.steps) or not self._begin(worker, now):
                ends[worker] = NEVER
                loop.completed(job.plan, worker, job.spent_ns, now)
                return True
            if loop.idle:
                return True

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> None:
        """Queues every arrival up to this instant."""
        if until_ns >= self._monitor.next_sample_ns:
            self._monitor.sample(until_ns, self._state, self.offered.until(until_ns))
        state, stream_boxes = self._state, self._stream_boxes
        pending, head, total = state.pending, state.head_ns, state.arrival_sum_ns
        queues, lucky, arrived = self._arrivals, self._lucky, loop.arrived
        at, streams, i = self._at, self._stream, self._next
        while (now := at[i]) <= until_ns:
            for b in stream_boxes[streams[i]]:
                if not pending[b]:
                    head[b] = now
                pending[b] += 1
                total[b] += now
                queues[b].append(now)
                if lucky[b]:
                    self._lucks[b].append(self._luck())
                arrived(b, 1, now)
            i += 1
        self._next = i

    def _begin(self, worker: int, now: int) -> bool:
        """Begins the next step of the worker's plan that has tuples; False if none has."""
        job, state = self._jobs[worker], self._state
        steps, quota = job.plan.steps, job.plan.quota_ns
        pending, index = state.pending, job.step + 1
        if steps[0][1] == 1 and not index and self._alone:
            end = self._pipes.run(job.plan, now)
            if end >= 0:
                job.through, job.step = True, len(steps) - 1
                job.spent_ns += end - now
                self._ends[worker] = end
                return True
        if quota is not None and index and job.spent_ns >= quota:
            return False
        while not pending[steps[index][0]]:
            index += 1
            if index == len(steps):
                return False
        job.step = index
        box, limit, fraction = steps[index]
        held = pending[box]
        if limit is None and fraction == 1.0:
            taken = held
            job.arrivals, self._arrivals[box] = self._arrivals[box], []
            if self._lucky[box]:
                job.lucks, self._lucks[box] = self._lucks[box], []
            job.sum_ns = state.arrival_sum_ns[box]
            pending[box] = state.arrival_sum_ns[box] = 0
        else:
            taken = self._take_some(job, box, limit, fraction)
        o, monitor = self._overheads, self._monitor
        fixed = self._fixed[box]
        began = job.began_ns = now + o.box_call_ns + o.storage_ns + fixed
        if self._varies[box]:
            job.ends_ns = self._draw_ends(began, taken, self._cost[box])
            work = job.ends_ns[-1] - began
        else:
            job.ends_ns = None
            work = taken * self._cost[box]
        job.work_ns = fixed + work
        job.spent_ns += began - now + work
        monitor.call_ns += o.box_call_ns
        monitor.storage_ns += o.storage_ns
        monitor.work_ns += fixed + work
        self._ends[worker] = began + work
        return True

    def _emit(self, job: _Job, now: int, loop: SimulationLoop) -> None:
        """The train ended: what passes goes downstream or leaves."""
        box = job.plan.steps[job.step][0]
        arrivals, lucks = job.arrivals, job.lucks
        taken, state, network = len(arrivals), self._state, self._network
        passes, kept = self._passes[box], None
        if passes != 1.0:
            kept, lucks = passing(lucks, passes)
        for q in network.queries_at[box]:
            out = arrivals if kept is None else [arrivals[i] for i in kept]
            self._monitor.left(q, out, self._departures(job, taken, self._cost[box], kept))
        total = job.sum_ns
        if kept is not None:
            arrivals = [arrivals[i] for i in kept]
            total = sum(arrivals)
        state.calls[box] += 1
        state.tuples_in[box] += taken
        state.tuples_out[box] += len(arrivals)
        state.work_ns[box] += job.work_ns
        if kept is not None or job.ends_ns is not None or self._fixed[box]:
            # Elsewhere the declared figures are exact and stay.
            state.refine(box, taken, len(arrivals), job.work_ns)
        if not arrivals:
            return
        branch = -1
        for d in network.downstream[box]:
            branch += 1
            held = state.pending[d]
            if not held:
                state.head_ns[d] = arrivals[0]
            if held or branch:
                self._arrivals[d].extend(arrivals)
            else:
                self._arrivals[d] = arrivals
            state.pending[d] = held + len(arrivals)
            state.arrival_sum_ns[d] += total
            if self._lucky[d]:
                turn = branch * GOLDEN
                self._lucks[d].extend([(u + turn) % 1.0 for u in lucks] if branch else lucks)
            loop.arrived(d, len(arrivals), now)

    def _next_box(self, box: int) -> int:
        """The one box fed by a box that is simple enough for ``_run_on``, else -1."""
        down = self._network.downstream[box]
        simple = len(down) == 1 and not self._network.queries_at[box] and not self._lucky[box]
        return down[0] if simple and not self._varies[box] and not self._fixed[box] else -1

    def _run_on(self, job: _Job, now: int, loop: SimulationLoop) -> int:
        """The lone worker goes on through the list while steps are simple; returns the time.

        The same as ``_begin`` and ``_emit`` in turn, for whole queues of boxes that pass
        everything at constant cost to one other box: most of what large networks do.
        """
        state, simple, costs, at = self._state, self._simple, self._cost, self._at
        pending, total, queues = state.pending, state.arrival_sum_ns, self._arrivals
        head, calls, inputs, outputs = state.head_ns, state.calls, state.tuples_in, state.tuples_out
        call_ns = self._overheads.box_call_ns + self._overheads.storage_ns
        works, arrived, deliver = state.work_ns, loop.arrived, self._deliver
        steps, quota = job.plan.steps, job.plan.quota_ns
        arrival = at[self._next]
        began, made, work = now, 0, 0
        index = job.step + 1
        while index < len(steps) and quota is None:
            box, limit, fraction = steps[index]
            taken, down = pending[box], simple[box]
            if down < 0 or limit is not None or fraction != 1.0:
                break
            index += 1
            if not taken:
                continue
            train, queues[box] = queues[box], []
            summed = total[box]
            pending[box] = total[box] = 0
            spent = taken * costs[box]
            now += call_ns + spent
            made += 1
            work += spent
            works[box] += spent
            calls[box] += 1
            inputs[box] += taken
            outputs[box] += taken
            if arrival <= now:
                deliver(now, loop)
                arrival = at[self._next]
            held = pending[down]
            if held:
                queues[down].extend(train)
            else:
                queues[down] = train
                head[down] = train[0]
            pending[down] = held + taken
            total[down] += summed
            arrived(down, taken, now)
        job.step = index - 1
        job.spent_ns += now - began
        self._monitor.call_ns += made * self._overheads.box_call_ns
        self._monitor.storage_ns += made * self._overheads.storage_ns
        self._monitor.work_ns += work
        self.now_ns = now
        return now

    def _take_some(self, job: _Job, box: int, limit: int | None, fraction: float) -> int:
        """Takes part of a queue: at most ``limit`` tuples and ``fraction`` of what is held."""
        state = self._state
        held = state.pending[box]
        taken = min(max(1, ceil(held * fraction)), held if limit is None else limit)
        queue, lucks = self._arrivals[box], self._lucks[box]
        job.arrivals, job.lucks = queue[:taken], lucks[:taken]
        del queue[:taken]
        del lucks[:taken]
        job.sum_ns = sum(job.arrivals)
        state.pending[box] = held - taken
        state.arrival_sum_ns[box] -= job.sum_ns
        if queue:
            state.head_ns[box] = queue[0]
        return len(job.arrivals)

    def _draw_ends(self, began: int, taken: int, mean_ns: int) -> list[int]:
        end, ends = began, []
        for _ in range(taken):
            end += round(self._service(1 / mean_ns)) if mean_ns else 0
            ends.append(end)
        return ends

    @staticmethod
    def _departures(job: _Job, taken: int, cost: int, kept: list[int] | None) -> list[int]:
        if job.ends_ns is not None:
            ends = job.ends_ns
        elif cost:
            ends = list(range(job.began_ns + cost, job.began_ns + taken * cost + 1, cost))
        else:
            ends = [job.began_ns] * taken
        return ends if kept is None else [ends[i] for i in kept]


def charge_of(work: Work, o: Overheads) -> int:
    return (
        work.invocations * o.fixed_ns
        + work.scanned * o.scan_ns
        + work.compared * o.compare_ns
        + work.evaluated * o.evaluate_ns
        + work.queued * o.queued_ns
        + work.buckets * o.bucket_ns
    )


def passing(lucks: list[float], passes: float) -> tuple[list[int], list[float]]:
    """Indices of the outputs (an index repeats where a box multiplies), and their luck."""
    if passes < 1.0:
        kept = [i for i, u in enumerate(lucks) if u < passes]
        return kept, [lucks[i] / passes for i in kept]
    whole = floor(passes)
    part = passes - whole
    kept, turned = [], []
    for i, u in enumerate(lucks):
        copies = whole + (u < part)
        # Uniform again within the branch taken, then spread over the copies.
        rest = u / part if u < part else (u - part) / (1.0 - part)
        for copy in range(copies):
            kept.append(i)
            turned.append((rest + copy * GOLDEN) % 1.0)
    return kept, turned


def _needs_luck(state: SystemState) -> list[bool]:
    """Whether a tuple's luck still matters at or below each box."""
    network = state.network
    needed = [False] * len(network.boxes)
    for b in reversed(network.topological):
        needed[b] = network.boxes[b].selectivity != 1.0 or any(
            needed[d] for d in network.downstream[b]
        )
    return needed
