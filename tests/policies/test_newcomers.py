"""What each policy has learned survives queries that come and go, by exact figures."""

from __future__ import annotations

from typing import Any

import pytest

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.policies.base import BasePolicy, Plan, Work
from daybreak.policies.parts.classes.tickets import Tickets
from daybreak.policies.registry import all_policies, make_policy_with

MS = 1_000_000


class System:
    """A policy, and queries a0, a1, ... of class a, b0, b1, ... of class b, one box each."""

    def __init__(self, policy: str, queries: str, *, workers: int = 1, **params: Any) -> None:
        pairs = [_declared(name) for name in queries.split()]
        network = Network(
            streams=[Stream(name="s")],
            boxes=[box for box, _ in pairs],
            queries=[query for _, query in pairs],
            classes=[QueryClass(name="a", priority=2), QueryClass(name="b", priority=1)],
        )
        self.state = SystemState(network, workers, rides=True)
        self.policy: Any = make_policy_with(policy, **params)
        self.policy.attach(self.state, Work(), 1)

    def add(self, name: str, qos: QoSGraph | None = None) -> None:
        state = self.state
        state.adopt(state.network.with_query(*_declared(name, qos)))
        query = state.network.query_index[name]
        state.query_class[query] = state.network.class_of(query)
        self.policy.on_query_added(query, 0)

    def remove(self, name: str) -> None:
        query = self.state.network.query_index[name]
        self.state.pending[query] = self.state.arrival_sum_ns[query] = 0
        self.policy.on_query_removed(query, 0)

    def hold(self, names: str, tuples: int = 10, now_ns: int = 0) -> None:
        for name in names.split():
            query = self.state.network.query_index[name]
            self.state.pending[query] += tuples
            self.state.head_ns[query] = now_ns
            self.state.arrival_sum_ns[query] += tuples * now_ns
            self.policy.on_arrival(query, tuples, now_ns)

    def decide(self, worker: int = 0, now_ns: int = 0) -> Plan:
        plan = self.policy.decide(now_ns, worker)
        assert isinstance(plan, Plan)
        for step in plan.steps:
            self.state.running[step.box] = True
        return plan

    def end(self, plan: Plan, worker: int = 0, cost_ns: int = MS, now_ns: int = 0) -> None:
        for step in plan.steps:
            self.state.running[step.box] = False
        self.policy.on_completion(plan, worker, cost_ns, now_ns)

    def run(self, jobs: int) -> str:
        """Which queries run, if those that hold tuples never run out of them."""
        ran = []
        for _ in range(jobs):
            plan = self.decide()
            ran.append(self.state.network.boxes[plan.steps[0].box].name)
            self.end(plan)
        return " ".join(ran)


