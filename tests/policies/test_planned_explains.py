"""``planned`` explains waits by the figures it decides by, and explaining changes nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
from tests.simulation.recording import model

from daybreak.policies.base import Decision, Plan
from daybreak.policies.planned import Planned
from daybreak.policies.reasons import CAUSES, Reason


class Asked(Planned):
    """Is asked about every query, before and after every decision."""

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.began: list[tuple[int, int, Reason]] = []
        self.seen: set[str] = set()

    def decide(self, now_ns: int, worker: int) -> Decision:
        self._ask(now_ns)
        pending = list(self.view.pending)
        heads = list(self.view.head_ns)
        decision = super().decide(now_ns, worker)
        if isinstance(decision, Plan):
            box = decision.steps[0].box
            reason = self.explain(box, now_ns)
            if reason is not None and pending[box]:
                self.began.append((heads[box], now_ns, reason))
        self._ask(now_ns)
        return decision

    def _ask(self, now_ns: int) -> None:
        for query in range(len(self.view.network.queries)):
            reason = self.explain(query, now_ns)
            if reason is not None:
                self.seen.update(one.node for one in reason.every())
                assert json.dumps(reason.as_json(), allow_nan=False)


def test_the_parts_of_a_reason_are_the_wait_from_the_oldest_tuple_to_the_job() -> None:
    policy = Asked()
    model(span_s=1.0, rate_per_s=40.0, workers=1).run(policy)
    assert len(policy.began) > 20
    for head_ns, now_ns, reason in policy.began:
        spans = [part.span_ns for part in reason.parts() if part.span_ns is not None]
        assert spans[0][0] == head_ns
        assert spans[-1][1] == now_ns
        assert all(one[1] == other[0] for one, other in pairwise(spans))
        assert {part.cause for part in reason.parts()} <= set(CAUSES)
    # Neither of these would be there if nothing had ever to wait.
    assert {"planned", "period", "worker"} <= policy.seen


def test_who_is_asked_decides_as_who_is_not() -> None:
    asked = model(span_s=0.5, workers=2).run(Asked()).outputs
    silent = model(span_s=0.5, workers=2).run(Planned()).outputs
    assert np.array_equal(asked.departure_ns, silent.departure_ns)
    assert np.array_equal(asked.query, silent.query)
