"""How a network falls into superboxes, and which of them is most urgent."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import Box, ConfigError, Network, QoSGraph, Query, Stream
from daybreak.policies.base import Plan, Work
from daybreak.policies.parts.superboxes.superbox_priority import (
    NO_HURRY,
    OwnGraphs,
    box_priority,
    own_graph,
    producers_first,
    top_boxes,
)
from daybreak.policies.parts.superboxes.superboxes import (
    Superbox,
    applications,
    around,
    before_several_inputs,
    composites,
    cut,
    dear_boxes,
    spanner,
    splits,
)
from daybreak.policies.registry import make_policy_with

MS = 1_000_000


def network(
    feeds: Mapping[str, tuple[str, ...]],
    outputs: dict[str, str],
    *,
    qos: Mapping[str, QoSGraph] | None = None,
    costs_ms: Mapping[str, int] | None = None,
    joins: tuple[str, ...] = (),
) -> Network:
    """Boxes by what feeds them; a name that is no box is a stream."""
    inputs = {i for names in feeds.values() for i in names} - feeds.keys()
    return Network(
        streams=[Stream(name=i) for i in inputs],
        boxes=[
            Box(
                name=b, inputs=up, kind="join" if b in joins else "map",
                cost_ns=(costs_ms or {}).get(b, 1) * MS,
            )
            for b, up in feeds.items()
        ],
        queries=[Query(name=q, output=b, qos=(qos or {}).get(q)) for q, b in outputs.items()],
    )  # fmt: skip


def three_applications() -> Network:
    """As in Figure 6.4: b1 serves A and B, b2 all three; b3 to b7 one each."""
    return network(
        {
            "b2": ("s2",),
            "b1": ("s1", "b2"),
            "b3": ("b1",), "b4": ("b3",),
            "b5": ("b1",), "b6": ("b5", "s3"),
            "b7": ("b2",),
        },
        {"A": "b4", "B": "b6", "C": "b7"},
    )  # fmt: skip


def names(net: Network, superboxes: list[Superbox]) -> list[str]:
    return [" ".join(net.boxes[b].name for b in s.boxes) for s in superboxes]


def test_application_trees_overlap_in_the_shared_boxes() -> None:
    net = three_applications()
    assert names(net, applications(net)) == ["b2 b1 b3 b4", "b2 b1 b5 b6", "b2 b7"]


def test_intersections_are_cut_at_the_splits() -> None:
    net = three_applications()
    assert {net.boxes[b].name for b in splits(net)} == {"b1", "b2", "b4", "b6", "b7"}
    assert names(net, cut(net, set())) == ["b2", "b1", "b3 b4", "b5 b6", "b7"]


def test_paths_of_single_inputs_begin_anew_at_a_box_of_several() -> None:
    net = three_applications()
    paths = cut(net, before_several_inputs(net))
    assert names(net, paths) == ["b2", "b1", "b3 b4", "b5", "b6", "b7"]


def test_a_dear_box_is_a_superbox_of_its_own() -> None:
    feeds = {"b1": ("s",), "b2": ("b1",), "b3": ("b2",), "b4": ("b3",), "b5": ("b4",)}
    net = network(feeds, {"A": "b5"}, costs_ms={"b3": 10})
    assert names(net, cut(net, set())) == ["b1 b2 b3 b4 b5"]
    dear = dear_boxes(net, 5)
    assert [net.boxes[b].name for b in dear] == ["b3"]
    assert names(net, cut(net, around(net, dear))) == ["b1 b2", "b3", "b4 b5"]
    # Without the cut before it, it may still end a superbox, but is inside none.
    assert names(net, cut(net, dear)) == ["b1 b2 b3", "b4 b5"]


def test_nothing_is_dear_among_boxes_that_cost_nothing() -> None:
    net = network({"b1": ("s",), "b2": ("b1",)}, {"A": "b2"}, costs_ms={"b1": 0, "b2": 0})
    assert dear_boxes(net, 2) == set()


#: Figure 6.6: B5 takes from B2 and B4.
FIGURE_6_6 = {
    "B1": ("s1",), "B2": ("B1",), "B3": ("s2",), "B4": ("B3",), "B5": ("B2", "B4"), "B6": ("B5",)
}  # fmt: skip


def spanned(joins: tuple[str, ...], *boxes: str) -> str:
    net = network(FIGURE_6_6, {"A": "B6"}, joins=joins)
    chosen = spanner(net, 0, [net.box_index[b] for b in boxes])
    return " ".join(net.boxes[b].name for b in chosen)


def test_a_spanner_is_the_tree_over_the_urgent_boxes() -> None:
    assert spanned((), "B1") == "B1 B2 B5 B6"
    assert spanned((), "B4", "B2") == "B2 B4 B5 B6"
    assert spanned((), *FIGURE_6_6) == "B1 B2 B3 B4 B5 B6"


def test_a_spanner_feeds_both_sides_of_a_join() -> None:
    assert spanned(("B5",), "B1") == "B1 B2 B3 B4 B5 B6"
    assert spanned(("B5",), "B6") == "B6"


def random_network(seed: int) -> Network:
    """A DAG of boxes with any number of inputs, splits and outputs."""
    random = Random(seed)
    count = random.randint(1, 12)
    feeds = {}
    for b in range(count):
        up = random.sample(range(b), min(b, random.randint(0, 2)))
        feeds[f"b{b}"] = tuple(f"b{u}" for u in up) or (f"s{random.randint(0, 2)}",)
    fed = {u for ups in feeds.values() for u in ups}
    ends = [b for b in feeds if b not in fed]
    extra = [b for b in feeds if b in fed and random.random() < 0.2]
    return network(feeds, {f"q{b}": b for b in (*ends, *extra)})


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 3))
def test_a_cut_puts_every_box_into_one_superbox_with_one_way_out(seed: int, dear: int) -> None:
    net = random_network(seed)
    for roots in (
        set(),
        before_several_inputs(net),
        around(net, {dear} & set(range(len(net.boxes)))),
    ):
        units = cut(net, roots)
        placed = [b for unit in units for b in unit.boxes]
        assert sorted(placed) == list(range(len(net.boxes)))
        for unit in units:
            mine = set(unit.boxes)
            for i, b in enumerate(unit.boxes):
                # Every box after those that feed it, and only the root feeds others.
                assert not set(unit.boxes[:i]) & set(net.downstream[b])
                assert b == unit.root or (len(net.downstream[b]) == 1 and not net.queries_at[b])
                assert b == unit.root or net.downstream[b][0] in mine
                assert b == unit.root or unit.down_path(b)[-1] == unit.root
    for path in cut(net, before_several_inputs(net)):
        assert all(len(net.boxes[b].inputs) == 1 for b in path.boxes[1:])


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_without_overlap_the_intersections_are_the_applications(seed: int) -> None:
    net = random_network(seed)
    if all(len(served) == 1 for served in net.box_queries) and not any(
        len(down) > 1 for down in net.downstream
    ):
        assert names(net, cut(net, set())) == names(net, applications(net))


def urgent_state() -> SystemState:
    """Applications A (deadline 10 ms) and B (100 ms) share b1; all boxes cost 1 ms."""
    net = network(
        {"b1": ("s",), "b2": ("b1",), "b3": ("b1",)},
        {"A": "b2", "B": "b3"},
        qos={"A": QoSGraph.deadline(0.010, 0.020), "B": QoSGraph.deadline(0.100, 0.110)},
    )
    return SystemState(net)


def hold(state: SystemState, **arrivals_ms: list[int]) -> None:
    for name, at_ms in arrivals_ms.items():
        b = state.network.box_index[name]
        state.pending[b] = len(at_ms)
        state.arrival_sum_ns[b] = sum(at_ms) * MS


def test_a_shared_box_has_the_highest_priority_it_serves() -> None:
    state = urgent_state()
    hold(state, b1=[0], b2=[0], b3=[0])
    loss_per_ns = 1 / (10 * MS)
    # At 5 ms: A's deadline is nearer. At 15 ms: A is losing. At 105 ms: only B still can.
    for now_ms, shared in (
        (5, (0.0, -3.0 * MS)),
        (15, (loss_per_ns, float("-inf"))),
        (105, (loss_per_ns, float("-inf"))),
    ):
        priority = box_priority(state, 0, now_ms * MS)
        assert priority == pytest.approx(shared)
        alone = [box_priority(state, b, (now_ms + 1) * MS) for b in (1, 2)]
        assert priority == pytest.approx(max(alone))


def test_the_urgency_of_a_superbox_by_its_boxes() -> None:
    state = urgent_state()
    hold(state, b2=[0, 2], b3=[0])
    everything = Superbox(state.network, (0, 1, 2))
    # Mean age of b2's tuples: 14 ms at 15 ms, with its own cost 15 ms: losing 0.1 per ms.
    assert top_boxes(1)(state, everything, 15 * MS) == (1 / (10 * MS), float("-inf"))
    losing, slack = top_boxes(2)(state, everything, 15 * MS)
    assert (losing, slack) == pytest.approx((1 / (10 * MS), -84.0 * MS))


def test_a_superbox_has_a_graph_of_its_own() -> None:
    state = urgent_state()
    shared, a, _b = cut(state.network, set())
    graph = own_graph(state.network, shared, state.cost_ns)
    # Both graphs moved ahead by the box that follows, then the mean of the two.
    assert graph is not None
    assert [(round(x * 1e3), round(y, 9)) for x, y in graph.points] == [
        (0, 1.0), (9, 1.0), (19, 0.5), (99, 0.5), (109, 0.0)
    ]  # fmt: skip
    alone = own_graph(state.network, a, state.cost_ns)
    assert alone is not None
    assert alone.points == ((0.0, 1.0), (0.01, 1.0), (0.02, 0.0))


def test_a_graph_of_its_own_is_read_at_the_mean_latency() -> None:
    state = urgent_state()
    superboxes = cut(state.network, set())
    urgency = OwnGraphs(state, superboxes)
    hold(state, b1=[0, 2])
    # At 9 ms: mean age 8, own work 2 ms; the graph drops from 9 to 19 ms, and again from 99.
    assert urgency(state, superboxes[0], 9 * MS) == pytest.approx((1 / (20 * MS), -89.0 * MS))
    assert urgency(state, superboxes[0], 5 * MS) == pytest.approx((0.0, -3.0 * MS))


def test_where_nothing_can_be_lost_there_is_no_hurry() -> None:
    net = network({"b1": ("s",), "b2": ("b1",)}, {"A": "b2"})
    state = SystemState(net)
    hold(state, b1=[0])
    assert box_priority(state, 0, MS) == NO_HURRY
    superboxes = applications(net)
    assert OwnGraphs(state, superboxes)(state, superboxes[0], MS) == NO_HURRY


def test_no_graph_where_all_is_lost_whatever_is_done() -> None:
    net = network({"b1": ("s",)}, {"A": "b1"}, qos={"A": QoSGraph.deadline(0.5, 1.0)})
    late = network(
        {"b1": ("s",), "b2": ("b1",)}, {"A": "b2"}, costs_ms={"b2": 2000},
        qos={"A": QoSGraph.deadline(0.5, 1.0)},
    )  # fmt: skip
    assert own_graph(net, applications(net)[0], SystemState(net).cost_ns) is not None
    # Whatever b1 does, b2 takes longer than the result is worth anything.
    first = cut(late, {0})[0]
    assert own_graph(late, first, SystemState(late).cost_ns) is None


def test_producers_go_first_only_for_a_more_urgent_consumer() -> None:
    urgent, calm, calmer = (1.0, 0.0), (0.5, 0.0), (0.25, 0.0)
    feeds, depth = [[1], [], []], [1, 0, 0]
    assert producers_first({0: calm, 1: urgent, 2: calmer}, feeds, depth) == [0, 1, 2]
    assert producers_first({0: calmer, 1: urgent, 2: calm}, feeds, depth) == [0, 1, 2]
    assert producers_first({0: calm, 1: calmer, 2: urgent}, feeds, depth) == [2, 0, 1]
    # Left to themselves, by priority alone.
    assert producers_first({0: calmer, 1: urgent, 2: calm}, [[], [], []], depth) == [1, 2, 0]
    # A consumer without tuples has no say.
    assert producers_first({0: calmer, 2: calm}, feeds, depth) == [2, 0]


@pytest.mark.parametrize(
    ("params", "first"),
    [
        ({"priority": "best"}, "b2"),
        ({"priority": "qos"}, "b2"),
        ({"priority": "best", "producer_first": True}, "b1"),
        ({"superboxes": "single-input", "priority": "best"}, "b2"),
        ({"superboxes": "applications", "priority": "best"}, "b1 b2"),
        ({"superboxes": "spanner", "spans": 1, "priority": "best"}, "b2"),
        ({"superboxes": "spanner", "spans": 2, "priority": "best"}, "b1 b2"),
    ],
)
def test_the_policy_runs_the_most_urgent_first(params: dict[str, object], first: str) -> None:
    state = urgent_state()
    hold(state, b1=[6], b2=[0], b3=[0])
    policy = make_policy_with("superbox", traversal="mc", **params)
    policy.attach(state, Work(), 1)
    plan = policy.decide(8 * MS, 0)
    assert isinstance(plan, Plan)
    assert " ".join(state.network.boxes[s.box].name for s in plan.steps) == first


def test_superboxes_that_share_a_box_are_never_out_together() -> None:
    state = SystemState(three_applications(), workers=3)
    hold(state, b2=[0], b4=[0], b5=[0], b7=[0])
    for choice, together in (("applications", 1), ("intersections", 4)):
        policy = make_policy_with("superbox", superboxes=choice, traversal="mc")
        policy.attach(state, Work(), 1)
        plans: list[set[int]] = []
        while isinstance(plan := policy.decide(0, len(plans)), Plan):
            plans.append({step.box for step in plan.steps})
            state.running = [r or b in plans[-1] for b, r in enumerate(state.running)]
        assert len(plans) == together
        assert sum(len(p) for p in plans) == len(set().union(*plans))
        state.running = [False] * len(state.running)


@pytest.mark.parametrize(
    "params",
    [
        {"spans": 0}, {"dear": -1.0}, {"dear": float("nan")}, {"top": 0}, {"train": -1},
        {"superboxes": "applications", "dear": 2.0}, {"superboxes": "spanner", "traversal": "ml"},
        {"superboxes": "clusters"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        make_policy_with("superbox", **params)


def test_applications_that_share_enough_are_one_superbox_with_both_graphs() -> None:
    quick, slow = QoSGraph.deadline(0.001), QoSGraph.deadline(0.003)
    shared = network(
        {"in": ("s",), "common": ("in",), "a": ("common",), "b": ("common",), "c": ("t",)},
        {"A": "a", "B": "b", "C": "c"},
        qos={"A": quick, "B": slow},
    )
    names = [[shared.boxes[b].name for b in s.boxes] for s in composites(shared, 0.5)]
    assert [sorted(n) for n in names] == [["a", "b", "common", "in"], ["c"]]
    assert names[0][:2] == ["in", "common"]
    assert [len(s.boxes) for s in composites(shared, 0.9)] == [3, 3, 1]
    both = composites(shared, 0.5)[0]
    assert {shared.boxes[b].name for b in both.exits} == {"a", "b"}
    graph = own_graph(shared, both, [1 * MS] * len(shared.boxes))
    assert graph is not None
    # At 1.5 ms half of A's utility is lost and none of B's: the mean of 0.5 and 1.
    assert graph.worth(1.5 * MS) == pytest.approx(0.75)
    assert composites(shared, 0.5)[1].exits == composites(shared, 0.5)[1].boxes


def test_composites_are_run_in_order_mc_and_join_a_share_of_boxes() -> None:
    with pytest.raises(ConfigError, match="mc"):
        make_policy_with("superbox", superboxes="composites", traversal="ml")
    with pytest.raises(ConfigError, match="overlap"):
        make_policy_with("superbox", superboxes="composites", overlap=0.0)
