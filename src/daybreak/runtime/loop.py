"""The loop that asks a policy and drives an executor. The same for virtual and for real time.

An executor owns the clock, the queues' contents and the workers. It calls back ``arrived`` and
``completed`` from within ``advance``, on the loop's own thread. A policy may wait for an instant
(``Wait``): then ``advance`` returns at ``wake_ns`` at the latest, and the policy is asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from daybreak.engine.express import Express
from daybreak.engine.state import SystemState
from daybreak.model.errors import EngineBug
from daybreak.policies.base import Change, Plan, Policy, Wait, Work

#: Later than any event.
NEVER = 2**62
#: A policy that waits so often while nothing else can happen never runs what is pending.
MOST_WAITS = 100_000


class Executor(Protocol):
    """Runs plans on workers, in virtual or in real time."""

    @property
    def workers(self) -> int:
        """Express ones included."""

    @property
    def now_ns(self) -> int: ...

    @property
    def riding(self) -> Collection[int]:
        """Boxes that run now although no plan names them: they ride along (compositing)."""

    def start(self, worker: int, plan: Plan, work: Work) -> Iterable[int]:
        """Begins a plan on an idle worker; ``work`` is what deciding on it took.

        Returns the boxes that ride along.
        """

    def advance(self, loop: Loop) -> bool:
        """Waits for the next event, reports what happened to the loop.

        While a worker is idle, ``loop.wake_ns`` is an event too. Returns False when nothing will
        ever happen again, or the run was told to stop.
        """


class Loop:
    """One policy, one executor, one thread."""

    def __init__(self, state: SystemState, policy: Policy, executor: Executor, seed: int) -> None:
        self.state = state
        self.policy = policy
        self.executor = executor
        self.work = Work()
        self.idle = list(range(state.workers))
        #: When to ask the policy again if nothing happens before; what it answered last counts.
        self.wake_ns = NEVER
        self._waits = 0
        self._express = Express(state)
        #: Workers and riders whose present job was begun under an earlier policy.
        self._inherited: set[int] = set()
        self._inherited_riders: set[int] = set()
        policy.attach(state, self.work, seed)
        # Bound once: these are called for every tuple of a simulation.
        self.arrived = policy.on_arrival
        self._on_completion = policy.on_completion
        # A lone worker asks only when it is free, so nothing runs then and nothing is marked.
        self._marks = executor.workers > 1 or state.rides

    def run(self) -> None:
        """Until the executor has nothing more to do."""
        dispatch, advance = self.dispatch, self.executor.advance
        while True:
            dispatch()
            if not advance(self):
                return

    def dispatch(self) -> None:
        """Gives work to idle workers until the policy has none for them."""
        if self._express.idle:
            self._dispatch_express()
        idle, work = self.idle, self.work
        while idle:
            now_ns = self.executor.now_ns
            plan = self.policy.decide(now_ns, idle[-1])
            if not isinstance(plan, Plan):
                work.clear()
                self.wake_ns = NEVER if plan is None else self._instant(plan, now_ns)
                return
            if self._marks and not self._mark(plan):
                # Overtaken: its boxes ride along with another's job, or have done so.
                self._on_completion(plan, idle[-1], 0, self.executor.now_ns)
                continue
            for rider in self.executor.start(idle.pop(), plan, work):
                self.policy.on_boarding(rider, self.executor.now_ns)
            if work.invocations:
                work.clear()

    def _instant(self, wait: Wait, now_ns: int) -> int:
        if wait.until_ns <= now_ns:
            # Asked again at once it would answer the same, and again.
            raise EngineBug(
                f"{self.policy.name} waits until {wait.until_ns}, which is not after now ({now_ns})"
            )
        return wait.until_ns

    def alone_until_wake(self) -> bool:
        """Called by an executor in virtual time when the wake-up is the only event left.

        Returns False if there are no tuples that the policy could run then.
        """
        if not any(self.state.pending):
            return False
        self._waits += 1
        if self._waits > MOST_WAITS:
            raise EngineBug(f"{self.policy.name} waits and never runs what is pending")
        return True

    def _dispatch_express(self) -> None:
        """To the policy it is as if somebody had taken these queries along."""
        express = self._express
        while express.idle and (plan := express.next()) is not None:
            [step] = plan.steps
            self.state.running[step.box] = True
            express.boxes.add(step.box)
            riders = self.executor.start(express.idle.pop(), plan, Work())
            for box in (step.box, *riders):
                self.policy.on_boarding(box, self.executor.now_ns)

    def retire(self) -> None:
        """From now on idle workers are given nothing."""
        self.idle.clear()
        self._express.idle.clear()

    def completed(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        """Called by the executor when a plan ended; its worker is idle again."""
        if self._marks:
            for step in plan.steps:
                self.state.running[step.box] = False
        if worker >= self.state.workers:
            self._express.idle.append(worker)
            self._express.boxes.discard(plan.steps[0].box)
            self.rode(plan.steps[0].box, cost_ns, now_ns)
            return
        self.idle.append(worker)
        if worker in self._inherited:
            self._inherited.discard(worker)
            for step in plan.steps:
                self._free(step.box, now_ns)
        else:
            self._on_completion(plan, worker, cost_ns, now_ns)

    def rode(self, box: int, cost_ns: int, now_ns: int) -> None:
        """Called by the executor when a box that was taken along is free again."""
        if box in self._inherited_riders:
            self._inherited_riders.discard(box)
            self._free(box, now_ns)
        else:
            self.policy.on_ride(box, cost_ns, now_ns)

    def switch(self, policy: Policy, seed: int, now_ns: int) -> None:
        """Goes on under another policy, between two decisions.

        Jobs under way end as they are; the new policy never hears of plans it did not make,
        only that their boxes hold tuples.
        """
        self.policy = policy
        self._inherited = set(range(self.state.workers)) - set(self.idle)
        self._inherited_riders = {*self.executor.riding, *self._express.boxes}
        policy.attach(self.state, self.work, seed)
        self.arrived = policy.on_arrival
        self._on_completion = policy.on_completion
        for box, pending in enumerate(self.state.pending):
            if pending and not self.state.running[box]:
                self.arrived(box, pending, now_ns)

    def _free(self, box: int, now_ns: int) -> None:
        if self.state.pending[box] and not self.state.running[box]:
            self.arrived(box, 0, now_ns)

    def changed(self, change: Change, now_ns: int) -> None:
        """Called after the state was changed by an operator."""
        self.policy.on_change(change, now_ns)

    def _mark(self, plan: Plan) -> bool:
        """Marks the plan's boxes as running; False if the plan was overtaken by a ride."""
        running, riding = self.state.running, self.executor.riding
        for step in plan.steps:
            if running[step.box]:
                if step.box in riding or step.box in self._express.boxes:
                    return False
                name = self.state.network.boxes[step.box].name
                raise EngineBug(f"{self.policy.name} planned box {name!r}, which is running")
        if self.state.rides and not any(self.state.pending[step.box] for step in plan.steps):
            return False
        for step in plan.steps:
            running[step.box] = True
        return True
