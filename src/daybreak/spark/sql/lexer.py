"""A look at a query's tokens, with Spark's own lexer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pyspark.sql import SparkSession

_PARSER = "org.apache.spark.sql.catalyst.parser"
_TYPES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_MOVING = ("now", "today", "tomorrow", "yesterday")


def moving_literal(session: SparkSession, text: str) -> str | None:
    """A typed literal such as DATE 'today', which the parser makes a constant of; None: no such.

    The parsed plan does not show where a constant came from, so the tokens are looked at.
    """
    if "\\" not in text and not any(word in text.lower() for word in _MOVING):
        return None
    for kind, literal in pairwise(token.getText() for token in _tokens(session, text)):
        value = literal.lstrip("rR").strip("'\"").strip()
        if kind.upper() not in _TYPES or literal[-1:] not in "'\"":
            continue
        # Spark allows a time zone behind the word. An escaped letter may be part of one.
        if value.lower().startswith(_MOVING) or "\\" in value:
            return f"'{value}'"
    return None


def without_semicolons(session: SparkSession, text: str) -> str:
    """The text up to the semicolons that end it, if any; comments may follow them."""
    tokens = _tokens(session, text) if ";" in text else []
    ends = [token for token in tokens if token.getText() == ";"]
    if not ends or tokens[-1].getText() != ";":
        return text.rstrip()
    last = max((t.getStopIndex() for t in tokens if t.getText() != ";"), default=-1)
    return text[: last + 1]


def _tokens(session: SparkSession, text: str) -> list[Any]:
    """All tokens but blanks and comments."""
    jvm: Any = session.sparkContext._jvm
    stream = getattr(jvm, "org.antlr.v4.runtime.CharStreams").fromString(text)
    upper = getattr(jvm, f"{_PARSER}.UpperCaseCharStream")(stream)
    found = getattr(jvm, f"{_PARSER}.SqlBaseLexer")(upper).getAllTokens()
    return [token for token in found if token.getChannel() == 0]
