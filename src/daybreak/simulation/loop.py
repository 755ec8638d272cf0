"""The loop of simulations whose unit is the tuple: asks a policy and drives an executor.

Jobs, as on Spark, are the engine's (``daybreak.engine``).

An executor owns the clock, the queues' contents and the workers. It calls back ``arrived`` and
``completed`` from within ``advance``, on the loop's own thread. A policy may wait for an instant
(``Wait``): then ``advance`` returns at ``wake_ns`` at the latest, and the policy is asked again.
"""

from __future__ import annotations

from typing import Protocol

from daybreak.engine.state import SystemState
from daybreak.model.errors import EngineBug
from daybreak.policies.base import Change, Plan, Policy, Wait, Work

#: Later than any event.
NEVER = 2**62
#: A policy that waits so often while nothing else can happen never runs what is pending.
MOST_WAITS = 100_000


class Executor(Protocol):
    """Runs plans on workers, in virtual time."""

    @property
    def workers(self) -> int: ...

    @property
    def now_ns(self) -> int: ...

    def start(self, worker: int, plan: Plan, work: Work) -> None:
        """Begins a plan on an idle worker; ``work`` is what deciding on it took."""

    def advance(self, loop: SimulationLoop) -> bool:
        """Waits for the next event, reports what happened to the loop.

        While a worker is idle, ``loop.wake_ns`` is an event too. Returns False when nothing will
        ever happen again, or the run was told to stop.
        """


class SimulationLoop:
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
        policy.attach(state, self.work, seed)
        # Bound once: these are called for every tuple of a simulation.
        self.arrived = policy.on_arrival
        self._on_completion = policy.on_completion
        # A lone worker asks only when it is free, so nothing runs then and nothing is marked.
        self._marks = executor.workers > 1

    def run(self) -> None:
        """Until the executor has nothing more to do."""
        dispatch, advance = self.dispatch, self.executor.advance
        while True:
            dispatch()
            if not advance(self):
                return

    def dispatch(self) -> None:
        """Gives work to idle workers until the policy has none for them."""
        idle, work = self.idle, self.work
        while idle:
            now_ns = self.executor.now_ns
            plan = self.policy.decide(now_ns, idle[-1])
            if not isinstance(plan, Plan):
                work.clear()
                self.wake_ns = NEVER if plan is None else self._instant(plan, now_ns)
                return
            if self._marks:
                self._mark(plan)
            self.executor.start(idle.pop(), plan, work)
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

    def completed(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        """Called by the executor when a plan ended; its worker is idle again."""
        if self._marks:
            for step in plan.steps:
                self.state.running[step.box] = False
        self.idle.append(worker)
        self._on_completion(plan, worker, cost_ns, now_ns)

    def changed(self, change: Change, now_ns: int) -> None:
        """Called after the state was changed by an operator."""
        self.policy.on_change(change, now_ns)

    def _mark(self, plan: Plan) -> None:
        """Marks the plan's boxes as running."""
        running = self.state.running
        for step in plan.steps:
            if running[step.box]:
                name = self.state.network.boxes[step.box].name
                raise EngineBug(f"{self.policy.name} planned box {name!r}, which is running")
        for step in plan.steps:
            running[step.box] = True
