"""Small changes to a parsed query where Spark's own SQL falls short of windows.

Two of them. Spark knows ``window(...)`` in a SELECT list and in GROUP BY, not in a join's
condition: there it becomes arithmetic on microseconds, which ``flow`` recognises. And a stream
that is joined with itself by a band needs two sets of rows under one name: the side whose rows
are emitted gets a name of its own. Both replace nodes of the parser's tree; the text stays as the
user wrote it.
"""

from __future__ import annotations

from typing import Any

from daybreak.model.errors import ConfigError
from daybreak.spark.catalyst import Catalyst, Expr, Plan, kind, listed, nodes, replaced
from daybreak.spark.windows.times import duration_us


class _NotSimple(Exception):
    """A window in a join's condition with more than a column and a length."""


def without_join_windows(catalyst: Catalyst, parsed: Plan, parser: Any) -> Plan | None:
    """The query with every ``window(t, 'length')`` of a join's condition spelt out.

    None if one of them is not that simple.
    """

    def spelt_out(call: Expr) -> Expr | None:
        if kind(call) != "UnresolvedFunction" or call.nameParts().last().lower() != "window":
            return None
        time, length_us = _tumbling(call)
        template = parser.parseExpression(f"unix_micros(t) - pmod(unix_micros(t), {length_us}L)")
        return replaced(
            template, lambda e: time if kind(e) == "UnresolvedAttribute" else None, catalyst.seq
        )

    def rewritten(plan: Plan) -> Plan:
        children = listed(plan.children())
        changed = [rewritten(child) for child in children]
        if any(a is not b for a, b in zip(children, changed, strict=True)):
            plan = plan.withNewChildren(catalyst.seq(changed))
        if plan.nodeName() != "Join" or plan.condition().isEmpty():
            return plan
        condition = plan.condition().get()
        new = replaced(condition, spelt_out, catalyst.seq)
        if new is condition:
            return plan
        return catalyst.copied(plan, plan.left(), plan.right(), plan.joinType(), catalyst.some(new))

    try:
        return rewritten(parsed)
    except _NotSimple:
        return None


def _tumbling(call: Expr) -> tuple[Expr, int]:
    """The column and the length of ``window(column, 'length')``."""
    arguments = listed(call.arguments())
    if len(arguments) != 2 or kind(arguments[0]) != "UnresolvedAttribute":
        raise _NotSimple
    time, length = arguments
    if kind(length) != "Literal":
        raise _NotSimple
    try:
        return time, duration_us(str(length.value()), "", "window")
    except ConfigError:
        raise _NotSimple from None


def with_anchors(
    catalyst: Catalyst, parsed: Plan, stream: str, view: str, *, on_right: bool
) -> Plan | None:
    """The query with the stream under another name on one side of its one join; None if unclear."""
    joins = [node for node in nodes(parsed) if node.nodeName() == "Join"]
    if len(joins) != 1:
        return None
    side = joins[0].right() if on_right else joins[0].left()

    def anchored(plan: Plan) -> Plan | None:
        if plan.nodeName() != "UnresolvedRelation" or plan.tableName().lower() != stream.lower():
            return None
        other = catalyst.copied(plan, catalyst.seq([view]))
        return catalyst.named(other, plan.multipartIdentifier().last())

    new = replaced(side, anchored, catalyst.seq)
    if new is side:
        return None

    def joined(plan: Plan) -> Plan | None:
        if plan.nodeName() != "Join":
            return None
        sides = (plan.left(), new) if on_right else (new, plan.right())
        return catalyst.copied(plan, *sides)

    return replaced(parsed, joined, catalyst.seq)
