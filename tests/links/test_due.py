"""Due: the highest class behind its minimum, else the smallest slack."""

from daybreak.links.due import Due
from daybreak.links.due_window import DueWindow
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.model.qos import NS_PER_S

HIGH = LinkClass(name="high", value=2, deadline_s=9, m=1, n=2, size_bytes=100)
LOW = LinkClass(name="low", value=1, deadline_s=9, m=1, n=2, size_bytes=100)


def made(cls: int, number: int, deadline: int) -> LinkTuple:
    return LinkTuple(cls, number, 0, deadline * NS_PER_S, 100)


def test_the_highest_class_behind_goes_first_then_the_next_then_the_least_slack() -> None:
    due = Due((HIGH, LOW), 100, margin=0.0)
    for number in range(2):
        due.arrive(made(0, number, 8 + number), 0)
        due.arrive(made(1, number, 6 + number), 0)
    sent = [due.pick(now * NS_PER_S) for now in range(4)]
    # high is behind, then low; then nobody, and low's second has the nearer deadline.
    assert [(i.cls, i.number) for i in sent if i] == [(0, 0), (1, 0), (1, 1), (0, 1)]


def test_the_margin_keeps_a_class_ahead_of_its_minimum() -> None:
    due = Due((HIGH, LOW), 100, margin=0.2)
    for number in range(2):
        due.arrive(made(0, number, 8), 0)
        due.arrive(made(1, number, 6), 0)
    sent = [due.pick(now * NS_PER_S) for now in range(2)]
    assert [i.cls for i in sent if i] == [0, 0]


def test_behind_the_first_link_it_counts_what_was_made_not_what_came_through() -> None:
    due = Due((HIGH, LOW), 100, margin=0.0)
    due.arrive(made(1, 0, 6), 0)
    due.arrive(made(0, 7, 8), 0)  # seven before it never came
    due.arrive(made(0, 8, 9), 0)
    sent = [due.pick(now * NS_PER_S) for now in range(2)]
    assert [i.cls for i in sent if i] == [0, 0]


def test_a_window_that_has_its_minimum_is_no_longer_due() -> None:
    due = DueWindow((HIGH, LOW), 100)
    for number in range(2):
        due.arrive(made(0, number, 9), 0)
    due.arrive(made(1, 0, 9), 0)
    sent = [due.pick(now * NS_PER_S) for now in range(3)]
    assert [(i.cls, i.number) for i in sent if i] == [(0, 0), (1, 0), (0, 1)]


def test_a_window_that_cannot_get_its_minimum_is_no_longer_due() -> None:
    strict = LinkClass(name="high", value=2, deadline_s=9, m=2, n=2, size_bytes=100)
    due = DueWindow((strict, LOW), 100)
    due.arrive(made(0, 0, 1), 0)
    due.arrive(made(0, 1, 9), 0)
    due.arrive(made(1, 0, 8), 0)
    sent = [due.pick(NS_PER_S), due.pick(2 * NS_PER_S)]
    assert [(i.cls, i.number) for i in sent if i] == [(1, 0), (0, 1)]
