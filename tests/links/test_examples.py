"""The text's own examples, Figures 1 and 2, slot by slot."""

from itertools import product

import pytest

from daybreak.links.conveyor_belt import ConveyorBelt
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_simulator import run_link
from daybreak.links.link_tuples import LinkTuple, is_mandatory
from daybreak.links.registry import make_scheduler
from daybreak.model.qos import NS_PER_S

A = LinkClass(name="A", value=2, deadline_s=9, m=3, n=4, size_bytes=100, rate_per_s=1)
B = LinkClass(name="B", value=1, deadline_s=9, m=1, n=1, size_bytes=100, rate_per_s=1)
#: One tuple takes one second, so slots are seconds.
SLOT_BYTES_PER_S = 100


def figure_1() -> list[LinkTuple]:
    """Arrival and deadline, in slots, such that neighbours compete as the text tells it."""
    at = [("A", 0, 1), ("A", 1, 2), ("B", 1, 2), ("B", 2, 3), ("A", 3, 4), ("A", 4, 5), ("B", 4, 5)]
    made, numbers = [], {"A": 0, "B": 0}
    for name, arrived, deadline in at:
        cls, number = (A, B)[name == "B"], numbers[name]
        numbers[name] += 1
        made.append(
            LinkTuple(
                "AB".index(name),
                number,
                arrived * NS_PER_S,
                deadline * NS_PER_S,
                100,
                is_mandatory(number, cls),
            )
        )
    return made


@pytest.mark.parametrize("name", ["conveyor-belt", "due-window"])
def test_figure_1(name: str) -> None:
    """B1 loses to A2, but B3 beats A4: three of A's four tuples are through already."""
    log = run_link(figure_1(), make_scheduler(name, (A, B), SLOT_BYTES_PER_S), 10)
    assert [f"{'AB'[i.cls]}{i.number + 1}" for i in log.sent] == ["A1", "A2", "B2", "A3", "B3"]
    assert sorted(f"{'AB'[i.cls]}{i.number + 1}" for i, _ in log.dropped) == ["A4", "B1"]


def test_figure_1_needs_both_classes_and_minima() -> None:
    """Neither arrival order nor bare priority gives this schedule."""
    for name in ("fifo", "static-priority", "min-slack"):
        log = run_link(figure_1(), make_scheduler(name, (A, B), SLOT_BYTES_PER_S), 10)
        assert [f"{'AB'[i.cls]}{i.number + 1}" for i in log.sent] != ["A1", "A2", "B2", "A3", "B3"]


def belt_of(text: str) -> ConveyorBelt:
    """A belt that holds, say, ``A* - B A``; each tuple's deadline is the end of its slot."""
    belt = ConveyorBelt((A, B), SLOT_BYTES_PER_S)
    for slot, mark in enumerate(text.split()):
        if mark != "-":
            put(belt, mark, slot + 1)
    assert shown(belt) == text.rstrip(" -")
    return belt


def put(belt: ConveyorBelt, mark: str, slack: int) -> None:
    """Figure 2 counts a slack of k as: the end of slot k, from 1, is the last chance."""
    cls = "AB".index(mark[0])
    belt.arrive(LinkTuple(cls, 0, 0, slack * NS_PER_S, 100, not mark.endswith("*")), 0)


def shown(belt: ConveyorBelt) -> str:
    marks = ["-" if i is None else "AB"[i.cls] + "*" * (not i.mandatory) for i in belt.belt]
    return " ".join(marks).rstrip(" -")


def advanced(text: str) -> str:
    return " ".join([*text.split()[1:], "-"])


def test_figure_2_step_by_step() -> None:
    belt = belt_of("A* - B A")
    put(belt, "A", 3)
    assert shown(belt) == "A* A B A"
    put(belt, "B", 4)
    assert shown(belt) == "B A B A"
    sent = belt.pick(0)
    assert sent is not None
    assert sent.cls == 1
    belt.arrive(LinkTuple(0, 0, NS_PER_S, 4 * NS_PER_S, 100), NS_PER_S)
    assert shown(belt) == "A A A"
    assert [("AB"[i.cls], i.mandatory) for i, _ in belt.dropped] == [("A", False), ("B", True)]


def fits(start: str, *, advance: bool) -> bool:
    """Whether the three steps end in the slots the text names: 2, 1 and 2."""
    belt = belt_of(start)
    before = shown(belt).split()
    put(belt, "A", 3)
    first = shown(belt).split()
    if len(first) != 4 or start.split()[1] != "-" or first[1] != "A" or first == before:
        return False
    put(belt, "B", 4)
    second = shown(belt).split()
    if first[0] != "A*" or second != ["B", *first[1:]]:
        return False
    third_start = advanced(" ".join(second)) if advance else " ".join(second)
    belt = belt_of(third_start)
    put(belt, "A", 3)
    third = (shown(belt).split() + ["-"] * 4)[:4]
    expected = third_start.split()
    return expected[1].startswith("B") and third == [expected[0], "A", *expected[2:]]


def test_figure_2_has_one_start_and_needs_the_belt_to_advance() -> None:
    starts = [" ".join(s) for s in product(["A", "A*", "B", "B*", "-"], repeat=4)]
    assert [s for s in starts if fits(s, advance=True)] == ["A* - B A"]
    assert [s for s in starts if fits(s, advance=False)] == []
