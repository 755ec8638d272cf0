"""An executor in virtual time: W workers, FIFO queues, trains, and every overhead charged.

Events are totally ordered: by time, arrivals before completions, completions by worker. A box
takes its train when it starts; outputs of an inner box appear when its train ends; outputs of
an output box leave one tuple-cost apart (aurora-thesis, Table 3.1).

A tuple is its arrival time and its *luck*, one number in [0, 1) drawn when it arrives at its
first box. A box of selectivity s lets it pass if luck < s and hands on luck / s, which is again
uniform: fates are independent from box to box, cost one draw per tuple, and do not depend on
the schedule, so two policies are compared on the same tuples.

Memory, load shedding and boxes that wait are hooks (``hooks``), called where a run asks for them.
A lone worker takes short cuts (``short_cuts``) where steps need not be seen one by one.

This is a hot path: a box call costs about two microseconds (benchmarks/simulator.py), and most
of that is the interpreter's price per function call. Hence few, longer functions and plain
lists; the common case (whole queue, constant cost, everything passes) runs without helpers.
"""

from __future__ import annotations

from math import ceil, floor

from daybreak.engine.state import SystemState
from daybreak.model.errors import EngineBug
from daybreak.model.overheads import Overheads
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import Plan, Work
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.arrivals import ArrivalSchedule, OfferedWork
from daybreak.simulation.hooks import BlockedTime, HeldBytes, SheddingInputs, Waits
from daybreak.simulation.loop import NEVER, SimulationLoop
from daybreak.simulation.plan_run import PlanRun
from daybreak.simulation.randomness import random_for
from daybreak.simulation.short_cuts import ShortCuts