def _declared(name: str, qos: QoSGraph | None = None) -> tuple[Box, Query]:
    box = Box(name=name, inputs=("s",), cost_ns=MS // 10)
    return box, Query(name=name, output=name, cls=name[0], qos=qos)


def test_every_policy_on_spark_keeps_what_it_learned() -> None:
    policies = all_policies().values()
    forget = {p.name for p in policies if p.on_spark and not p.keeps_learning()}
    assert not forget


def test_a_policy_that_does_not_take_newcomers_says_so() -> None:
    assert not all_policies()["aaat"].keeps_learning()
    assert not BasePolicy.keeps_learning()


def test_round_robin_goes_on_where_it_was_and_others_keep_their_order() -> None:
    system = System("round-robin", "a0 a1 a2 a3 a4", schedule_size=1)
    system.hold("a0 a1 a2 a3 a4")
    order = system.run(5).split()
    assert system.run(2).split() == order[:2]
    system.add("a5")
    assert system.run(3).split() == order[2:], "from the place it had reached"
    system.hold("a5")
    both = system.run(6).split()
    assert [name for name in both if name != "a5"] == order
    assert "a5" in both


def test_a_query_that_returns_does_not_inherit_a_place_in_the_list() -> None:
    system = System("round-robin", "a0 a1 a2 a3")
    system.hold("a0 a1 a2 a3")
    first, *rest = (system.run(1), *_listed(system))
    gone = rest[0]
    system.remove(gone)
    system.add(gone)
    system.hold(gone)
    assert system.run(3).split() == [*rest[1:], first], "it waits for the next list"


def _listed(system: System) -> list[str]:
    return [system.state.network.boxes[unit].name for unit in system.policy._queue]


def test_stride_keeps_the_passes_of_its_classes() -> None:
    system = System("stride", "a0 b0")
    system.hold("a0 b0")
    # 1 ms moves class a on by 1/2 and class b by 1.
    assert system.run(5) == "a0 b0 a0 a0 b0"
    passes = list(system.policy._pass)
    system.add("b1")
    system.remove("b1")
    assert system.policy._pass == passes == [1.5 * MS, 2 * MS]
    system.add("b1")
    system.hold("b1", now_ns=-MS)
    assert system.run(4) == "a0 a0 b1 a0", "a newcomer has no right of its own to be first"


def test_lottery_keeps_compensation_tickets_when_its_tree_grows() -> None:
    system = System("lottery", "a0 b0", level="query")
    system.hold("a0")
    system.end(system.decide(), cost_ns=4 * MS)
    tickets = system.policy._tickets
    assert [tickets[q] for q in range(2)] == [2 / 4, 0.0]
    for name in ("a1", "b1", "b2"):
        system.add(name)
    system.hold("b2")
    assert [tickets[q] for q in range(5)] == [2 / 4, 0.0, 0.0, 0.0, 1.0]
    assert tickets.total == 1.5
    system.remove("b2")
    assert tickets.total == 0.5


@pytest.mark.parametrize("holders", [1, 2, 3, 4, 5, 8, 9])
def test_tickets_that_grew_are_those_made_at_once(holders: int) -> None:
    grown, at_once = Tickets(1), Tickets(holders)
    for holder in range(holders):
        if holder:
            grown.added(holder)
        grown.give(holder, 1 / (holder + 3))
        at_once.give(holder, 1 / (holder + 3))
    assert grown._sums == at_once._sums


def test_fas_auto_keeps_its_beta_and_counts_only_who_is_there() -> None:
    system = System("fas-mcq-auto", "a0 b0")
    system.policy.beta = 0.7
    system.hold("a0", tuples=1)
    assert system.policy._expected_staleness() == 1 / 2
    system.add("b1")
    assert system.policy._expected_staleness() == pytest.approx(1 / 3)
    for name in ("b0", "b1"):
        system.remove(name)
    assert system.policy._expected_staleness() == 1.0
    system.remove("a0")
    assert system.policy._expected_staleness() == 0.0
    assert system.policy.beta == 0.7


def test_cqc_keeps_debts_and_whose_turn_is_next() -> None:
    # A period of 3 ms: 2 for class a, 1 for class b.
    system = System("cqc", "a0 b0", period_us=3000, whole_queues=True)
    system.hold("a0 b0")
    system.end(system.decide(), now_ns=5 * MS)
    system.decide(now_ns=5 * MS)  # class a overdrew by 3 ms, and it is class b's turn
    assert system.policy._credits.credit == [-1 * MS, 1 * MS]
    system.add("a1")
    system.add("b1")
    system.remove("b1")
    assert system.policy._credits.credit == [-1 * MS, 1 * MS]
    assert system.policy._turns == {0: (1, 5 * MS)}
    assert system.policy._next == 0


def test_abd_keeps_its_slice_its_slots_and_the_place_in_every_class() -> None:
    system = System("abd", "a0 a1 a2", slice_us=20_000)
    system.policy.quota.fell_short(500.0, 1500.0)
    system.policy._frequencies = [3, 1]
    system.hold("a0 a1 a2")
    assert system.run(1) == "a0"
    system.add("a3")
    system.add("b0")
    system.hold("a3")
    assert system.run(5) == "a1 a2 a3 a0 a1"
    assert system.policy.quota.slice_ns == 20 * MS + 2000
    assert system.policy._frequencies == [3, 1]


@pytest.mark.parametrize(
    ("before", "after"), [("a1", "a2 a3 a0"), ("a1 a2", "a0"), ("a1 a2 a0", "a1 a2 a3 a0")]
)
def test_a_pass_of_abd_takes_in_a_newcomer_unless_it_is_past_its_place(
    before: str, after: str
) -> None:
    system = System("abd", "a0 a1 a2", slice_us=20_000)
    system.policy._at = [1, 0]
    system.hold("a0 a1 a2")
    assert system.run(len(before.split())) == before
    system.add("a3")
    system.hold("a3")
    assert system.run(len(after.split())) == after
    assert system.policy._slots[0].left == 0


def test_mbd_keeps_frequencies_and_response_times() -> None:
    system = System("mbd", "a0 b0", module="ivp")
    system.hold("a0 b0")
    assert system.run(3) == "a0 b0 a0"
    system.policy.frequencies = (5, 1)
    system.policy.on_results(0, [0], [7 * MS], 1)
    system.add("b1")
    system.hold("b1")
    assert system.policy.frequencies == (5, 1)
    assert system.policy._correction.responses.response_ns(0) == 7 * MS
    # From the next round on: 5 for class a, 1 for the two of class b; the least counts as 1.
    system.run(1)
    assert system.policy.schedule.priorities == (10.0, 1.0, 1.0)
    assert system.policy._correction.responses.response_ns(0) == 7 * MS


def test_slots_of_a_removed_query_go_to_its_class() -> None:
    system = System("mbd", "a0 b0 b1")
    system.hold("a0 b0 b1")
    assert system.policy.schedule.priorities == (4.0, 1.0, 1.0)
    system.run(6)
    system.remove("b0")
    assert system.run(1) == "a0"
    assert system.policy.schedule.priorities == (2.0, 0.0, 1.0)
    assert system.run(5) == "b1 a0 a0 b1 a0"


def test_mbd_without_queries_has_no_slots_until_one_comes() -> None:
    system = System("mbd", "a0")
    system.remove("a0")
    assert system.policy.decide(0, 0) is None
    system.add("b0")
    system.hold("b0")
    assert system.run(2) == "b0 b0"


def test_mbd_qos_heeds_only_who_is_there() -> None:
    system = System("mbd-qos", "a0 a1")
    system.add("a2", QoSGraph.deadline(0.01))
    system.remove("a2")
    system.add("b0")
    assert system.policy.shares()[:2] == [MS / 10, MS / 10]


def test_bucketing_keeps_the_order_of_entry_when_its_buckets_change() -> None:
    system = System("bucketing-push", "a0")
    policy = system.policy
    for name in ("a1", "a2", "a3"):
        system.add(name, QoSGraph.deadline(1.0))
    for now_ns, name in enumerate(("a3", "a1", "a2")):
        system.hold(name)
        assert policy.order(policy.units.ready, 0, now_ns) == []  # each enters its bucket
    widths = policy.grid.widths
    system.add("a4", QoSGraph.deadline(0.01))
    assert policy.grid.widths != widths
    system.hold("a4")
    assert policy.order(policy.units.ready, 4, 100) == [4, 3, 1, 2]
