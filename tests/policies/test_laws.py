"""Registered means tested: every policy faces every law."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from daybreak.model import EngineBug
from daybreak.policies.base import BasePolicy, Decision, Plan, Step, View, Wait, Work
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.simulation.clock_laws import serves_rows_whatever_clocks_do
from daybreak.simulation.laws import (
    LAWS,
    ignores_listing_order,
    is_repeatable,
    leaves_the_view_alone,
    starves_nothing_if_it_says_so,
    works_off_everything,
)
from daybreak.simulation.limit_laws import decides_in_bounded_work
from daybreak.simulation.query_laws import (
    keeps_what_it_learned,
    serves_queries_that_come_and_go,
    treats_newcomers_as_declared,
)

VARIANTS: dict[str, Callable[[], BasePolicy]] = {
    **all_policies(),
    "round-robin by query": lambda: make_policy_with("round-robin", level="query", train=3),
    "fcfs by query": lambda: make_policy_with("fcfs", level="query"),
    "fixed-priority, lists of 2": lambda: make_policy_with("fixed-priority", schedule_size=2),
    "fixed-priority-push, trains of 2": lambda: make_policy_with("fixed-priority-push", train=2),
    "slope-slack by query": lambda: make_policy_with("slope-slack", level="query"),
    "slope-slack, literal": lambda: make_policy_with("slope-slack", ect="literal", train=3),
    "slope-slack-push, lists of 1": lambda: make_policy_with("slope-slack-push", schedule_size=1),
    "bucketing by query": lambda: make_policy_with("bucketing", level="query", partitions=3),
    "bucketing, one bucket": lambda: make_policy_with("bucketing", partitions=1),
    "bucketing-push, half queues": lambda: make_policy_with("bucketing-push", fraction=0.5),
    **{
        f"aaat, {kind}": partial(make_policy_with, "aaat", traversal=kind)
        for kind in ("mc", "ml", "mm")
    },
    "aaat, lists of 3, trains of 2": lambda: make_policy_with("aaat", schedule_size=3, train=2),
    **{
        f"superbox, {choice} by {priority}": partial(
            make_policy_with, "superbox", superboxes=choice, priority=priority
        )
        for choice, priority in (
            ("applications", "best"),
            ("intersections", "qos"),
            ("single-input", "turn"),
            ("spanner", "top"),
        )
    },
    "superbox, dear boxes, producers first": lambda: make_policy_with(
        "superbox", dear=1.5, priority="best", producer_first=True, traversal="ml"
    ),
    "round-robin, half queues": lambda: make_policy_with("round-robin", fraction=0.5),
    "lottery by query": lambda: make_policy_with("lottery", level="query", compensate=False),
    "lottery by box": lambda: make_policy_with("lottery", level="box", train=3),
    "stride, patient": lambda: make_policy_with("stride", patience=0.5),
    "rb-mcq, one update": lambda: make_policy_with("rb-mcq", drain="one"),
    "fas-mcq, one update": lambda: make_policy_with("fas-mcq", drain="one", beta=0.25),
    "fas-mcq, trains of 3": lambda: make_policy_with("fas-mcq", train=3),
    "fas-mcq-auto, response": lambda: make_policy_with(
        "fas-mcq-auto", goal="response", target=0.05, window_s=0.05
    ),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("variant", VARIANTS)
def test_law(variant: str, law: Callable[[Callable[[], BasePolicy]], None]) -> None:
    law(VARIANTS[variant])


class First(BasePolicy):
    """The first box that holds tuples; the base of the culprits below."""

    name = "first"

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        for box, pending in enumerate(self.view.pending):
            if pending and not self.view.running[box]:
                return Plan((Step(box),))
        return None


class Running(First):
    def decide(self, now_ns: int, worker: int) -> Plan | None:
        return Plan((Step(0),)) if any(self.view.pending) else None


class Meddling(First):
    def decide(self, now_ns: int, worker: int) -> Plan | None:
        plan = super().decide(now_ns, worker)
        self.view.head_ns[0] += 1  # type: ignore[index]
        return plan


class Forgetful(First):
    runs = 0

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        Forgetful.runs += 1
        boxes = range(len(self.view.pending))
        ready = [b for b in boxes if self.view.pending[b] and not self.view.running[b]]
        return Plan((Step(ready[Forgetful.runs % len(ready)]),)) if ready else None


class Starving(First):
    starves_nothing = True


class Lazy(First):
    def decide(self, now_ns: int, worker: int) -> Plan | None:
        return super().decide(now_ns, worker) if now_ns < 5 * 10**8 else None


class InTurn(BasePolicy):
    """Boxes in turn, and queries that come and go; it keeps a cursor, and nothing else."""

    name = "in-turn"
    cursor = 0

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.known = len(view.pending)

    def on_query_added(self, query: int, now_ns: int) -> None:
        pass

    def ready(self) -> list[int]:
        view = self.view
        return [b for b, n in enumerate(view.pending) if n and not view.running[b]]

    def decide(self, now_ns: int, worker: int) -> Decision:
        ready = self.ready()
        if not ready:
            return None
        self.cursor = next((b for b in ready if b > self.cursor), ready[0])
        return Plan((Step(self.cursor),))


class Patient(InTurn):
    """Runs nothing before its oldest tuple has waited for 5 ms."""

    def decide(self, now_ns: int, worker: int) -> Decision:
        due_ns = min([self.view.head_ns[b] for b in self.ready()], default=0) + 5_000_000
        waits = self.ready() and due_ns > now_ns
        return Wait(due_ns) if waits else super().decide(now_ns, worker)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("policy", [InTurn, Patient])
def test_law_of_policies_that_are_not_registered(
    policy: type[BasePolicy], law: Callable[[Callable[[], BasePolicy]], None]
) -> None:
    law(policy)


class Amnesiac(InTurn):
    def on_query_added(self, query: int, now_ns: int) -> None:
        self.cursor = 0


class Courteous(InTurn):
    """Lets those go first that it was not attached to."""

    def ready(self) -> list[int]:
        ready = super().ready()
        return [b for b in ready if b >= self.known] or ready


class Deaf(InTurn):
    """Knows only those it was attached to."""

    def ready(self) -> list[int]:
        return [b for b in super().ready() if b < self.known]


class Mourning(InTurn):
    """Plans what it has heard of, although it may have gone."""

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.held: dict[int, None] = {}

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.held[box] = None

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        for box, _, _ in plan.steps:
            if self.view.pending[box]:
                self.held[box] = None

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.held.pop(box, None)

    def decide(self, now_ns: int, worker: int) -> Decision:
        ready = [b for b in self.held if not self.view.running[b]]
        if not ready:
            return None
        del self.held[ready[0]]
        return Plan((Step(ready[0]),))


class Procrastinating(InTurn):
    def decide(self, now_ns: int, worker: int) -> Decision:
        return Wait(now_ns + 1_000_000)


class Belated(InTurn):
    def decide(self, now_ns: int, worker: int) -> Decision:
        return Wait(now_ns)


class Fastidious(InTurn):
    """Leaves alone what has waited for long."""

    now_ns = 0

    def ready(self) -> list[int]:
        return [b for b in super().ready() if self.now_ns - self.view.head_ns[b] < 45 * 10**9]

    def decide(self, now_ns: int, worker: int) -> Decision:
        self.now_ns = now_ns
        return super().decide(now_ns, worker)


class Tabulating(InTurn):
    """Looks at every window of the last minute."""

    def decide(self, now_ns: int, worker: int) -> Decision:
        for cell in self.view.cells:
            if cell.slide_ns:
                for _ in range(60 * 10**9 // cell.slide_ns):
                    pass
        return super().decide(now_ns, worker)


class Hoarding(InTurn):
    """The same, in one array."""

    def decide(self, now_ns: int, worker: int) -> Decision:
        for cell in self.view.cells:
            if cell.slide_ns:
                np.arange(6 * 10**9 // cell.slide_ns)
        return super().decide(now_ns, worker)


@pytest.mark.parametrize(
    ("law", "culprit", "reason"),
    [
        (works_off_everything, Running, "nothing to do"),
        (works_off_everything, Lazy, "left in queues"),
        (leaves_the_view_alone, Meddling, "changed what it was shown"),
        (is_repeatable, Forgetful, "other times"),
        (ignores_listing_order, Forgetful, "other times"),
        (starves_nothing_if_it_says_so, Starving, "had no result"),
        (works_off_everything, Procrastinating, "never runs what is pending"),
        (works_off_everything, Belated, "not after now"),
        (treats_newcomers_as_declared, Courteous, "not treated as a declared query"),
        (serves_queries_that_come_and_go, Deaf, "left in queues"),
        (serves_queries_that_come_and_go, Mourning, "which was removed"),
        (serves_queries_that_come_and_go, Procrastinating, "never runs what is pending"),
        (serves_queries_that_come_and_go, Belated, "that has passed"),
        (keeps_what_it_learned, Amnesiac, "changed the decisions"),
        (serves_rows_whatever_clocks_do, Fastidious, "not served, .*stamped_ns=-60"),
        (decides_in_bounded_work, Tabulating, "windows of a microsecond runs more than"),
        (decides_in_bounded_work, Hoarding, "windows of a microsecond holds more than"),
    ],
)
def test_a_law_catches_who_breaks_it(
    law: Callable[[Callable[[], BasePolicy]], None], culprit: type[BasePolicy], reason: str
) -> None:
    with pytest.raises((AssertionError, EngineBug), match=reason):
        law(culprit)
