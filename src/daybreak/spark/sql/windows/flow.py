"""What is known of the rows that flow up a plan: their event times, and their windows.

Below ``window(...)`` each row stands alone; above it each row belongs to one window of one grid,
told by a column (the window, its start or its end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from daybreak.spark.log.event_time import Band, Grid
from daybreak.spark.sql.windows.expressions import Expression

Mark = Literal["window", "start", "end"]


@dataclass(frozen=True)
class Flow:
    """What is known of the rows that leave an operator."""

    #: The stream whose event time a column holds, by the column's id; "": that of several.
    times: Mapping[int, str] = field(default_factory=dict)
    #: Columns that tell a row's window.
    marks: Mapping[int, Mark] = field(default_factory=dict)
    over: Grid | Band | None = None
    #: Whether an operator below brings rows together, so that windows have to be closed first.
    gathers: bool = False
    #: Windows over columns that are not their stream's event time.
    strays: tuple[str, ...] = ()


class Misfit(Exception):
    """An operator that would bring rows of different windows together: what, and the remedy."""


class Unsupported(Misfit):
    """An operator that keeps to windows, but that nothing here can run."""


def mark_of(expression: Expression, marks: Mapping[int, Mark]) -> Mark | None:
    """What a column, or a field of one, tells of a row's window."""
    if expression.kind == "AttributeReference":
        return marks.get(expression.id)
    if expression.kind == "GetStructField":
        inner = expression.children[0]
        if inner.kind == "AttributeReference" and marks.get(inner.id) == "window":
            return "end" if expression.fields["ordinal"] == 1 else "start"
    return None
