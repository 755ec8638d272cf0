"""A policy that sizes trains itself is taken at its word; others are kept to short jobs."""

from __future__ import annotations

import pytest

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import RangeArrived
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.instructions import StartJob
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.base import BasePolicy, Plan, Step

NAMES = [f"q{i}" for i in range(40)]


class First(BasePolicy):
    name = "first"

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        free = [b for b, n in enumerate(self.view.pending) if n and not self.view.running[b]]
        return Plan((Step(free[0]),)) if free else None


class Sizing(First):
    name = "sizing"
    sizes_trains = True


@pytest.mark.parametrize(("policy", "whole"), [(First(), False), (Sizing(), True)])
def test_the_train_is_the_policys_only_if_it_sizes_trains(policy: BasePolicy, whole: bool) -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in NAMES],
        queries=[Query(name=n, output=n) for n in NAMES],
    )
    engine = Engine(
        JobState(network), [QueryFacts(n, ("s",), share_key="s") for n in NAMES],
        [Inbox() for _ in NAMES], policy, Settings(rider_bound_ns=1_000_000),
    )  # fmt: skip
    everything = RangeArrived(tuple(range(len(NAMES))), Waiting(0, "s", 1_000_000, 0))
    [job] = engine.handle(0, everything)
    assert isinstance(job, StartJob)
    [group] = job.groups
    assert (group.tuples == 1_000_000) == whole
    assert (len(group.boxes) == len(NAMES)) == whole
