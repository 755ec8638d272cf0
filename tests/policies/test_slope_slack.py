"""SlopeSlack's p-tuples, and bucketing beside them."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import Box, ConfigError, Network, QoSGraph, Query, Stream
from daybreak.policies.base import Plan, Work
from daybreak.policies.bucketing import BucketGrid, Bucketing
from daybreak.policies.bucketing_clearing import LogGrid
from daybreak.policies.parts.priorities.urgency import Outlook
from daybreak.policies.registry import make_policy_with

US = 1000


def chain_of_three(qos: QoSGraph | None) -> SystemState:
    """Costs 1, 2 and 4 µs; the second box passes half."""
    network = Network(
        streams=[Stream(name="s")],
        boxes=[
            Box(name="b1", inputs=("s",), cost_ns=1 * US),
            Box(name="b2", inputs=("b1",), cost_ns=2 * US, selectivity=0.5),
            Box(name="b3", inputs=("b2",), cost_ns=4 * US),
        ],
        queries=[Query(name="q", output="b3", qos=qos)],
    )
    view = SystemState(network)
    view.pending[:] = [3, 0, 2]
    view.arrival_sum_ns[:] = [3 * 10 * US, 0, 2 * 5 * US]
    return view


def test_expected_output_latency_by_path_and_as_printed() -> None:
    view = chain_of_three(QoSGraph.deadline(1.0))
    now = 20 * US
    # o_sel is 0.5 at b1 and b2, 1 at b3; a tuple costs 2 + 4 + 4 µs on its way from b1.
    ((_, by_path),) = Outlook(view, "path").latencies(0, now)
    assert by_path == (20 - 10) * US + 3 * (2 + 4 + 4) * US + 2 * 4 * US
    ((_, literal),) = Outlook(view, "literal").latencies(0, now)
    assert literal == (20 - 10) * US + 3 * 2 * US + 2 * 4 * US
    ((_, last),) = Outlook(view, "path").latencies(2, now)
    assert last == (20 - 5) * US + 2 * 4 * US


def test_estimates_that_move_are_followed() -> None:
    view = chain_of_three(QoSGraph.deadline(1.0))
    outlook = Outlook(view, "path")
    before = outlook.latencies(0, 0)[0][1]
    view.cost_ns[2] = 8 * US
    outlook.learn(Plan(()))
    assert outlook.latencies(0, 0)[0][1] == before
    policy = make_policy_with("fixed-priority", level="query")
    policy.attach(view, Work(), 1)
    plan = policy.decide(0, 0)
    assert isinstance(plan, Plan)
    outlook.learn(plan)
    assert outlook.latencies(0, 0)[0][1] == before + 3 * 4 * US + 2 * 4 * US


def test_without_a_graph_a_box_goes_last() -> None:
    assert Outlook(chain_of_three(None), "path").priority([0, 2], 0) == (0.0, math.inf)


# A network of single boxes without cost: a box's expected latency is how long its tuple waited.
LATENCY_US = st.integers(1, 64)
SLOPES = 4


@st.composite
def situations(draw: st.DrawFn) -> SystemState:
    """Boxes with graphs of a few pieces, whose slopes are 0 to 3 parts in 256 per µs."""
    graphs = []
    for _ in range(draw(st.integers(1, 3))):
        marks = sorted(draw(st.sets(st.integers(1, 63), min_size=1, max_size=4)))
        at, worth, points = 0, 256, [(0.0, 1.0)]
        for mark in marks:
            worth -= draw(st.integers(0, SLOPES - 1)) * (mark - at)
            at = mark
            points.append((mark * 1e-6, worth / 256))
        graphs.append(QoSGraph(tuple(points)))
    chosen = st.tuples(st.integers(0, len(graphs) - 1), LATENCY_US)
    boxes = draw(st.lists(chosen, min_size=1, max_size=12))
    network = Network(
        streams=[Stream(name=f"s{i}") for i in range(len(boxes))],
        boxes=[Box(name=f"b{i}", inputs=(f"s{i}",)) for i in range(len(boxes))],
        queries=[Query(name=f"q{i}", output=f"b{i}", qos=graphs[g])
                 for i, (g, _) in enumerate(boxes)],
    )  # fmt: skip
    view = SystemState(network)
    for i, (_, latency) in enumerate(boxes):
        view.pending[i] = 1
        view.arrival_sum_ns[i] = (64 - latency) * US
    return view


def order(name: str, view: SystemState, now_ns: int, **params: int) -> list[int]:
    policy = make_policy_with(name, schedule_size=0, **params)
    policy.attach(view, Work(), 1)
    plan = policy.decide(now_ns, 0)
    assert isinstance(plan, Plan)
    return [step.box for step in plan.steps]


@pytest.mark.slow
@given(situations())
@settings(max_examples=60, deadline=None)
def test_ever_finer_buckets_converge_to_slope_slacks_order(view: SystemState) -> None:
    """What bucketing puts in another order differs by less than a bucket, and in the end by 0."""
    now = 64 * US
    outlook = Outlook(view, "path")
    tuples = {b: outlook.priority((b,), now) for b in range(len(view.pending))}
    exact = [tuples[b] for b in order("slope-slack", view, now)]
    assert exact == sorted(exact)
    graphs = [q.qos for q in view.network.queries if q.qos]
    for partitions in (1, 2, 8, 32, 256):
        grid = BucketGrid(graphs, partitions)
        found = [tuples[b] for b in order("bucketing", view, now, partitions=partitions)]
        for before, after in pairwise(found):
            if after < before:  # not as SlopeSlack has it: their slopes share a row of buckets
                assert abs(after[0] - before[0]) < grid.slope_per_ns * (1 + 1e-9)
            if after < before and after[0] == before[0]:  # and their slacks share a bucket
                slacks = [min(s, grid.slack_ns * partitions) for _, s in (before, after)]
                assert abs(slacks[0] - slacks[1]) <= grid.slack_ns * (1 + 1e-9)
    # Slacks are 1 µs apart and below 64 µs, slopes a third of the steepest. What is late for good
    # shares the last bucket with whoever has the most slack there is.
    most_ns = grid.slack_ns * partitions
    capped = [(slope, min(slack, most_ns)) for slope, slack in found]
    assert capped == [(slope, min(slack, most_ns)) for slope, slack in exact]


@pytest.mark.slow
@given(situations())
@settings(max_examples=60, deadline=None)
def test_buckets_kept_current_are_those_assigned_anew(view: SystemState) -> None:
    """As time goes by, the timer queue moves every box that waiting takes into another bucket."""
    policy = make_policy_with("bucketing", schedule_size=1, partitions=7)
    assert isinstance(policy, Bucketing)
    work = Work()
    policy.attach(view, work, 1)
    boxes = range(len(view.pending))
    seen = []
    for now in range(64 * US, 140 * US, 4 * US):
        before = work.evaluated
        chosen = policy.order(policy.units.ready, 1, now)
        seen.append(work.evaluated - before)
        best = min(policy.bucket(b, now)[0] for b in boxes)
        assert policy.bucket(chosen[0], now)[0] == best
        # What was chosen is not run here: it asks to be listed again.
        policy.on_arrival(chosen[0], 0, now)
    assert seen[0] == len(boxes)
    # In the end all are late, and only what was asked about is looked at.
    assert seen[-1] == 1


@given(st.floats(1.0, 1e9), st.sampled_from([1, 7, 24, 50]))
def test_slack_buckets_in_equal_ratios_are_in_order(slack_ns: float, partitions: int) -> None:
    grid = LogGrid([QoSGraph.deadline(1.0)], partitions)
    bucket, least_ns = grid.slack_bucket(slack_ns)
    assert 0 <= bucket < partitions
    assert least_ns <= slack_ns
    assert grid.slack_bucket(slack_ns * 1.001)[0] >= bucket
    if bucket:
        assert grid.slack_bucket(least_ns * 0.999)[0] == bucket - 1


@pytest.mark.parametrize("partitions", [0, 5000])
def test_a_number_of_partitions_that_makes_no_sense_is_refused(partitions: int) -> None:
    with pytest.raises(ConfigError, match=f"partitions {partitions}"):
        make_policy_with("bucketing", partitions=partitions)


def test_a_patience_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="patience 0"):
        make_policy_with("bucketing-clearing", patience=0.0)


def listed(deadlines_ms: list[float], size: int, empty: int = 0) -> int:
    """How many paths of 1 ms each bucketing-clearing puts into its first list.

    All hold a tuple that has just come, but for the first few.
    """
    apps = range(len(deadlines_ms))
    network = Network(
        streams=[Stream(name=f"s{i}") for i in apps],
        boxes=[Box(name=f"b{i}", inputs=(f"s{i}",), cost_ns=1000 * US) for i in apps],
        queries=[Query(name=f"q{i}", output=f"b{i}", qos=QoSGraph.deadline(d / 1000))
                 for i, d in enumerate(deadlines_ms)],
    )  # fmt: skip
    view = SystemState(network)
    view.pending[:] = [int(i >= empty) for i in apps]
    policy = make_policy_with("bucketing-clearing", schedule_size=size)
    assert isinstance(policy, Bucketing)
    policy.attach(view, Work(), 1)
    return len(policy.order(policy.units.ready, size, 0))


def test_what_no_arrival_can_overtake_is_listed_at_once() -> None:
    assert listed([11.0] * 20, 20) == 20
    assert listed([11.0] * 20, 10) == 10


def test_what_an_arrival_could_overtake_is_listed_alone() -> None:
    assert listed([11.0] * 3 + [2000.0] * 20, 20) == 3
    # Nobody is as urgent as one that may arrive at the tight one, which holds nothing now.
    assert listed([11.0] + [2000.0] * 20, 20, empty=1) == 1
