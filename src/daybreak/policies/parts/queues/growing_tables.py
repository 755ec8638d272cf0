"""Tables by query, box or unit that grow when a query is added while a policy runs."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def put(table: list[T], index: int, value: T) -> None:
    """Sets an entry; the one just beyond the end is appended.

    A query that is registered again under the name of one that was dropped takes its index, any
    other the next one.
    """
    if index == len(table):
        table.append(value)
    else:
        table[index] = value
