"""A ruler schedule beside CQC's as a table and as a picture (class-based-thesis, Figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daybreak.policies.parts.mbd.ruler import longest_waits, one_turn_each, ruler, slots_of
from daybreak.report.figures import COLOURS, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def letters(index: int) -> str:
    """A, B, ..., Z, AA, AB, ... as the text names classes."""
    name = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def schedule_text(priorities: Sequence[int]) -> str:
    """The schedule's minor cycles: ``AB|CD|AB|ACE|AB|CD|AB``; empty ones show as nothing."""
    between = "" if len(priorities) <= 26 else "."
    return "|".join(between.join(letters(c) for c in cycle) for cycle in ruler(priorities))


def schedule_table(priorities: Sequence[int]) -> list[Sequence[str]]:
    """Per class: slots, and the most slots of others it waits for under ABD and under CQC."""
    spread = longest_waits(slots_of(ruler(priorities)))
    turns = longest_waits(one_turn_each(priorities))
    rows: list[Sequence[str]] = [
        ("class", "priority", "share of slots", "longest wait (slots)", "under CQC")
    ]
    for c, priority in enumerate(priorities):
        share = priority / sum(priorities)
        rows.append((letters(c), str(priority), f"{share:.1%}", str(spread[c]), str(turns[c])))
    return rows


def schedule_json(priorities: Sequence[int]) -> dict[str, Any]:
    """The same for a script; classes are numbered from 0."""
    cycles = ruler(priorities)
    slots = slots_of(cycles)
    spread, turns = longest_waits(slots), longest_waits(one_turn_each(priorities))
    return {
        "priorities": list(priorities),
        "schedule": schedule_text(priorities),
        "cycles": [list(cycle) for cycle in cycles],
        "slots": list(slots),
        "longest_wait_slots": [spread[c] for c in range(len(priorities))],
        "longest_wait_slots_cqc": [turns[c] for c in range(len(priorities))],
    }


def plot_schedule(priorities: Sequence[int], path: Path) -> Path:
    """Both schedules slot by slot, one row per class where that is easier to read."""
    rounds = {
        "ABD, MBD: the ruler": slots_of(ruler(priorities)),
        "CQC: one turn each": one_turn_each(priorities),
    }

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(rounds), 1, sharex=True)
        for axes, (title, slots) in zip(grid, rounds.items(), strict=True):
            _draw_round(axes, slots, len(priorities))
            axes.set_title(title, loc="left")
        grid[-1].set_xlabel("slot")

    height = 1.6 + 2 * 0.25 * max(3, len(priorities))
    return save_figure(draw, path, size=(9.0, height))


def _draw_round(axes: Axes, slots: Sequence[int], classes: int) -> None:
    for c in range(classes):
        spans = [(at, 1) for at, served in enumerate(slots) if served == c]
        colour = COLOURS[c % len(COLOURS)]
        axes.broken_barh(spans, (c - 0.4, 0.8), facecolors=colour, edgecolor="white", lw=0.5)
    axes.set_yticks(range(classes), [letters(c) for c in range(classes)])
    axes.set_ylim(classes - 0.5, -0.5)
    axes.set_xlim(0, len(slots))
    axes.grid(False)
