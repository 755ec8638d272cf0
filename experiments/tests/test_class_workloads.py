"""The workloads of the thesis by name: sizes as printed, loads as stated, changes as data."""

from __future__ import annotations

from itertools import pairwise

import pytest

from daybreak.model import ConfigError
from daybreak_experiments.classes.system import (
    divided_cores,
    events_of,
    network_of,
    source_turns,
    tuple_load,
)
from daybreak_experiments.classes.workloads import (
    MIXES,
    apportion,
    load_workload,
    names,
    read_workload,
)

SIZES = {
    "A": (7, 7, 7), "B": (2, 8, 11), "C": (2, 8, 11), "A_H": (7,), "B_H": (2,), "C_H": (2,),
    "D": (7, 7, 7), "E": (2, 8, 11), "F": (11, 8, 2), "5G": (3, 5, 7, 6, 4),
    "3D_6": (21, 21, 21), "3E_6": (14, 21, 28), "3F_6": (28, 21, 14), "5I": (12, 12, 15, 12, 12),
    "5G_2": (12, 20, 28, 24, 16), "5G_4": (12, 20, 28, 24, 16), "5S_2": (6, 10, 14, 12, 8),
    "5S_8": (24, 40, 56, 48, 32), "5O_16": (48, 80, 112, 96, 64), "5L": (20, 32, 38, 38, 32),
}  # fmt: skip


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_classes_have_as_many_queries_as_printed(name: str, sizes: tuple[int, ...]) -> None:
    workload = load_workload(name)
    assert tuple(sum(c.kinds.values()) for c in workload.classes) == sizes
    built = network_of(workload)
    assert len(built.queries) == sum(sizes) + len(workload.shared)


@pytest.mark.parametrize(
    ("name", "load"), [("5G_4", 0.75), ("3D_6", 0.9), ("3E_6", 0.9), ("3F_6", 0.9), ("5I", 0.9)]
)
def test_tuple_work_loads_the_cores_as_stated(name: str, load: float) -> None:
    workload = load_workload(name)
    loads = [tuple_load(workload, network_of(workload, seed)) for seed in range(1, 21)]
    assert sum(loads) / len(loads) == pytest.approx(load, abs=0.03)


def test_every_file_is_read_and_its_changes_refer_to_what_exists() -> None:
    for name in names():
        workload = load_workload(name.replace("_n", "_2"))
        built = network_of(workload)
        for event in events_of(workload, built):
            known = {
                "class-priority": built.classes,
                "selectivity": built.boxes,
                "query-class": built.queries,
            }[event.what]
            assert event.subject < len(known)


def test_families_scale_with_their_cores() -> None:
    assert [c.rate_per_s for c in load_workload("5G_2").classes] == [600.0] * 5
    assert [c.rate_per_s for c in load_workload("5G_8").classes] == [2400.0] * 5
    assert [c.rate_per_s for c in load_workload("5S_8").classes] == [1200.0] * 5
    low = load_workload("LowInput_3")
    assert [c.rate_per_s for c in low.classes] == [1200, 1200, 500, 1200, 1200]


def test_queries_are_replicated_with_the_cores() -> None:
    two, eight = load_workload("5S_2"), load_workload("5S_8")
    assert list(eight.classes[1].dealt()) == list(two.classes[1].dealt()) * 4
    few, many = network_of(two, seed=5), network_of(eight, seed=5)
    cost_ns = {b.name: (b.cost_ns, b.selectivity) for b in few.boxes}
    for box in many.boxes:
        cls, _, rest = box.name.partition(".")
        number, _, operator = rest.partition("/")
        original = (int(number) - 1) % sum(two.classes[int(cls) - 1].kinds.values()) + 1
        assert (box.cost_ns, box.selectivity) == cost_ns[f"{cls}.{original}/{operator}"]
    assert tuple_load(eight, many) == pytest.approx(tuple_load(two, few))
    with pytest.raises(ConfigError, match="3 cores, queries given for 2"):
        load_workload("5S_3")


def test_the_rate_of_5o_passes_1600_at_3_6_seconds() -> None:
    rates = load_workload("5O_2").classes[0].rates
    assert max(rate for at_s, rate in rates if at_s < 3.6) == pytest.approx(1600, abs=20)
    assert rates[-1] == (6.48, 2400.0)


def test_piat_changes_priorities_as_the_prose_says() -> None:
    by_class = {c.name: c.priorities for c in load_workload("PIAT").classes}
    assert by_class["1"] == ((7.5, 50.0),)
    assert by_class["2"] == ((4.5, 50.0),)
    assert by_class["4"] == ((4.5, 20.0), (7.5, 15.0))
    assert not by_class["3"]
    assert not by_class["5"]


def test_kinds_are_apportioned_and_dealt_evenly() -> None:
    assert apportion(MIXES["all"], 21) == {"aggregate": 9, "join": 6, "select": 4, "project": 2}
    assert sum(apportion(MIXES["all"], 11).values()) == 11
    dealt = [kind for kind, _ in load_workload("5G_4").classes[0].dealt()]
    assert dealt.count("join") == dealt.count("aggregate") == 6
    assert all(a != b for a, b in pairwise(dealt)), "in turns"


def test_sources_take_turns_by_class_where_asked() -> None:
    built = network_of(load_workload("3D_6"))
    assert sorted(source_turns(built, "round-robin")) == list(range(len(built.streams)))
    turns = source_turns(built, "mbd")
    first = turns.count(built.stream_index["1.1/in1"])
    assert first == 60
    assert turns.count(built.stream_index["3.1/in1"]) == 10


def test_cores_are_divided_by_expected_load() -> None:
    workload = load_workload("5S_8")
    built = network_of(workload)
    assert divided_cores(workload, built, 9) == (8, 1)
    assert divided_cores(workload, built, 100) == (97, 3)


def test_a_query_may_move_to_another_class() -> None:
    text = 'base = "5I"\n[assignments."5.1"]\nclass = "1"\nat_s = 1.5\n'
    workload = read_workload(text, "moved")
    built = network_of(workload)
    (event,) = events_of(workload, built)
    assert event == (1_500_000_000, "query-class", built.query_index["5.1"], 0.0)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("cores = 2\n", "declares no classes"),
        ('base = "5I"\n[classes.1]\npriority = 5\nspeed = 3\n', "unknown key 'speed'"),
        ('base = "5I"\n[classes.9]\npriority = 5\n', "says too little"),
        ('base = "5I"\n[classes.1]\npriorities = [[2, 5], [1, 6]]\n', "out of order"),
        ('base = "5I"\n[classes.1]\nqueries = 3\nmix = "some"\n', "mix 'some'"),
        ('base = "5I"\n[shared.u]\nkind = "union"\nclass = "7"\n', "class '7' is not declared"),
        ('base = "5X"\n', "'5X' is not known"),
    ],
)
def test_mistakes_in_a_file_are_named(text: str, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        read_workload(text, "mine")


def test_three_queries_of_joins_and_aggregates_are_two_aggregates_and_a_join() -> None:
    """Table 5 leaves open which kind has two; the common mix has 9 aggregates to 6 joins."""
    assert load_workload("5G").classes[0].kinds == {"join": 1, "aggregate": 2}
    assert apportion({"select": 1, "project": 1}, 3) == {"select": 2, "project": 1}


def test_less_input_scales_every_rate() -> None:
    less = load_workload("Adaptive").with_input(0.5)
    assert [c.rate_per_s for c in less.classes] == [600] * 5
    assert less.classes[0].rates[1] == (2.0, 800.0)
