"""The readings of the conveyor belt that the text leaves open."""

from daybreak.links.conveyor_belt import LONGEST_BELT, ConveyorBelt
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason
from daybreak.model.qos import NS_PER_S

HIGH = LinkClass(name="high", value=2, deadline_s=9, m=1, n=2, size_bytes=100)
LOW = LinkClass(name="low", value=1, deadline_s=9, m=1, n=2, size_bytes=100)


def made(cls: int, deadline: int, *, mandatory: bool = True, size: int = 100) -> LinkTuple:
    return LinkTuple(cls, 0, 0, deadline * NS_PER_S, size, mandatory)


def belt() -> ConveyorBelt:
    return ConveyorBelt((HIGH, LOW), 100)


def test_an_empty_head_is_jumped_so_that_the_link_never_idles() -> None:
    line = belt()
    line.arrive(made(0, 5), 0)
    assert [slot is not None for slot in line.belt] == [False] * 4 + [True]
    assert line.pick(0) is not None
    assert line.belt == ()


def test_slots_are_counted_from_when_the_link_frees() -> None:
    line = belt()
    line.arrive(made(0, 5), 3 * NS_PER_S)
    assert len(line.belt) == 2


def test_an_optional_tuple_evicts_nobody() -> None:
    line = belt()
    line.arrive(made(1, 1, mandatory=False), 0)
    line.arrive(made(0, 1, mandatory=False), 0)
    assert [(item.cls, why) for item, why in line.dropped] == [(0, DropReason.EVICTED)]


def test_an_optional_tuple_of_the_higher_class_yields_to_a_mandatory_one_of_the_lower() -> None:
    line = belt()
    line.arrive(made(0, 1, mandatory=False), 0)
    line.arrive(made(1, 1), 0)
    assert [(item.cls, why) for item, why in line.dropped] == [(0, DropReason.EVICTED)]


def test_a_lower_class_never_evicts_a_higher_one() -> None:
    line = belt()
    line.arrive(made(0, 1), 0)
    line.arrive(made(1, 1), 0)
    assert [(item.cls, why) for item, why in line.dropped] == [(1, DropReason.EVICTED)]


def test_a_wide_tuple_takes_neighbouring_slots_and_evicts_all_in_its_way() -> None:
    line = ConveyorBelt((HIGH, LOW), 100, slot_bytes=100)
    for deadline in (1, 2, 3):
        line.arrive(made(1, deadline), 0)
    line.arrive(made(0, 3, size=150), 0)
    assert [None if s is None else (s.cls, s.size_bytes) for s in line.belt] == [
        (1, 100), (0, 150), (0, 150),
    ]  # fmt: skip
    assert [(item.deadline_ns // NS_PER_S, why) for item, why in line.dropped] == [
        (3, DropReason.EVICTED),
        (2, DropReason.EVICTED),
    ]
    assert [line.pick(0), line.pick(NS_PER_S)] != [None, None]
    assert line.belt == ()


def test_what_lies_between_two_gaps_slides_to_make_room_for_a_wide_tuple() -> None:
    line = ConveyorBelt((HIGH, LOW), 100, slot_bytes=100)
    line.arrive(made(0, 2), 0)
    assert [s is not None for s in line.belt] == [False, True]
    line.arrive(made(0, 3, size=200), 0)
    assert [s.deadline_ns // NS_PER_S for s in line.belt if s] == [2, 3, 3]
    assert not line.dropped


def test_a_wide_tuple_that_stays_is_never_cut_in_two() -> None:
    line = ConveyorBelt((HIGH, LOW), 100, slot_bytes=100)
    line.arrive(made(0, 5, size=300), 0)
    line.arrive(made(0, 4, size=200), 0)  # slots 0 and 1 are free, 2 to 4 are taken
    assert [s.deadline_ns // NS_PER_S for s in line.belt if s] == [4, 4, 5, 5, 5]


def test_evicting_a_wide_tuple_frees_all_its_slots() -> None:
    line = ConveyorBelt((HIGH, LOW), 100, slot_bytes=100)
    line.arrive(made(1, 3, size=300), 0)
    line.arrive(made(0, 3), 0)
    assert [None if s is None else s.cls for s in line.belt] == [None, None, 0]


def test_dynamic_marks_make_up_for_a_dropped_tuple() -> None:
    """Static marks would call the second of the window optional; its first was lost."""
    line = ConveyorBelt((HIGH, LOW), 100, marks="dynamic")
    line.arrive(LinkTuple(0, 0, 0, 0, 100), 0)
    line.arrive(LinkTuple(0, 1, 0, 5 * NS_PER_S, 100), 0)
    line.arrive(LinkTuple(0, 2, 0, 5 * NS_PER_S, 100), 0)
    line.arrive(LinkTuple(0, 3, 0, 5 * NS_PER_S, 100), 0)
    marks = {s.number: s.mandatory for s in line.belt if s is not None}
    assert marks == {1: True, 2: True, 3: False}


def test_dynamic_marks_survive_a_change_of_bandwidth() -> None:
    line = ConveyorBelt((HIGH, LOW), 100, marks="dynamic")
    line.arrive(LinkTuple(0, 0, 0, 5 * NS_PER_S, 100), 0)
    for _ in range(3):
        line.retune(100, 0)
    line.give_back([item for item in [line.pick(0)] if item], 0)
    assert [s.mandatory for s in line.belt if s] == [True]
    line.arrive(LinkTuple(0, 1, 0, 5 * NS_PER_S, 100), 0)
    assert {s.number: s.mandatory for s in line.belt if s} == {0: True, 1: False}


def test_a_belt_stays_short_however_far_away_the_deadline_is() -> None:
    line = ConveyorBelt((HIGH, LOW), 1e9)
    line.arrive(made(0, 1_000_000), 0)
    assert len(line.belt) == LONGEST_BELT + 1
    assert line.pick(0) is not None
