"""The slowest answers of a run, with the instant at which each stage of them ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from daybreak.policies.reasons import Cause

#: Series of a record.
WAITS_FILE, SHED_FILE = "waits.parquet", "shed.parquet"
#: A source is not late by more than this: its event times are then of other days, as those of a
#: recorded example are, and say nothing of when rows were created. Half of it would hide the batch
#: that came a day late; twice as much would call yesterday's recording late.
MOST_LATE_NS = 86_400 * 10**9
#: The stages of an answer, in their order, and what each is lost to if nothing else is known.
STAGES: tuple[tuple[str, Cause], ...] = (
    ("created", "source"), ("ingested", "ingest"), ("waited", "unexplained"),
    ("handed over", "handover"), ("computed", "run"), ("committed", "disk"),
    ("delivered", "delivery"),
)  # fmt: skip


class WaitPart(NamedTuple):
    """A part of a wait and what it was lost to."""

    cause: Cause
    ns: int
    #: In words: who or what, and how long that was expected to take.
    text: str
    #: The policy's own reason as JSON, where it gave one.
    reason: str = ""
    #: The neighbour whose job was in the way.
    by: str = ""


class SlowAnswer(NamedTuple):
    """One answer: the oldest tuple of a job's train, for one query. Instants since the start."""

    query: str
    tuples: int
    #: The segment it came in; -1 where a window was answered.
    stream: str
    segment: int
    segment_rows: int
    #: When the source says that the newest row of the segment was made; None: it does not say.
    created_ns: int | None
    arrival_ns: int
    #: When the segment was listed and the engine learned of it.
    ingested_ns: int
    #: When the policy chose it, and when its worker began.
    decided_ns: int
    begun_ns: int
    computed_ns: int
    committed_ns: int
    delivered_ns: int
    #: Queries in its job.
    together: int
    way: str
    #: Of the computation: what tasks took that ran for the first time on their worker.
    cold_ns: int
    #: Of the commit: what the log's disk took.
    disk_ns: int
    parts: str

    @property
    def response_ns(self) -> int:
        """From arrival to commit, as in every report."""
        return self.committed_ns - self.arrival_ns

    @property
    def whole_ns(self) -> int:
        """From creation, where the source states it, to delivery."""
        return self.delivered_ns - self._first_ns

    @property
    def _first_ns(self) -> int:
        return self.arrival_ns if self.created_ns is None else self.created_ns

    @property
    def wait(self) -> list[WaitPart]:
        """What the wait was lost to, as it was noted when it ended."""
        return [WaitPart(*part) for part in json.loads(self.parts)] if self.parts else []

    def stages_ms(self) -> dict[str, int]:
        """The length of every stage; those from arrival to commit add up to the response time.

        Instants are rounded, not lengths, so that nothing is lost on the way.
        """
        stamps = (
            self._first_ns, self.arrival_ns, self.ingested_ns, self.decided_ns, self.begun_ns,
            self.computed_ns, self.committed_ns, self.delivered_ns,
        )  # fmt: skip
        ms = [round((at - self.arrival_ns) / 1e6) for at in stamps]
        lengths = [until - since for since, until in pairwise(ms)]
        return dict(zip((name for name, _ in STAGES), lengths, strict=True))

    @property
    def response_ms(self) -> int:
        return round(self.response_ns / 1e6)

    def lost(self) -> dict[Cause, int]:
        """Time (ns) by what it was lost to; together it is the whole answer."""
        found: dict[Cause, int] = {}

        def add(cause: Cause, ns: int) -> None:
            if ns > 0:
                found[cause] = found.get(cause, 0) + ns

        parts = self.wait
        for part in parts:
            add(part.cause, part.ns)
        add("unexplained", self.decided_ns - self.ingested_ns - sum(part.ns for part in parts))
        add("source", self.arrival_ns - self._first_ns)
        add("ingest", self.ingested_ns - self.arrival_ns)
        add("handover", self.begun_ns - self.decided_ns)
        computed_ns = self.computed_ns - self.begun_ns
        cold_ns = min(self.cold_ns, computed_ns)
        add("compile", cold_ns)
        add("run", computed_ns - cold_ns)
        add("disk", self.committed_ns - self.computed_ns)
        add("delivery", self.delivered_ns - self.committed_ns)
        return found

    def causes(self) -> list[tuple[Cause, int]]:
        """What it lost time to, the largest first."""
        return sorted(self.lost().items(), key=lambda pair: -pair[1])


def in_order(stamps: Sequence[int], committed_ns: int) -> list[int]:
    """Stamps of several threads, each at or after the one before, none after the commit."""
    found: list[int] = []
    for at in stamps:
        found.append(min(max(at, found[-1] if found else at), committed_ns))
    return found


class ShedRows(NamedTuple):
    """Tuples of a query that were given up under overload."""

    query: str
    at_ns: int
    tuples: int


def as_table(rows: Iterable[SlowAnswer | ShedRows], kind: type[SlowAnswer | ShedRows]) -> Any:
    """An Arrow table with a column per field; names and words as dictionaries."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    texts = {"query", "stream", "way", "parts"}
    schema = pa.schema([(n, text if n in texts else pa.int64()) for n in kind._fields])
    columns = list(zip(*rows, strict=True)) or [()] * len(kind._fields)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
