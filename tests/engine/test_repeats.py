"""A replay that is told the same events in the same order gives the same instructions."""

from __future__ import annotations

import pytest
from tests.engine.journal import assert_repeats_itself
from tests.simulation.recording import model

from daybreak.engine.core import Settings
from daybreak.engine.drive import NEVER
from daybreak.engine.engine import Engine
from daybreak.engine.events import SetPriority, Started, SwitchPolicy
from daybreak.engine.instructions import StartJob
from daybreak.engine.state import JobState
from daybreak.model.shedding import SheddingParams
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.jobs import VirtualDriver

ON_SPARK = [name for name, p in all_policies().items() if p.on_spark]


@pytest.mark.parametrize("policy", ON_SPARK)
def test_an_engine_that_is_told_the_same_answers_the_same(policy: str) -> None:
    replay = model(span_s=1.0, rate_per_s=40.0)
    state = JobState(replay.network, 2, express=1)
    engine = Engine(
        state, replay.queries.facts(replay.network), replay.queries.inboxes(),
        make_policy_with(policy),
        Settings(seed=5, rider_bound_ns=replay.bound_ns, shedding=SheddingParams(patience_s=0.01)),
    )  # fmt: skip
    accounts = Accounts(engine, Monitor(replay.network))
    driver = VirtualDriver(
        engine, accounts, replay.queries, replay.deliveries, end_ns=NEVER - 1, decide_ns=200_000
    )
    driver.tell(Started())
    steps = 0
    while driver.advance():
        steps += 1
        if steps == 30:
            driver.tell(SetPriority(1, 90.0))
        if steps == 60:
            driver.tell(SwitchPolicy(make_policy_with("stride"), 3))
    jobs = [
        i for entry in engine.journal.entries() for i in entry.answer if isinstance(i, StartJob)
    ]
    assert len(jobs) > 20
    assert_repeats_itself(engine)
