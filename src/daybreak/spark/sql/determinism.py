"""Whether the same row gives the same value, whenever and wherever it is computed.

Spark knows that of most expressions (``deterministic``). Three kinds it folds to a constant when a
job is planned, so it calls them deterministic, but another job gets another constant: the clock and
the session (``CURRENT_LIKE`` in Spark's words), texts such as 'now' that are cast to a time, and
``aes_encrypt`` with its random vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Catalyst, Plan, kind, listed
from daybreak.spark.sql.plan_nodes import Node

#: Where Spark's rules are.
OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_SAME_ROW = "the same row would give another result in another job"


class Determinism:
    """Refuses plans with expressions whose value is not a function of the row."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._replace_expressions = catalyst.scala_object(f"{OPTIMIZER}.ReplaceExpressions")
        self._special_values = catalyst.scala_object(f"{OPTIMIZER}.SpecialDatetimeValues")
        self._current_like = catalyst.pattern("CURRENT_LIKE")

    def check(self, plans: Sequence[Plan], trees: Sequence[Node]) -> None:
        """``Refused`` if one of these plans, outermost first, may not run; ``trees``: the same."""
        for plan in reversed(plans):  # innermost first: it names the culprit
            if not plan.deterministic():
                name = _first(plan, lambda e: not e.deterministic()) or "an expression"
                raise moving(name)
            if plan.containsPattern(self._current_like):
                name = _first(plan, lambda e: e.containsPattern(self._current_like)) or "the clock"
                raise moving(name)
            replaced = self._replace_expressions.apply(plan)
            if not replaced.fastEquals(self._special_values.apply(replaced)):
                raise moving("a text such as 'now' or 'today' cast to a time")
        if any("AesEncrypt" in node.expressions() for tree in trees for node in tree.walk()):
            raise moving("aes_encrypt()")


def moving(name: str) -> Refused:
    """The refusal of something whose value changes without the row."""
    return Refused(
        f"uses {name}, and {_SAME_ROW}",
        "use columns of the row, such as its event time or a key of its own",
    )


def _first(plan: Any, matches: Callable[[Any], bool]) -> str | None:
    """The name of an innermost expression that matches, in this plan or below."""
    for expression in listed(plan.expressions()):
        if matches(expression):
            return _innermost(expression, matches)
    for child in listed(plan.children()):
        found = _first(child, matches)
        if found:
            return found
    return None


def _innermost(expression: Any, matches: Callable[[Any], bool]) -> str:
    for child in listed(expression.children()):
        if matches(child):
            return _innermost(child, matches)
    name = expression.name() if kind(expression) == "PythonUDF" else expression.prettyName()
    return f"{name}()"