#: Spreads the luck of copies: successive multiples of it are evenly spread modulo 1.
GOLDEN = 0.6180339887498949


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
        memory: bool = False,
        shedding: SheddingParams | None = None,
        yields: bool = True,
        short_cuts: bool = True,
    ) -> None:
        """See ``simulate``; without ``short_cuts`` every step is taken by itself, to the same end.

        Runs with hooks never take them.
        """
        network = state.network
        self.workers = workers
        self.now_ns = 0
        self._state = state
        self._network = network
        self._monitor = monitor
        self._overheads = overheads
        self._at: list[int] = [*schedule.at_ns.tolist(), NEVER]
        self._stream = schedule.stream.tolist()
        self._next = 0
        #: When each worker's current step ends.
        self._ends = [NEVER] * workers
        self._runs = [PlanRun() for _ in range(workers)]
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
        waiting = any(b.wait_ns for b in network.boxes)
        self._held = HeldBytes(network, monitor) if memory else None
        self._waits = Waits(network, yields) if waiting else None
        view = BlockedTime(state) if waiting and not yields else state
        self._inputs = SheddingInputs(view, shedding, seed) if shedding else None
        self._short: ShortCuts | None = None
        if short_cuts and workers == 1 and not (memory or waiting or shedding):
            self._short = ShortCuts(
                state, monitor, overheads, self._arrivals, self._lucks, self._lucky
            )
        self.offered = OfferedWork(state, schedule)

    def start(self, worker: int, plan: Plan, work: Work) -> None:
        run = self._runs[worker]
        run.plan, run.step, run.spent_ns, run.through = plan, -1, 0, False
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
            run.spent_ns = superbox_ns
            ready += superbox_ns
        if ready > self.now_ns:
            self._ends[worker] = ready
        elif not self._begin(worker, ready):
            raise EngineBug(f"a plan had nothing to do: {plan}")

    def advance(self, loop: SimulationLoop) -> bool:
        """See ``Executor``: arrivals go first, then results that were waited for, then ends."""
        ends, at, short, waits = self._ends, self._at, self._short, self._waits
        deliver = self._deliver if waits is None else self._deliver_with_results
        emit = self._emit if waits is None else self._emit_or_wait
        while True:
            now = min(ends)
            arrival = at[self._next] if waits is None else min(at[self._next], waits.due_ns)
            if loop.idle:
                if loop.wake_ns < now and loop.wake_ns < arrival:
                    if now == arrival == NEVER and not loop.alone_until_wake():
                        return False
                    self.now_ns = loop.wake_ns
                    return True
                if arrival < now:
                    self.now_ns = arrival
                    deliver(arrival, loop)
                    return True
            if now == NEVER:
                return False
            self.now_ns = now
            if arrival <= now:
                deliver(now, loop)
            worker = ends.index(now)
            run = self._runs[worker]
            step = run.step
            if run.through and short is not None:
                short.leave(run.plan, now)
            elif step >= 0:
                emit(run, now, loop)
                if short is not None and run.plan.steps[-1][1] is None:
                    self.now_ns = now = short.go_on(run, now, at[self._next], deliver, loop)
                    step = run.step
            if step + 1 == len(run.plan.steps) or not self._begin(worker, now):
                ends[worker] = NEVER
                loop.completed(run.plan, worker, run.spent_ns, now)
                return True
            if loop.idle:
                return True

    def _deliver(self, until_ns: int, loop: SimulationLoop) -> int:
        """Queues every arrival up to this instant; returns when the next one comes."""
        if until_ns >= self._monitor.next_sample_ns:
            self._monitor.sample(until_ns, self._state, self.offered.until(until_ns))
        state, stream_boxes = self._state, self._network.stream_boxes
        pending, head, total = state.pending, state.head_ns, state.arrival_sum_ns
        queues, lucky, arrived = self._arrivals, self._lucky, loop.arrived
        inputs, memory = self._inputs, self._held
        at, streams, i = self._at, self._stream, self._next
        while (now := at[i]) <= until_ns:
            if inputs is not None and inputs.due(now):
                inputs.review(now, self._backlog())
            for b in stream_boxes[streams[i]]:
                # Drawn dropped or not, so that fates do not depend on what is shed.
                luck = self._luck() if lucky[b] else None
                if inputs is not None and inputs.drops(b):
                    self._monitor.dropped(b, 1)
                    continue
                if not pending[b]:
                    head[b] = now
                pending[b] += 1
                total[b] += now
                queues[b].append(now)
                if luck is not None:
                    self._lucks[b].append(luck)
                if memory is not None:
                    memory.queued(b)
                arrived(b, 1, now)
            i += 1
            if memory is not None:
                memory.weigh(now)
        self._next = i
        return now

    def _deliver_with_results(self, until_ns: int, loop: SimulationLoop) -> int:
        """As ``_deliver``, and lets results go on that calls have waited for until then."""
        waits = self._waits
        while waits is not None and (due_ns := waits.due_ns) <= until_ns:
            self._deliver(due_ns, loop)
            self._emit(waits.take(), due_ns, loop)
        return self._deliver(until_ns, loop)

    def _emit_or_wait(self, run: PlanRun, now: int, loop: SimulationLoop) -> None:
        """As ``_emit``, unless the results are still to come."""
        if self._waits is None or not self._waits.keep(run, now):
            self._emit(run, now, loop)

    def _backlog(self) -> list[float]:
        """Tuples at each box that wait or are worked on; those whose results come, beyond it."""
        state, backlog = self._state, [float(n) for n in self._state.pending]
        for run, ends_ns in zip(self._runs, self._ends, strict=True):
            if ends_ns != NEVER and run.step >= 0:
                backlog[run.box] += len(run.arrivals)
        for run in self._waits.kept() if self._waits is not None else ():
            for d in self._network.downstream[run.box]:
                backlog[d] += len(run.arrivals) * state.selectivity[run.box]
        return backlog

    def _begin(self, worker: int, now: int) -> bool:
        """Begins the next step of the worker's plan that has tuples; False if none has."""
        run, state = self._runs[worker], self._state
        steps, quota = run.plan.steps, run.plan.quota_ns
        pending, index = state.pending, run.step + 1
        if steps[0][1] == 1 and not index and self._short is not None:
            end = self._short.whole(run.plan, now)
            if end >= 0:
                run.through, run.step = True, len(steps) - 1
                run.spent_ns += end - now
                self._ends[worker] = end
                return True
        if quota is not None and index and run.spent_ns >= quota:
            return False
        while not pending[steps[index][0]]:
            index += 1
            if index == len(steps):
                return False
        run.step = index
        box, limit, fraction = steps[index]
        held = pending[box]
        if limit is None and fraction == 1.0:
            taken = held
            run.arrivals, self._arrivals[box] = self._arrivals[box], []
            if self._lucky[box]:
                run.lucks, self._lucks[box] = self._lucks[box], []
            run.sum_ns = state.arrival_sum_ns[box]
            pending[box] = state.arrival_sum_ns[box] = 0
        else:
            taken = self._take_some(run, box, limit, fraction)
        o, monitor = self._overheads, self._monitor
        fixed = self._fixed[box]
        began = run.began_ns = now + o.box_call_ns + o.storage_ns + fixed
        if self._varies[box]:
            run.ends_ns = self._draw_ends(began, taken, self._cost[box])
            work = run.ends_ns[-1] - began
        else:
            run.ends_ns = None
            work = taken * self._cost[box]
        run.work_ns = fixed + work
        run.spent_ns += began - now + work
        monitor.call_ns += o.box_call_ns
        monitor.storage_ns += o.storage_ns
        monitor.work_ns += fixed + work
        end = began + work
        if self._waits is not None:
            end += self._waits.block(run, box)
        self._ends[worker] = end
        return True

    def _emit(self, run: PlanRun, now: int, loop: SimulationLoop) -> None:
        """The train ended: what passes goes downstream or leaves."""
        box = run.box
        arrivals, lucks = run.arrivals, run.lucks
        taken, state, network = len(arrivals), self._state, self._network
        passes, kept = self._passes[box], None
        if passes != 1.0:
            kept, lucks = passing(lucks, passes)
        for q in network.queries_at[box]:
            out = arrivals if kept is None else [arrivals[i] for i in kept]
            self._monitor.left(q, out, run.departures(self._cost[box], kept))
        total = run.sum_ns
        if kept is not None:
            arrivals = [arrivals[i] for i in kept]
            total = sum(arrivals)
        state.calls[box] += 1
        state.tuples_in[box] += taken
        state.tuples_out[box] += len(arrivals)
        state.work_ns[box] += run.work_ns
        if kept is not None or run.ends_ns is not None or self._fixed[box]:
            # Elsewhere the declared figures are exact and stay.
            state.refine(box, taken, len(arrivals), run.work_ns)
        if self._held is not None:
            self._held.emitted(box, taken, len(arrivals), now)
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

    def _take_some(self, run: PlanRun, box: int, limit: int | None, fraction: float) -> int:
        """Takes part of a queue: at most ``limit`` tuples and ``fraction`` of what is held."""
        state = self._state
        held = state.pending[box]
        taken = min(max(1, ceil(held * fraction)), held if limit is None else limit)
        queue, lucks = self._arrivals[box], self._lucks[box]
        run.arrivals, run.lucks = queue[:taken], lucks[:taken]
        del queue[:taken]
        del lucks[:taken]
        run.sum_ns = sum(run.arrivals)
        state.pending[box] = held - taken
        state.arrival_sum_ns[box] -= run.sum_ns
        if queue:
            state.head_ns[box] = queue[0]
        return len(run.arrivals)

    def _draw_ends(self, began: int, taken: int, mean_ns: int) -> list[int]:
        end, ends = began, []
        for _ in range(taken):
            end += round(self._service(1 / mean_ns)) if mean_ns else 0
            ends.append(end)
        return ends


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
