"""Small changes to a query's text where Spark's own SQL falls short of windows.

Two of them. Spark knows ``window(...)`` in a SELECT list and in GROUP BY, not in a join's
condition: there it becomes arithmetic on microseconds, which ``flow`` recognises. And a stream
that is joined with itself by a band needs two sets of rows under one name: the side whose rows
are emitted gets a name of its own. Where to cut comes from Spark's parser, never from guessing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from daybreak.model.errors import ConfigError
from daybreak.spark.windows.times import duration_us

_TUMBLING = re.compile(r"window\s*\(\s*([\w.`]+)\s*,\s*'([^']*)'\s*\)", re.IGNORECASE)


def without_join_windows(text: str, parsed: Any) -> str | None:
    """The text with every ``window(t, 'length')`` of a join's condition spelt out.

    None if one of them is not that simple.
    """
    cuts: list[tuple[int, int, str]] = []
    for node in nodes(parsed):
        condition = node.condition() if node.nodeName() == "Join" else None
        if condition is None or condition.isEmpty():
            continue
        for call in _window_calls(condition.get()):
            first, last = place(call)
            match = _TUMBLING.fullmatch(text[first : last + 1])
            if match is None:
                return None
            try:
                length = duration_us(match[2], "", "window")
            except ConfigError:
                return None
            us = f"unix_micros({match[1]})"
            cuts.append((first, last, f"({us} - pmod({us}, {length}L))"))
    return _cut(text, cuts)


def with_anchors(text: str, parsed: Any, stream: str, view: str, *, on_right: bool) -> str | None:
    """The text with the stream under another name on one side of its one join; None if unclear."""
    joins = [node for node in nodes(parsed) if node.nodeName() == "Join"]
    if len(joins) != 1:
        return None
    side = joins[0].right() if on_right else joins[0].left()
    cuts = []
    for node, parent in _with_parents(side):
        if node.nodeName() == "UnresolvedRelation" and node.tableName().lower() == stream.lower():
            first, last = place(node)
            named = parent is not None and parent.nodeName() == "SubqueryAlias"
            alias = "" if named else f" AS {text[first : last + 1]}"
            cuts.append((first, last, f"`{view}`{alias}"))
    return _cut(text, cuts) if cuts else None


def _cut(text: str, cuts: list[tuple[int, int, str]]) -> str:
    for first, last, new in sorted(cuts, reverse=True):
        text = text[:first] + new + text[last + 1 :]
    return text


def place(node: Any) -> tuple[int, int]:
    return int(node.origin().startIndex().get()), int(node.origin().stopIndex().get())


def nodes(plan: Any) -> Iterator[Any]:
    for node, _ in _with_parents(plan):
        yield node


def _with_parents(plan: Any, parent: Any = None) -> Iterator[tuple[Any, Any]]:
    yield plan, parent
    children = plan.children()
    for i in range(children.size()):
        yield from _with_parents(children.apply(i), plan)


def _window_calls(expression: Any) -> Iterator[Any]:
    is_call = expression.getClass().getSimpleName() == "UnresolvedFunction"
    if is_call and expression.nameParts().last().lower() == "window":
        yield expression
        return
    children = expression.children()
    for i in range(children.size()):
        yield from _window_calls(children.apply(i))
