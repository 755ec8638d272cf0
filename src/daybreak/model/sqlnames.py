"""Names in a SQL text, for what is known of a query before Spark reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: As Spark's lexer has them. Block comments nest, so no pattern can end them.
_TOKEN = re.compile(
    r"""
    (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<remark> --(?:\\\n|[^\r\n])* )
    | (?P<comment> /\* )
    | `(?P<quoted> (?:[^`]|``)* )`
    | (?P<word> \w+ )
    | (?P<blank> \s+ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens_in(sql: str) -> Iterator[str]:
    """The tokens of a text as they are written, without blanks and comments."""
    for token in _tokens(sql):
        if not token["blank"]:
            yield token[0]


def names_in(sql: str) -> set[str]:
    """Names that stand at the beginning of a reference, in lower case.

    Keywords are among them, but nothing of texts and comments, and no fields or columns behind
    a dot.
    """
    found: set[str] = set()
    after_dot = False
    for token in _tokens(sql):
        if token["quoted"] is not None or token["word"]:
            if not after_dot:
                name = token["word"] or token["quoted"].replace("``", "`")
                found.add(name.lower())
            after_dot = False
        elif token["other"] or token["text"]:
            after_dot = token["other"] == "."
    return found


def _tokens(sql: str) -> Iterator[re.Match[str]]:
    """All tokens but comments."""
    at = 0
    while (token := _TOKEN.match(sql, at)) is not None:
        at = token.end()
        if token["comment"]:
            at = _comment_end(sql, at)
        elif not token["remark"]:
            yield token


def _comment_end(sql: str, at: int) -> int:
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)
