"""Push-through: only input boxes are candidates, and a plan is the path to the output."""

import math

import pytest

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, Stream
from daybreak.policies.base import Decision, Plan, Step, Work
from daybreak.policies.bucketing_clearing import LogGrid
from daybreak.policies.parts.queues.ready import all_paths
from daybreak.policies.registry import make_policy_with

PUSH = ("fixed-priority-push", "slope-slack-push", "bucketing-push", "bucketing-clearing")


def fan_in() -> Network:
    """Two inputs, each through a box of its own, meet in the output box; a chain beside them."""
    return Network(
        streams=[Stream(name=n) for n in ("x", "y", "z")],
        boxes=[
            Box(name="a1", inputs=("x",), cost_ns=10),
            Box(name="a2", inputs=("y",), cost_ns=10),
            Box(name="a3", inputs=("a1", "a2"), kind="union", cost_ns=10),
            Box(name="b1", inputs=("z",), cost_ns=10),
            Box(name="b2", inputs=("b1",), cost_ns=10),
        ],
        queries=[
            Query(name="a", output="a3", qos=QoSGraph.deadline(2e-6)),
            Query(name="b", output="b2", qos=QoSGraph.deadline(1e-6)),
        ],
    )


def names(view: SystemState, plan: Decision) -> list[str]:
    assert isinstance(plan, Plan)
    return [view.network.boxes[step.box].name for step in plan.steps]


def test_a_path_is_an_input_box_and_all_boxes_downstream() -> None:
    network = fan_in()
    found = [[network.boxes[b].name for b in path] for path in all_paths(network)]
    assert found == [["a1", "a3"], ["a2", "a3"], ["b1", "b2"]]


@pytest.mark.parametrize("name", PUSH)
def test_the_urgent_path_runs_to_its_output_and_only_inputs_are_candidates(name: str) -> None:
    view = SystemState(fan_in(), workers=2)
    policy = make_policy_with(name)
    policy.attach(view, Work(), 1)
    # What lies at an inner box alone makes nobody ready.
    view.pending[view.network.box_index["b2"]] = 1
    policy.on_arrival(view.network.box_index["b2"], 1, 0)
    assert policy.decide(0, 0) is None
    for box in view.network.input_boxes:
        view.pending[box] = 1
        policy.on_arrival(box, 1, 0)
    first = policy.decide(0, 0)
    assert names(view, first) == ["b1", "b2"]  # the tighter deadline
    # The paths of a1 and a2 meet in a3: they never run at the same time.
    second = policy.decide(0, 1)
    assert names(view, second) == ["a1", "a3"]
    assert isinstance(second, Plan)
    for step in second.steps:
        view.running[step.box] = True
    assert policy.decide(0, 0) is None
    for step in second.steps:
        view.running[step.box] = False
        view.pending[step.box] = 0
    policy.on_completion(second, 1, 20, 20)
    assert names(view, policy.decide(20, 1)) == ["a2", "a3"]


def test_a_train_limits_the_input_box_alone() -> None:
    view = SystemState(fan_in())
    view.pending[0] = 5
    policy = make_policy_with("fixed-priority-push", train=2)
    policy.attach(view, Work(), 1)
    plan = policy.decide(0, 0)
    assert plan == Plan((Step(0, 2), Step(2)), superbox=True)


@pytest.mark.parametrize("name", PUSH[:3])  # bucketing-clearing ends lists where it sees fit
def test_a_list_is_as_long_as_the_schedule_size(name: str) -> None:
    apps = 7
    network = Network(
        streams=[Stream(name=f"s{i}") for i in range(apps)],
        boxes=[Box(name=f"b{i}", inputs=(f"s{i}",), cost_ns=10) for i in range(apps)],
        queries=[
            Query(name=f"q{i}", output=f"b{i}", qos=QoSGraph.deadline(1e-3 * (i + 1)))
            for i in range(apps)
        ],
    )
    view = SystemState(network)
    view.pending[:] = [1] * apps
    work = Work()
    policy = make_policy_with(name, schedule_size=3)
    policy.attach(view, work, 1)
    invocations = []
    for turn in range(apps):
        plan = policy.decide(turn, 0)
        assert names(view, plan) == [f"b{turn}"]
        assert isinstance(plan, Plan)
        view.pending[turn] = 0
        policy.on_completion(plan, 0, 10, turn)
        invocations.append(work.invocations)
    assert invocations == [1, 1, 1, 2, 2, 2, 3]


def test_slack_without_end_is_in_the_last_bucket() -> None:
    """Where no tuple passes a filter nothing is ever lost: a logarithm of nothing failed there."""
    grid = LogGrid([QoSGraph.deadline(1.0)], 4)
    assert [grid.slack_bucket(s)[0] for s in (math.inf, 2e9, 1e9)] == [3, 3, 3]
    assert grid.slack_bucket(0.0)[0] == 0
    assert LogGrid([], 4).slack_bucket(5.0)[0] == 3
