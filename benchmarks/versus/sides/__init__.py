"""The sides: each a context manager over a task that runs it while the block lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.versus.sides import each, fanout, hand, numpy_hand, ours, rotation
from benchmarks.versus.workload import Task

#: Yields a function that raises if the side has died and gives what it can tell of itself.
Running = Callable[[Task], AbstractContextManager[Callable[[], dict[str, Any]]]]


@dataclass(frozen=True)
class Side:
    """One way to run the queries, and its settings in words for the results page."""

    run: Running
    settings: str


SIDES: dict[str, Side] = {
    "daybreak": Side(ours.running(), ours.settings()),
    "direct": Side(ours.running("direct"), ours.settings("direct")),
    "direct-express": Side(ours.running("direct", express=1), ours.settings("direct", express=1)),
    "today": Side(ours.running("spark"), ours.settings("spark")),
    **{
        f"each-{mode}{'-tuned' if tuned else ''}": Side(
            each.running(mode, tuned=tuned), each.settings(mode, tuned=tuned)
        )
        for mode in each.MODES
        for tuned in (False, True)
    },
    "rotation": Side(rotation.running, rotation.SETTINGS),
    "fanout-spark": Side(fanout.running(arrow=False), fanout.settings(arrow=False)),
    "fanout-arrow": Side(fanout.running(arrow=True), fanout.settings(arrow=True)),
    "hand": Side(hand.running(sync=True), hand.settings(sync=True)),
    "hand-nosync": Side(hand.running(sync=False), hand.settings(sync=False)),
    "np": Side(numpy_hand.running(sync=True), numpy_hand.settings(sync=True)),
    "np-nosync": Side(numpy_hand.running(sync=False), numpy_hand.settings(sync=False)),
}
