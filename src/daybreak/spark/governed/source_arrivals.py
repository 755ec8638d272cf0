"""What arrived in the sources of governed queries: once, however many queries read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from daybreak.engine.inbox import Waiting
from daybreak.spark.governed.backlog import NS_PER_MS, is_asked
from daybreak.spark.governed.governed_queries import Governed


class _Reader(NamedTuple):
    """One run of a query."""

    query: str
    since_ms: int


class _Newest(NamedTuple):
    """The newest arrival in a source that was read, and who read it first."""

    at_ns: int
    query: str


class SourceArrivals:
    """Picks from what queries read the rows that no other has read before.

    Rows have no identity here, so they are told apart by their arrival: what arrived later than
    all that was read before is new, and counts as its first reader counts it. What waited when a
    query started counts for the first query of a source alone. One thread uses it.
    """

    def __init__(self) -> None:
        self._first: dict[str, _Reader] = {}
        self._newest: dict[str, _Newest] = {}

    def new_in(self, query: Governed, read: Iterable[Waiting]) -> Iterator[Waiting]:
        """What a query has read and nobody had read before."""
        reader = _Reader(query.name, query.since_ms)
        for item in read:
            first = self._first.setdefault(item.stream, reader)
            newest = self._newest.get(item.stream, _Newest(0, query.name))
            shows = reader == first or (query.blind and query.name == first.query)
            if is_asked(item) or item.arrival_ns <= query.since_ms * NS_PER_MS:
                is_new = shows
            else:
                is_new = item.arrival_ns > newest.at_ns or newest == (item.arrival_ns, query.name)
            if is_new:
                if item.arrival_ns > newest.at_ns:
                    self._newest[item.stream] = _Newest(item.arrival_ns, query.name)
                yield item
