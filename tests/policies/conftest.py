"""A policy in the middle of a run, for tests of single decisions."""

from __future__ import annotations

import pytest

from daybreak.policies.planned import Planned
from daybreak_experiments.planned.machine import Case, exact, run
from daybreak_experiments.planned.workloads import mixed


@pytest.fixture
def three_workers() -> Planned:
    """A policy with a plan, and with nothing under way."""
    policy = Planned()
    run(
        Case(mixed(), 1.0, workers=3, shown=exact, warm_s=8.0, measured_s=15.0, after_s=12.0),
        policy,
    )
    policy._out.clear()
    return policy
