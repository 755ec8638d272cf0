"""Every idle worker is asked for: a policy may have a plan for one and none for another."""

from __future__ import annotations

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import RangeArrived
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.instructions import StartJob, WakeAt
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.base import BasePolicy, Decision, Plan, Step, Wait


class ForWorkerZero(BasePolicy):
    """As policies that hand out turns by worker do: the others have to wait."""

    name = "worker-zero"

    def decide(self, now_ns: int, worker: int) -> Decision:
        free = self.view.pending[0] and not self.view.running[0]
        if not free:
            return None
        return Plan((Step(0),)) if worker == 0 else Wait(now_ns + 10**9)


def test_a_worker_without_a_plan_does_not_keep_another_from_its_own() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name="q", inputs=("s",), kind="filter")],
        queries=[Query(name="q", output="q")],
    )
    facts, inboxes = [QueryFacts("q", ("s",))], [Inbox()]
    engine = Engine(JobState(network, 3), facts, inboxes, ForWorkerZero(), Settings())
    out = engine.handle(5, RangeArrived((0,), Waiting(5, "s", 2, 0)))
    assert [i.worker for i in out if isinstance(i, StartJob)] == [0]
    assert not any(isinstance(i, WakeAt) for i in out), "nobody waits for what runs"
