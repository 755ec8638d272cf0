"""Joins of two streams: over windows that both sides share, or by a band between their times.

Either way rows of two windows never meet, so each window can be computed when it closes. With a
band, each row of one side has a window of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from daybreak.spark.log.event_time import Band, Grid
from daybreak.spark.sql.plan_nodes import Node
from daybreak.spark.sql.windows.expressions import (
    Expression,
    bare,
    conjuncts,
    differences,
    window_start,
)
from daybreak.spark.sql.windows.flow import Flow, Unsupported, mark_of

#: A join of streams whose one side hardly changes needs no state.
STATIC_SIDE = "declare a side that is small and changes rarely as a static table, [tables.NAME]"
JOIN_REMEDY = (
    "join over windows, FROM (SELECT *, window(at, '10 seconds') AS w FROM a) x JOIN (SELECT *, "
    "window(at, '10 seconds') AS w FROM b) y ON x.w = y.w AND ..., or by a band of event times, "
    "a JOIN b ON ... AND b.at BETWEEN a.at - INTERVAL 5 SECONDS AND a.at + INTERVAL 5 SECONDS"
)


def join_type(node: Node) -> str:
    found = node.fields["joinType"]
    name = found.get("object") or found.get("product-class") or "unknown"
    return str(name).rstrip("$").rsplit(".", 1)[-1]


def joined(one: Flow, other: Flow, kind: str, conditions: Sequence[Expression]) -> Flow | None:
    """The flow out of a join of two streams; None if it would bring different windows together."""
    parts = [part for condition in conditions for part in conjuncts(condition)]
    if isinstance(one.over, Grid) and one.over == other.over:
        shared = any(_joins_windows(part, one, other) for part in parts)
        return _window_join(one, other, kind) if shared else None
    if one.over is not None or other.over is not None:
        return None
    for part in parts:
        grid = _common_window(part, one, other)
        if grid is not None:
            return _window_join(replace(one, over=grid), replace(other, over=grid), kind)
    band = _band(one, other, conditions, kind)
    if band is not None:
        return Flow({}, {}, band, gathers=True)
    if kind == "FullOuter" and _band(one, other, conditions, "Inner") is not None:
        raise Unsupported(
            "has a FULL OUTER JOIN by a band of times, which is not supported",
            "join over windows, x.w = y.w, or make it two queries: a LEFT JOIN, and an "
            "ANTI JOIN from the other side",
        )
    return None


def _joins_windows(part: Expression, one: Flow, other: Flow) -> bool:
    if part.kind not in ("EqualTo", "EqualNullSafe"):
        return False
    left, right = (bare(child) for child in part.children)
    for a, b in ((left, right), (right, left)):
        mark = mark_of(a, one.marks)
        if mark is not None and mark == mark_of(b, other.marks):
            return True
    return False


def _window_join(one: Flow, other: Flow, kind: str) -> Flow:
    """Marks of a side survive where its rows are never filled up with nulls."""
    kept = [] if kind in ("RightOuter", "FullOuter") else [one]
    kept += [other] if kind in ("Inner", "Cross", "RightOuter") else []
    times = {column: stream for side in kept for column, stream in side.times.items()}
    marks = {column: mark for side in kept for column, mark in side.marks.items()}
    return Flow(times, marks, one.over, gathers=True)


def _common_window(part: Expression, one: Flow, other: Flow) -> Grid | None:
    """The window that a condition says both sides share."""
    if part.kind != "EqualTo":
        return None
    left, right = (window_start(bare(child)) for child in part.children)
    if left is None or right is None or left[1] != right[1]:
        return None
    for a, b in ((left, right), (right, left)):
        if a[0] in one.times and b[0] in other.times:
            return Grid(a[1], a[1])
    return None


def _band(one: Flow, other: Flow, conditions: Sequence[Expression], kind: str) -> Band | None:
    """The band between two event times that the conditions state, if they state both ends."""
    if one.gathers or other.gathers or kind == "FullOuter":
        return None
    low = high = None
    anchor_times, partner_times = one.times, other.times
    if kind == "RightOuter":
        anchor_times, partner_times = partner_times, anchor_times
    streams: set[tuple[str, str]] = set()
    for condition in conditions:
        for small, large, us in differences(condition):
            if small in partner_times and large in anchor_times:  # partner <= anchor + us
                high = us if high is None else min(high, us)
                streams.add((anchor_times[large], partner_times[small]))
            elif small in anchor_times and large in partner_times:  # anchor <= partner + us
                low = -us if low is None else max(low, -us)
                streams.add((anchor_times[small], partner_times[large]))
    anchor, partner = streams.pop() if len(streams) == 1 else ("", "")
    if low is None or high is None or not anchor or not partner:
        return None
    return Band(anchor, partner, low, max(low, high), on_right=kind == "RightOuter")
