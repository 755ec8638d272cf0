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


class SourceArrivals:
    """Picks from what queries read the rows that no other has read before.

    Rows have no identity here, so they are counted: the query that has read most of a source
    shows what is new in it. A query that comes to a source which others read is taken to be where
    they are once it has read what was there before it. One thread uses it.
    """

    def __init__(self) -> None:
        #: Rows seen, by source.
        self._rows: dict[str, int] = {}
        self._first: dict[str, _Reader] = {}
        #: How far each query has come, by its name and the source.
        self._position: dict[tuple[str, str], int] = {}

    def new_in(self, query: Governed, read: Iterable[Waiting]) -> Iterator[Waiting]:
        """The part of what a query has read that nobody had read before."""
        for item in read:
            seen = self._rows.setdefault(item.stream, 0)
            place = (query.name, item.stream)
            before = self._position.setdefault(place, seen)
            if self._was_there_before(query, item):
                continue
            self._position[place] = upto = before + item.tuples
            if upto > seen:
                self._rows[item.stream] = upto
                yield item._replace(tuples=min(item.tuples, upto - seen))

    def _was_there_before(self, query: Governed, item: Waiting) -> bool:
        """Whether it waited when the query started, in a source that another showed first."""
        reader = _Reader(query.name, query.since_ms)
        first = self._first.setdefault(item.stream, reader)
        if reader == first or (query.blind and reader.query == first.query):
            return False
        return is_asked(item) or item.arrival_ns <= query.since_ms * NS_PER_MS
