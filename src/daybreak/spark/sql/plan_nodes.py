"""Analysed plans, read from Spark's JSON: a tree of operators."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.spark.sql.catalyst import Plan, listed, nodes


@dataclass(frozen=True)
class Node:
    """One operator of an analysed plan, as Spark's ``toJSON`` describes it."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def expressions(self) -> set[str]:
        """Class names of the expressions in the node's own fields."""
        return {short_name(name) for name in _classes(list(self.fields.values()))}

    def aggregates(self) -> set[str]:
        """Class names of the aggregate functions among them."""
        found = _classes(list(self.fields.values()))
        known = {short_name(name) for name in found if ".expressions.aggregate." in name}
        # Functions written in Python, and a few of Spark's own, live in other packages.
        return known | {short_name(name) for name in _called(list(self.fields.values()))}


def tree_of(plan: Plan) -> Node:
    """The tree of a plan in the JVM."""
    fields = json.loads(plan.toJSON())
    missing = [at for at, one in enumerate(fields) if one.get("projections", ()) is None]
    if missing:
        # Spark writes lists as null unless they are of its class List: those of an Expand over
        # a Union are others. Its own expressions it writes.
        in_order = list(nodes(plan))
        for at in missing:
            rows = listed(in_order[at].projections())
            fields[at]["projections"] = [[json.loads(e.toJSON()) for e in listed(r)] for r in rows]
    return parse_plan(fields)


def parse_plan(described: Sequence[Mapping[str, Any]]) -> Node:
    """The tree of operators that are listed in pre-order."""
    rest = iter(described)

    def build() -> Node:
        fields = next(rest)
        children = tuple(build() for _ in range(fields["num-children"]))
        return Node(short_name(fields["class"]), fields, children)

    return build()


def _classes(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("class"), str):
            yield value["class"]
        for inner in value.values():
            yield from _classes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _classes(inner)


def _called(value: Any) -> Iterator[str]:
    """Classes of the functions of aggregate expressions: in pre-order they come next."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _called(inner)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _called(inner)
            name = inner.get("class") if isinstance(inner, dict) else None
            if isinstance(name, str) and short_name(name) == "AggregateExpression":
                following = value[at + 1] if at + 1 < len(value) else {}
                yield str(following.get("class", "unknown"))


def short_name(name: str) -> str:
    return name.rstrip("$").rsplit(".", 1)[-1]
