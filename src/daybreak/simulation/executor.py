"""An executor in virtual time: W workers, FIFO queues, trains, and every overhead charged.

Events are totally ordered: by time, arrivals before completions, completions by worker. A box
takes its train when it starts; outputs of an inner box appear when its train ends; outputs of
an output box leave one tuple-cost apart (aurora-thesis, Table 3.1).

A tuple is its arrival time and its *luck*, one number in [0, 1) drawn when it arrives at its
first box. A box of selectivity s lets it pass if luck < s and hands on luck / s, which is again
uniform: fates are independent from box to box, cost one draw per tuple, and do not depend on
the schedule, so two policies are compared on the same tuples.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import ceil, floor

from daybreak.model.overheads import Overheads
from daybreak.policies.base import Completion, Plan, Work
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.state import SystemState
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.randomness import random_for

#: Later than any event.
NEVER = 2**62
#: Spreads the luck of copies: successive multiples of it are evenly spread modulo 1.
GOLDEN = 0.6180339887498949


@dataclass(slots=True)
class _Job:
    """A plan under way on one worker."""

    plan: Plan
    #: Index of the step under way; -1 while the scheduler still decides.
    step: int = -1
    spent_ns: int = 0
    arrivals: list[int] | None = None
    lucks: list[float] | None = None
    #: When the first tuple's work began, and when each tuple's ends if costs vary.
    began_ns: int = 0
    work_ns: int = 0
    ends_ns: list[int] | None = None


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
    ) -> None:
        network = state.network
        self.workers = workers
        self.now_ns = 0
        self._state = state
        self._network = network
        self._monitor = monitor
        self._overheads = overheads
        self._at = [*schedule.at_ns.tolist(), NEVER]
        self._stream = schedule.stream.tolist()
        self._next = 0
        self._heap: list[tuple[int, int]] = []
        self._jobs: list[_Job | None] = [None] * workers
        self._scheduler_free_ns = 0
        self._arrivals: list[list[int]] = [[] for _ in network.boxes]
        self._lucks: list[list[float]] = [[] for _ in network.boxes]
        self._lucky = _needs_luck(state)
        self._luck = random_for(seed, "luck").random
        self._service = random_for(seed, "service").expovariate
        self._cost = [b.cost_ns for b in network.boxes]
        self._passes = [b.selectivity for b in network.boxes]
        self._varies = [b.service == "exponential" for b in network.boxes]

    def start(self, worker: int, plan: Plan, work: Work) -> None:
        o = self._overheads
        charge = (
            work.invocations * o.fixed_ns
            + work.scanned * o.scan_ns
            + work.compared * o.compare_ns
            + work.evaluated * o.evaluate_ns
            + work.queued * o.queued_ns
            + work.buckets * o.bucket_ns
        )
        self._monitor.decided(charge, work)
        self._jobs[worker] = _Job(plan)
        # One scheduler serves all workers, one decision after the other.
        ready = max(self.now_ns, self._scheduler_free_ns) + charge
        if charge:
            self._scheduler_free_ns = ready
        heapq.heappush(self._heap, (ready, worker))

    def advance(self, loop: Loop) -> bool:
        heap, at = self._heap, self._at
        while True:
            now = heap[0][0] if heap else NEVER
            if loop.idle and at[self._next] < now:
                now = at[self._next]
                if now >= self._monitor.next_sample_ns:
                    self._monitor.sample(now, self._state)
                self.now_ns = now
                self._deliver(now, loop)
                return True
            if now == NEVER:
                return False
            if now >= self._monitor.next_sample_ns:
                self._monitor.sample(now, self._state)
            if at[self._next] <= now:
                self._deliver(now, loop)
            self.now_ns = now
            worker = heap[0][1]
            if self._ended(worker, now, loop) or loop.idle:
                return True

    def _deliver(self, until_ns: int, loop: Loop) -> None:
        """Queues every arrival up to this instant."""
        state, stream_boxes = self._state, self._network.stream_boxes
        pending, head, total = state.pending, state.head_ns, state.arrival_sum_ns
        at, streams, i, arrived = self._at, self._stream, self._next, loop.arrived
        while (now := at[i]) <= until_ns:
            for b in stream_boxes[streams[i]]:
                if not pending[b]:
                    head[b] = now
                pending[b] += 1
                total[b] += now
                self._arrivals[b].append(now)
                if self._lucky[b]:
                    self._lucks[b].append(self._luck())
                arrived(b, 1, now)
            i += 1
        self._next = i

    def _ended(self, worker: int, now: int, loop: Loop) -> bool:
        """A step (or the decision) ended: begins the next; True when the plan is over."""
        job = self._jobs[worker]
        assert job is not None
        steps = job.plan.steps
        if job.step >= 0:
            self._emit(steps[job.step].box, job, now, loop)
        elif len(steps) > 1:
            now += self._overheads.superbox_ns
            job.spent_ns += self._overheads.superbox_ns
            self._monitor.superbox_ns += self._overheads.superbox_ns
        quota, pending = job.plan.quota_ns, self._state.pending
        for index in range(job.step + 1, len(steps)):
            if quota is not None and job.spent_ns >= quota:
                break
            if pending[steps[index].box]:
                job.step = index
                heapq.heapreplace(self._heap, (self._begin(job, now), worker))
                return False
        heapq.heappop(self._heap)
        self._jobs[worker] = None
        loop.completed(Completion(job.plan, worker, job.spent_ns), now)
        return True

    def _begin(self, job: _Job, now: int) -> int:
        """Takes the train of the job's current step; returns when it will end."""
        step = job.plan.steps[job.step]
        box, o = step.box, self._overheads
        taken = self._take(job, box, step.limit, step.fraction)
        call = o.box_call_ns + o.storage_ns
        began = job.began_ns = now + call
        if self._varies[box]:
            mean = self._cost[box]
            end, ends = began, []
            for _ in range(taken):
                end += round(self._service(1 / mean)) if mean else 0
                ends.append(end)
            job.ends_ns = ends
            job.work_ns = end - began
        else:
            job.ends_ns = None
            job.work_ns = taken * self._cost[box]
        job.spent_ns += call + job.work_ns
        self._monitor.called(o.box_call_ns, o.storage_ns, job.work_ns)
        return began + job.work_ns

    def _take(self, job: _Job, box: int, limit: int | None, fraction: float) -> int:
        state = self._state
        held = state.pending[box]
        taken = held if fraction >= 1.0 else max(1, ceil(held * fraction))
        if limit is not None and limit < taken:
            taken = limit
        queue, lucks = self._arrivals[box], self._lucks[box]
        if taken == held:
            job.arrivals, self._arrivals[box] = queue, []
            job.lucks, self._lucks[box] = lucks, []
            state.pending[box] = state.arrival_sum_ns[box] = 0
            return taken
        job.arrivals, job.lucks = queue[:taken], lucks[:taken]
        del queue[:taken]
        del lucks[:taken]
        state.pending[box] = held - taken
        state.arrival_sum_ns[box] -= sum(job.arrivals)
        state.head_ns[box] = queue[0]
        return taken

    def _emit(self, box: int, job: _Job, now: int, loop: Loop) -> None:
        """The train ended: what passes goes downstream or leaves."""
        arrivals, lucks = job.arrivals or [], job.lucks or []
        taken, passes = len(arrivals), self._passes[box]
        network = self._network
        queries = network.queries_at[box]
        if passes == 1.0:
            kept = None
        else:
            kept, lucks = _passing(lucks, passes)
        if queries:
            departures = self._departures(job, taken, self._cost[box], kept)
            out = arrivals if kept is None else [arrivals[i] for i in kept]
            for q in queries:
                self._monitor.left(q, out, departures)
        if kept is not None:
            arrivals = [arrivals[i] for i in kept]
        self._state.record_call(box, taken, len(arrivals), job.work_ns)
        if arrivals:
            for branch, d in enumerate(network.downstream[box]):
                self._queue(d, arrivals, lucks, branch, now, loop)

    def _queue(
        self, box: int, arrivals: list[int], lucks: list[float], branch: int, now: int, loop: Loop
    ) -> None:
        state, n = self._state, len(arrivals)
        if branch or state.pending[box]:
            self._arrivals[box].extend(arrivals)
        else:
            self._arrivals[box] = arrivals
        if self._lucky[box]:
            turned = lucks if not branch else [(u + branch * GOLDEN) % 1.0 for u in lucks]
            self._lucks[box].extend(turned)
        if not state.pending[box]:
            state.head_ns[box] = arrivals[0]
        state.pending[box] += n
        state.arrival_sum_ns[box] += sum(arrivals)
        loop.arrived(box, n, now)

    @staticmethod
    def _departures(job: _Job, taken: int, cost: int, kept: list[int] | None) -> list[int]:
        if job.ends_ns is not None:
            ends = job.ends_ns
        elif cost:
            ends = list(range(job.began_ns + cost, job.began_ns + taken * cost + 1, cost))
        else:
            ends = [job.began_ns] * taken
        return ends if kept is None else [ends[i] for i in kept]


def _passing(lucks: list[float], passes: float) -> tuple[list[int], list[float]]:
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
