"""Express workers: the highest class does not wait for others' jobs, and nothing else changes."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.simulation.recording import jobs, model, record

from daybreak.engine.core import Settings
from daybreak.engine.drive import NEVER
from daybreak.engine.engine import Engine
from daybreak.engine.events import Started, SwitchPolicy
from daybreak.engine.express import Express, usable_threads
from daybreak.engine.state import JobState, SystemState
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.policies.base import BasePolicy, Plan, Step, View, Work
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.overload import overload
from daybreak.runtime.report import Backlog
from daybreak.simulation.jobs import VirtualDriver
from daybreak.simulation.recorded import RecordedRun
from daybreak.simulation.replay import Replay
from daybreak.simulation.whatif import Outcome

ON_SPARK = [name for name, p in all_policies().items() if p.on_spark]


def state_of(classes: str, express: int = 1) -> SystemState:
    """One query for each letter: of the highest class, the middle or the lowest."""
    names = [f"q{i}" for i in range(len(classes))]
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in names],
        queries=[Query(name=n, output=n, cls=c) for n, c in zip(names, classes, strict=True)],
        classes=[QueryClass(name=c, priority=p) for c, p in zip("hml", (60, 30, 10), strict=True)],
    )
    return SystemState(network, workers=2, express=express, rides=True)


def hold(state: SystemState, **head_ns: int) -> None:
    for query, at_ns in head_ns.items():
        box = state.network.query_index[query]
        state.pending[box], state.head_ns[box] = 5, at_ns


def test_the_query_of_the_highest_class_that_waits_longest_is_next() -> None:
    state = state_of("lhmhh")
    express = Express(state)
    assert express.idle == [2], "workers 0 and 1 are the policy's"
    assert express.next() is None
    hold(state, q0=1, q2=2)
    assert express.next() is None, "those below do not get it"
    hold(state, q1=9, q3=4, q4=6)
    assert express.next() == Plan((Step(3),))
    state.running[3] = True
    assert express.next() == Plan((Step(4),))
    state.class_priority[1] = 99.0
    assert express.next() == Plan((Step(2),)), "priorities as they are now"


def test_the_highest_class_is_one_that_has_queries() -> None:
    state = state_of("lmm")
    hold(state, q0=1, q2=7)
    assert Express(state).next() == Plan((Step(2),))


@pytest.mark.parametrize("policy", ON_SPARK)
def test_the_highest_class_answers_sooner_and_all_is_answered(policy: str) -> None:
    """One worker with more than it can do at once: with an express worker beside it, less waits."""
    without = model(workers=1, rate_per_s=25.0, span_s=2.0).run(make_policy_with(policy))
    beside = model(workers=1, express=1, rate_per_s=25.0, span_s=2.0).run(make_policy_with(policy))
    for cls in ("high", "low"):
        assert beside.by_class()[cls].count == without.by_class()[cls].count
    assert beside.by_class()["high"].mean_s < without.by_class()["high"].mean_s


def test_it_is_the_policys_worker_that_the_other_classes_share() -> None:
    """However much the highest class has to do, the others do not get its express worker."""
    with_two = model(workers=2, rate_per_s=25.0).run(make_policy_with("fcfs"))
    express = model(workers=1, express=1, rate_per_s=25.0).run(make_policy_with("fcfs"))
    assert express.by_class()["high"].mean_s < with_two.by_class()["high"].mean_s
    assert express.by_class()["low"].mean_s > with_two.by_class()["low"].mean_s


@pytest.mark.parametrize("policy", ON_SPARK)
def test_a_replay_has_the_express_workers_of_its_record(tmp_path: Path, policy: str) -> None:
    record(model(workers=1, express=1, span_s=1.0), make_policy_with(policy), tmp_path / "1")
    record(Replay.load(tmp_path / "1"), make_policy_with(policy), tmp_path / "2")
    assert jobs(tmp_path / "2") == jobs(tmp_path / "1")


class Listed(BasePolicy):
    """First come first served from a list that it does not look through again."""

    name = "listed"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._list: deque[int] = deque()
        self._withdrawn: set[int] = set()
        self.overtaken = 0

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self._list.append(box)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self._withdrawn.add(box)

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        self._withdrawn.remove(box)  # it is told of no ride that it did not see begin
        super().on_returned(box, cost_ns, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        [step] = plan.steps
        self.overtaken += cost_ns == 0
        if self.view.pending[step.box] and not self.view.running[step.box]:
            self._list.append(step.box)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        while self._list:
            box = self._list.popleft()
            if box in self._withdrawn or not self.view.running[box]:  # else it hears of its end
                return Plan((Step(box),))
        return None


def test_a_plan_may_be_overtaken_by_an_express_worker() -> None:
    policy = Listed()
    report = model(workers=1, express=1, rate_per_s=25.0).run(policy)
    asked = model(workers=1, rate_per_s=25.0).run(make_policy_with("fcfs"))
    assert report.overall().count == asked.overall().count
    assert policy.overtaken > 20


@pytest.mark.slow
@pytest.mark.parametrize("policy", ON_SPARK)
def test_policies_may_be_exchanged_while_express_jobs_are_under_way(policy: str) -> None:
    replay, random = model(workers=2, rate_per_s=25.0), Random(7)
    settings = Settings(rider_bound_ns=replay.bound_ns)
    facts, inboxes = replay.queries.facts(replay.network), replay.queries.inboxes()
    state = JobState(replay.network, 2, express=1)
    engine = Engine(state, facts, inboxes, make_policy_with(policy), settings)
    accounts = Accounts(engine, Monitor(replay.network))
    driver = VirtualDriver(engine, accounts, replay.queries, replay.deliveries, end_ns=NEVER - 1)
    switched = 0
    driver.tell(Started())
    while driver.advance():
        if random.random() < 0.1:
            switched += 1
            other = policy if switched % 2 else random.choice(ON_SPARK)
            chosen = Listed() if switched % 3 == 0 else make_policy_with(other)
            driver.tell(SwitchPolicy(chosen, switched))
    assert switched > 20
    assert not any(state.pending)
    assert not any(state.running)
    asked = sum(len(d.boxes) * d.item.tuples for d in replay.deliveries)
    assert sum(state.tuples_in) == asked


def test_express_workers_are_kept_busy_by_the_highest_class_alone() -> None:
    assert usable_threads(2, 1, urgent=0.0) == 2.0
    assert usable_threads(2, 1, urgent=0.25) == 2.25
    assert usable_threads(2, 1, urgent=5.0) == 3.0


def test_shares_of_time_count_express_workers(tmp_path: Path) -> None:
    """Three threads that are busy all the time are busy to 100 %, not to 150 %."""
    saturated = replace(
        model(workers=2, express=1, rate_per_s=400.0), end_ns=2 * 10**9, drained=False
    )
    report = record(saturated, make_policy_with("fcfs"), tmp_path)
    outcome = Outcome("replayed", True, report, {}, 1.0)
    assert report.threads == 3
    assert 2 / 3 < outcome.busy <= 1.0
    stretch = RecordedRun.load(tmp_path).stretch(10**9, 2 * 10**9)
    assert stretch.spent.total_ns == 4 * 10**9, "and the scheduler's own thread"


def test_overload_is_judged_by_all_threads() -> None:
    """2.5 threads' worth of work is no overload for two workers and an express one."""
    network = state_of("h").network
    for express, state in ((1, "fine"), (0, "capacity")):
        report = Monitor(network).report(SystemState(network, 2), 10**10, 3, {"express": express})
        offered = np.array([0.0, 2.5e10])
        samples = Backlog(
            np.array([0, 10**10]), np.zeros((2, 3), np.int64), offered, offered, np.zeros(2)
        )
        assert set(overload(replace(report, backlog=samples)).states) == {state}
