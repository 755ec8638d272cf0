"""What waits for governed queries, in tuples, from the units that their sources count in.

Spark owns the offsets, so a query's inbox holds estimates: files or offsets that the probe has
seen, times the rows that one of them held lately. What a micro-batch read in fact is known when it
has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from daybreak.engine.inbox import Inbox, Waiting
from daybreak.spark.gates.bridge import SourceRead, UnitGroup

#: How much one micro-batch counts among earlier ones.
_LATEST = 0.3
NS_PER_MS = 1_000_000
#: The segment of a tuple that stands for a question, whether there is something to do.
_ASKED = -1


class WholeBacklog(Inbox):
    """What waits is an estimate: a job takes all of it, and brings back what was not read."""

    def take(self, limit: int | None, *, cuts: bool = False) -> list[Waiting]:
        """All of it; the limit goes along with the grant."""
        self.allowed = limit if limit is not None and limit < self.tuples else None
        return super().take(None, cuts=cuts)


class UnitRows:
    """How many rows a unit of each source holds, by the micro-batches that have read some."""

    def __init__(self) -> None:
        self._rows: dict[str, float] = {}

    def learn(self, read: Iterable[SourceRead]) -> None:
        for source in read:
            if source.units:
                seen = source.rows / source.units
                before = self._rows.get(source.name, seen)
                self._rows[source.name] = before + (seen - before) * _LATEST

    def units(self, source: str, tuples: int) -> int:
        """How many units hold so many tuples; at least one, or nothing would be read."""
        return max(1, int(tuples / max(self._rows.get(source, 1.0), 1e-9)))

    def tuples(self, source: str, units: int) -> int:
        """What so many units are expected to hold; a query that has any is never without."""
        return max(1, round(units * self._rows.get(source, 1.0)))

    def as_json(self) -> dict[str, float]:
        """Rows per unit, by source."""
        return {source: round(rows, 3) for source, rows in self._rows.items()}


def asked(source: str, now_ns: int) -> Waiting:
    """Asks for a micro-batch although nothing is known to wait: a tuple that may be none."""
    return Waiting(now_ns, source, 1, _ASKED)


def is_asked(item: Waiting) -> bool:
    return item.seq == _ASKED


def as_waiting(group: UnitGroup, names: Sequence[str], rows: UnitRows, since_ms: int) -> Waiting:
    """Units as the engine takes them; for a query, nothing arrived before it started."""
    name = names[group.source]
    arrival_ns = max(group.arrival_ms, since_ms) * NS_PER_MS
    return Waiting(arrival_ns, name, rows.tuples(name, group.units), 0)


def what_was_read(
    taken: Sequence[Waiting], left: Sequence[Waiting], rows: int
) -> tuple[Waiting, ...]:
    """The rows of a micro-batch by arrival, in the proportions of what it was given and took."""
    if not rows:
        return ()
    still: Counter[tuple[str, int]] = Counter()
    for item in left:
        still[item.stream, item.arrival_ns] += item.tuples
    shares = []
    for item in taken:
        rest = min(item.tuples, still[item.stream, item.arrival_ns])
        still[item.stream, item.arrival_ns] -= rest
        shares.append(item.tuples - rest)
    if not any(shares):  # it found what no probe had seen
        shares = [1, *[0] * (len(taken) - 1)]
    total = sum(shares)
    bounds = [rows * upto // total for upto in accumulate(shares, initial=0)]
    each = [after - before for before, after in pairwise(bounds)]
    return tuple(item._replace(tuples=n) for item, n in zip(taken, each, strict=True) if n)
