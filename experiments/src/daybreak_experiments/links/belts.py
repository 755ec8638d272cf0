"""Figures 1 and 2: two small schedules, slot by slot."""

from __future__ import annotations

from itertools import product

from daybreak.links.conveyor_belt import ConveyorBelt
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_simulator import run_link
from daybreak.links.link_tuples import LinkTuple, is_mandatory
from daybreak.links.registry import SCHEDULERS, make_scheduler
from daybreak.model.qos import NS_PER_S
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed

A = LinkClass(name="A", value=2, deadline_s=9, m=3, n=4, size_bytes=100, rate_per_s=1)
B = LinkClass(name="B", value=1, deadline_s=9, m=1, n=1, size_bytes=100, rate_per_s=1)
#: A tuple takes one second: slots are seconds.
BANDWIDTH = 100.0
#: Class, arrival and deadline in slots, such that neighbours compete as the text tells it.
FIGURE_1 = (
    ("A", 0, 1), ("A", 1, 2), ("B", 1, 2), ("B", 2, 3), ("A", 3, 4), ("A", 4, 5), ("B", 4, 5),
)  # fmt: skip
WANTED = "A1 A2 B2 A3 B3"


def _figure_1(name: str) -> str:
    made, numbers = [], {"A": 0, "B": 0}
    for letter, arrived, deadline in FIGURE_1:
        number = numbers[letter]
        numbers[letter] += 1
        mandatory = is_mandatory(number, A if letter == "A" else B)
        cls = "AB".index(letter)
        times = (arrived * NS_PER_S, deadline * NS_PER_S)
        made.append(LinkTuple(cls, number, *times, 100, mandatory))
    log = run_link(made, make_scheduler(name, (A, B), BANDWIDTH), 10)
    return " ".join(f"{'AB'[i.cls]}{i.number + 1}" for i in log.sent)


def fig1(ctx: Context) -> Outcome:
    del ctx
    rows = [["scheduler", "schedule"], *([name, _figure_1(name)] for name in SCHEDULERS)]
    found = {row[0]: row[1] for row in rows[1:]}
    claims = [
        Claim(
            f"{name} builds the schedule of Figure 1", "robust", WANTED, found[name], as_claimed(ok)
        )
        for name in ("conveyor-belt", "due-window")
        for ok in [found[name] == WANTED]
    ]
    note = (
        "The drawing is lost; arrivals and deadlines are the simplest that make the neighbours "
        "compete as the text tells. `due` sends A4 because it counts over the whole run with a "
        "margin, not per window."
    )
    return Outcome(claims, rows, notes=[note])


def _belt(text: str) -> ConveyorBelt:
    belt = ConveyorBelt((A, B), BANDWIDTH)
    for slot, mark in enumerate(text.split()):
        if mark != "-":
            _put(belt, mark, slot + 1)
    return belt


def _put(belt: ConveyorBelt, mark: str, slack: int) -> None:
    """A slack of k in Figure 2 means: the end of slot k, counted from 1, is the last chance."""
    optional = mark.endswith("*")
    belt.arrive(LinkTuple("AB".index(mark[0]), 0, 0, slack * NS_PER_S, 100, not optional), 0)


def _shown(belt: ConveyorBelt) -> str:
    marks = ["-" if i is None else "AB"[i.cls] + "*" * (not i.mandatory) for i in belt.belt]
    return " ".join([*marks, "-", "-", "-", "-"][:4])


def _steps(start: str, *, advance: bool) -> list[str]:
    """The belt after each of the figure's three arrivals."""
    belt = _belt(start)
    _put(belt, "A", 3)
    steps = [_shown(belt)]
    _put(belt, "B", 4)
    steps.append(_shown(belt))
    if advance:
        belt = _belt(" ".join([*steps[-1].split()[1:], "-"]))
    before = _shown(belt).split()
    _put(belt, "A", 3)
    return [*steps, " ".join(before), _shown(belt)]


def _fits(start: str, *, advance: bool) -> bool:
    """Whether the arrivals land where the text says: an empty slot 2, A* in 1, B in 2."""
    slots = start.split()
    first, second, before, third = (s.split() for s in _steps(start, advance=advance))
    return (
        slots[1] == "-"
        and first == [slots[0], "A", *slots[2:]]
        and slots[0] == "A*"
        and "-" not in first
        and second == ["B", *first[1:]]
        and before[1].startswith("B")
        and third == [before[0], "A", *before[2:]]
    )


def fig2(ctx: Context) -> Outcome:
    del ctx
    starts = [" ".join(s) for s in product(["A", "A*", "B", "B*", "-"], repeat=4)]
    fitting = {
        advance: [s for s in starts if _fits(s, advance=advance)] for advance in (True, False)
    }
    start = "A* - B A"
    steps = _steps(start, advance=True)
    rows = [
        ["step", "belt"],
        ["start", start],
        ["A arrives with slack 3: the empty slot 2", steps[0]],
        ["B arrives with slack 4: the optional A* in slot 1 yields", steps[1]],
        ["the belt advances one slot", steps[2]],
        ["A arrives with slack 3: the lower B in slot 2 yields", steps[3]],
    ]
    claims = [
        Claim(
            "the three insertions end in the slots the text names",
            "robust",
            "slots 2, 1, 2",
            f"only from {', '.join(fitting[True])!r}, of {len(starts)} possible starts",
            as_claimed(fitting[True] == [start]),
        ),
        Claim(
            "without the belt advancing no start fits",
            "robust",
            "not said",
            f"{len(fitting[False])} starts fit",
            as_claimed(not fitting[False]),
        ),
    ]
    return Outcome(claims, rows)


EXPERIMENTS = (
    Experiment("links/fig1", "A schedule under classes, deadlines and minima", fig1, seeds=1),
    Experiment("links/fig2", "Insertions into the conveyor belt", fig2, seeds=1),
)
