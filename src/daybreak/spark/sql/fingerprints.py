"""Fingerprints of queries: whether a query still means what it meant at an earlier start."""

from __future__ import annotations

from hashlib import blake2b

from daybreak.model.specs import QuerySpec
from daybreak.model.sqlnames import tokens_in


def fingerprint(text: str) -> str:
    """Changes when the meaning of a query may have."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def query_fingerprint(spec: QuerySpec, *views: str) -> str:
    """Of a query in SQL that reads through the SQL of these views."""
    return sql_fingerprint(*([spec.mode] if spec.mode else []), spec.sql or "", *views)


def sql_fingerprint(*texts: str) -> str:
    """Changes when a query's tokens do: layout, comments and a last semicolon do not matter.

    Behind the colon, the fingerprint that earlier versions made, for logs that hold it.
    """
    tokens = "\0".join("\1".join(tokens_in(sql)).rstrip("\1;") for sql in texts)
    earlier = "\0".join(" ".join(sql.split()) for sql in texts)
    return f"{fingerprint(tokens)}:{fingerprint(earlier)}"
