"""Small changes to a parsed query where Spark's own SQL falls short of windows.

Two of them. Spark knows ``window(...)`` in a SELECT list and in GROUP BY, not in a join's
condition: there it becomes arithmetic on microseconds, which ``flow`` recognises. And a stream
that is joined with itself by a band needs two sets of rows under one name: the side whose rows
are emitted gets a name of its own. Both replace nodes of the parser's tree; the text stays as the
user wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from daybreak.model.errors import ConfigError
from daybreak.spark.log.event_time import duration_us
from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, kind, listed, nodes, replaced


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


def window_fault(parsed: Plan) -> tuple[str, str] | None:
    """What is wrong with the durations of a ``window(...)``, and the remedy.

    Spark raises an exception of its own for a month, and for the others it reports that
    ``window.end`` cannot be resolved. Look here when a query is refused.
    """
    for call in _window_calls(parsed):
        literals = [a for a in listed(call.arguments())[1:4] if kind(a) == "Literal"]
        fault = duration_fault([str(literal.value()) for literal in literals])
        if fault is not None:
            return fault
    return None


def duration_fault(texts: Sequence[str]) -> tuple[str, str] | None:
    """The same of length, slide and start time as they are written."""
    found: list[int] = []
    for name, text in zip(("length", "slide", "start time"), texts, strict=False):
        if re.search(r"\b(?:month|year)s?\b", text, re.IGNORECASE):
            remedy = "give weeks, days or less, such as '30 days'"
            return f"has window(...) with a {name} of {text!r}; months differ in length", remedy
        us = _signed_us(text)
        if us is None:
            return None  # Spark's own message names it
        found.append(us)
        if us <= 0 and name != "start time":
            return f"has window(...) with a {name} of {text!r}", f"give a {name} above 0"
    length, slide = [*found, *found[:1]][:2] if found else (0, 0)
    if slide > length:
        return (
            f"has window(...) that slides by {texts[1]!r}, more than its length {texts[0]!r}",
            "slide by at most the length: rows in the gaps would belong to no window",
        )
    if len(found) > 2 and abs(found[2]) >= slide:
        finding = f"has window(...) with a start time of {texts[2]!r}, a slide or more"
        return finding, "give a start time shorter than the slide"
    return None


def _signed_us(text: str) -> int | None:
    plain = text.strip().lower().removeprefix("interval").strip()
    sign = -1 if plain.startswith("-") else 1
    plain = plain.removeprefix("-").strip()
    if plain.isdecimal():  # a number of microseconds
        return sign * int(plain)
    try:
        return sign * duration_us(plain, "", "window")
    except ConfigError:
        return None


def _window_calls(parsed: Plan) -> Iterator[Expr]:
    def below(expression: Expr) -> Iterator[Expr]:
        is_call = kind(expression) == "UnresolvedFunction"
        if is_call and expression.nameParts().last().lower() == "window":
            yield expression
        for child in listed(expression.children()):
            yield from below(child)

    for node in nodes(parsed):
        for expression in listed(node.expressions()):
            yield from below(expression)


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
