"""A tuple on its way over a link, and which tuples of a window may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from daybreak.links.link_classes import LinkClass

#: Which tuples of a window of n are the n - m optional ones.
Marks = Literal["last", "first", "spread"]
MARKS: tuple[str, ...] = get_args(Marks)


@dataclass(slots=True)
class LinkTuple:
    """One tuple. Never changed once made, so that runs can share the same arrivals."""

    #: Rank of its class; 0 is the most valuable one.
    cls: int
    #: Its position in the stream of its class, from 0; fixes its window.
    number: int
    #: When it reached this link.
    arrived_ns: int
    #: When its transfer over this link must have ended.
    deadline_ns: int
    size_bytes: int
    #: Whether the minimum of its window counts on it.
    mandatory: bool = True
    #: When it was made; differs from ``arrived_ns`` behind the first link of a chain.
    created_ns: int = 0
    payload: bytes = b""


def is_mandatory(number: int, cls: LinkClass, marks: Marks = "last") -> bool:
    """Static marking (section 3.4): n - m of every n tuples are optional."""
    place = number % cls.n
    if marks == "last":
        return place < cls.m
    if marks == "first":
        return place >= cls.n - cls.m
    # Spread: the mandatory ones lie as evenly as m of n can.
    return (place + 1) * cls.m // cls.n > place * cls.m // cls.n


def windows_met(delivered: Sequence[int], arrived: int, cls: LinkClass) -> tuple[int, int]:
    """How many complete windows got their m, and how many there were.

    ``delivered`` holds the numbers of the class's delivered tuples.
    """
    complete = arrived // cls.n
    counts = [0] * complete
    for number in delivered:
        window = number // cls.n
        if window < complete:
            counts[window] += 1
    return sum(count >= cls.m for count in counts), complete
