"""How the classes of a running system stand, as every snapshot shows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from daybreak.engine.view import Figures
from daybreak.runtime.classes import inversion_ratios
from daybreak.runtime.history import History
from daybreak.runtime.snapshot import ClassPoint, ClassRow, QueryRow

#: A class that has answered nothing.
NOTHING_YET = ClassPoint(0, None, None, None, None, None, 0.0, 0)


def class_rows(
    figures: Figures, history: History, queries: Sequence[QueryRow]
) -> tuple[ClassRow, ...]:
    """A row for each class of the network, in its order; ``queries``: those to be counted."""
    points = list(history.points)[-1:]
    recent = points[0].classes if points else (NOTHING_YET,) * len(figures.class_priority)
    means = np.array([np.nan if c.mean_s is None else c.mean_s for c in recent])
    inversion = [*inversion_ratios(figures.class_priority, means).tolist(), 0.0]
    starving, found = history.starving(), []
    for c, (cls, spread) in enumerate(zip(figures.network.classes, history.spreads(), strict=True)):
        members = [q for q in queries if q.cls == cls.name]
        found.append(
            ClassRow(
                name=cls.name,
                priority=figures.class_priority[c],
                queries=len(members),
                recent=recent[c],
                spread=spread,
                oldest_s=max((q.oldest_s for q in members), default=0.0),
                inversion=round(inversion[c], 4),
                starving=c in starving,
                answered=int(history.answered_total[c]),
                response_sum_s=round(float(history.response_total_s[c]), 3),
            )
        )
    return tuple(found)
