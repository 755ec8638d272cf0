"""A lone worker's short cuts give the run that taking every step by itself gives."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.drawn import OVERHEADS, arrivals, networks

from daybreak.engine.state import SystemState
from daybreak.model import Arrivals, Network, Overheads, Query, Stream, chain
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.laws import assert_same
from daybreak.simulation.loop import SimulationLoop
from daybreak.simulation.plan_run import PlanRun

Make = Callable[[], BasePolicy]
#: Plans of one tuple through a query, which ``ShortCuts.whole`` runs.
ONE_TUPLE: list[Make] = [
    partial(make_policy_with, "fcfs", level="query", train=1),
    partial(make_policy_with, "round-robin", level="query", train=1),
    partial(make_policy_with, "fas-mcq", drain="one"),
    partial(make_policy_with, "rb-mcq", drain="one"),
]
#: Lists of boxes that take their whole queues, which ``ShortCuts.go_on`` runs.
LISTS: list[Make] = [
    partial(make_policy_with, "round-robin"),
    partial(make_policy_with, "round-robin", level="query"),
    partial(make_policy_with, "aaat", traversal="mc"),
    partial(make_policy_with, "fixed-priority", schedule_size=3),
    partial(make_policy_with, "superbox"),
]
#: Neither: part of a queue at a time, or until time is up.
OTHERS: list[Make] = [
    partial(make_policy_with, "round-robin", train=2),
    partial(make_policy_with, "round-robin", fraction=0.5),
    partial(make_policy_with, "abd"),
    partial(make_policy_with, "cqc"),
]


class Counting(VirtualExecutor):
    """Counts the steps that are taken one by one."""

    steps = 0

    def _emit(self, run: PlanRun, now: int, loop: SimulationLoop) -> None:
        self.steps += 1
        super()._emit(run, now, loop)


def both(
    network: Network, make: Make, schedule: ArrivalSchedule, overheads: Overheads
) -> tuple[int, int]:
    """Runs with short cuts and without, compares, and returns the steps taken one by one.

    Samples of the backlog are not compared: they are taken at events, of which there are fewer.
    """
    reports: list[RunReport] = []
    steps: list[int] = []
    for short_cuts in (True, False):
        state, monitor = SystemState(network), Monitor(network)
        executor = Counting(state, schedule, monitor, overheads, short_cuts=short_cuts)
        SimulationLoop(state, make(), executor, 1).run()
        reports.append(monitor.report(state, executor.now_ns, 1, {}))
        steps.append(executor.steps)
    short, general = reports
    assert_same(short, general)
    assert short.outputs.arrival_ns.tolist() == general.outputs.arrival_ns.tolist()
    assert short.boxes == general.boxes
    assert short.manifest["decisions"] == general.manifest["decisions"]
    return steps[0], steps[1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    network=st.one_of(networks(), networks(plain=True)),
    make=st.sampled_from(ONE_TUPLE),
    seed=st.integers(0, 10**6),
    load=st.floats(0.1, 1.5),
    overheads=OVERHEADS,
)
def test_one_tuple_through_a_chain_at_once_changes_nothing(
    network: Network, make: Make, seed: int, load: float, overheads: Overheads
) -> None:
    both(network, make, arrivals(network, seed, load), overheads)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    network=st.one_of(networks(), networks(plain=True)),
    make=st.sampled_from(LISTS),
    seed=st.integers(0, 10**6),
    load=st.floats(0.1, 1.5),
    overheads=OVERHEADS,
)
def test_a_list_gone_through_at_once_changes_nothing(
    network: Network, make: Make, seed: int, load: float, overheads: Overheads
) -> None:
    both(network, make, arrivals(network, seed, load), overheads)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    network=networks(),
    make=st.sampled_from(OTHERS),
    seed=st.integers(0, 10**6),
    overheads=OVERHEADS,
)
def test_other_plans_are_run_step_by_step(
    network: Network, make: Make, seed: int, overheads: Overheads
) -> None:
    both(network, make, arrivals(network, seed, 0.8), overheads)


@pytest.mark.parametrize(("make", "taken"), [(ONE_TUPLE[0], 0.0), (LISTS[2], 0.5)])
def test_the_short_cuts_are_taken(make: Make, taken: float) -> None:
    """Else the laws above would compare the general way with itself."""
    names = [f"q{i}" for i in range(3)]
    network = Network(
        streams=[Stream(name=f"{q}s", arrivals=Arrivals(rate_per_s=300)) for q in names],
        boxes=[box for q in names for box in chain(q, f"{q}s", [100_000] * 4)],
        queries=[Query(name=q, output=f"{q}.4") for q in names],
    )
    short, general = both(network, make, arrivals(network, 1, 0.9), Overheads(box_call_ns=3_000))
    assert short <= taken * general
