"""Which columns of its leaves a plan reads, so that the others need not be handed over."""

from __future__ import annotations

from typing import Any

from daybreak.spark.catalyst import Plan, ids, kind, listed, positions
from daybreak.spark.prepared_plans.jvm import is_train

#: The positions of the columns that are read of each leaf, by its number; None: of all.
Reads = dict[int, set[int] | None]


def columns_read(plan: Plan) -> Reads:
    """Of an optimised plan, which has projections where not all columns are needed."""
    found: Reads = {}
    _visit(plan, None, found)
    return found


def _visit(plan: Plan, needed: set[int] | None, found: Reads) -> None:
    """``needed``: ids of the columns that the operators above read; None if that is not known."""
    name = kind(plan)
    if is_leaf(plan):
        known, place = found.get(plan.rdd().number(), set()), positions(listed(plan.output()))
        mine = None if needed is None else {place[one] for one in needed if one in place}
        found[plan.rdd().number()] = None if known is None or mine is None else known | mine
    elif name in ("Project", "Aggregate"):
        _visit(plan.child(), _references(plan), found)
    elif name == "Filter":
        _visit(plan.child(), None if needed is None else needed | _references(plan), found)
    else:
        for child in listed(plan.children()):
            _visit(child, None, found)


def is_leaf(plan: Plan) -> bool:
    """Whether it is the rows of a train."""
    return kind(plan) == "LogicalRDD" and is_train(plan.rdd())


def _references(plan: Any) -> set[int]:
    return set(ids(listed(plan.references().toSeq())))
