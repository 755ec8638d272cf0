"""The replay law: the same events give the same instructions, under every registered policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import count

import pytest
from tests.engine.fuzz import check_replays

from daybreak.policies.base import BasePolicy, Plan, Step
from daybreak.policies.fcfs import FirstComeFirstServed
from daybreak.policies.registry import all_policies

POLICIES = all_policies()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_any_sequence_of_events_is_answered_the_same_again(policy: str) -> None:
    jobs = check_replays(POLICIES[policy], range(50))
    assert jobs > 50


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_ten_thousand_sequences_are_answered_the_same_again(policy: str) -> None:
    check_replays(POLICIES[policy], range(50, 10_050))


class ReadsTheClock(FirstComeFirstServed):
    """Decides by an instant that no event brings."""

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        return super().decide(time.monotonic_ns(), worker) if time.monotonic_ns() % 2 else None


class KeepsState(BasePolicy):
    """Decides by what all engines of the process have done."""

    name = "fcfs"  # a journal names it, and another of that name reads it
    calls = count()

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        free = [b for b, n in enumerate(self.view.pending) if n and not self.view.running[b]]
        return Plan((Step(free[next(self.calls) % len(free)]),)) if free else None


@pytest.mark.parametrize("policy", [ReadsTheClock, KeepsState])
def test_a_policy_that_decides_by_what_no_event_brings_is_found(policy: type[BasePolicy]) -> None:
    with pytest.raises(AssertionError):
        check_replays(policy, range(20))


@pytest.mark.slow
def test_decisions_do_not_depend_on_the_order_of_hashes() -> None:
    """Which another process has: a recorded run is replayed in one."""
    told = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.engine.fuzz"],
            env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]  # fmt: skip
    one, other = (json.loads(process.communicate()[0]) for process in told)
    assert one == other
    assert one.keys() == POLICIES.keys()
