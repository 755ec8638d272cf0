"""Notes the slowest answers while a run goes on, with what each of their waits was lost to.

What is done per job is a comparison or two for each of its queries. A wait is explained when it
ends, and only where it was among the longest of its query, or past the query's goal.
"""

from __future__ import annotations

import json
from bisect import insort
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import Account, AccountFailure, StartJob
from daybreak.model.network import Network
from daybreak.policies.reasons import Cause
from daybreak.runtime.why.answers import (
    MOST_LATE_NS,
    SHED_FILE,
    WAITS_FILE,
    ShedRows,
    SlowAnswer,
    as_table,
    in_order,
)
from daybreak.runtime.why.jobs_seen import NEVER, JobSeen, JobsSeen
from daybreak.runtime.why.wait_parts import Held, Waited, wait_parts

#: So many of the slowest answers of each query are kept between two parts of the record, which
#: comes every 10 s. With one, a query's second cause would be missed; each more adds 40 bytes a
#: query and part to the record.
WORST = 3
#: Answers in one part at most, late ones first: 1 000 queries at once stay below 1 MB.
MOST_ANSWERS = 1000
#: Waits that are explained in 0.1 s at most. One takes some 0.1 ms, so that all take 1 % of the
#: loop at most; with half as many, more waits of an overload stay unexplained.
MOST_EXPLAINED = 10
EXPLAINED_EVERY_NS = 100_000_000
#: Segments whose listing is remembered, over all streams: those of the last minutes.
MOST_SEGMENTS = 10_000
#: Pauses and failures that are remembered of a query.
MOST_HELD = 8


class SegmentListing(NamedTuple):
    """When a segment was listed, and what its source states of it."""

    at_ns: int
    rows: int
    #: None: the source does not state it.
    created_ns: int | None


class Stamped(Protocol):
    """A segment as far as it says when its rows were made."""

    @property
    def arrival_ns(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def rows(self) -> int: ...


class _Order(NamedTuple):
    """What was decided for a worker: when, and what the waits that ended then were lost to."""

    decided_ns: int
    #: By the first query of a group.
    parts: Mapping[int, str]


class WaitBook:
    """Kept by the thread of the loop; other threads read ``totals`` alone."""

    def __init__(
        self,
        engine: Engine,
        start_ns: int,
    ) -> None:
        self._engine = engine
        self._start_ns = start_ns
        self.jobs = JobsSeen()
        self._orders: dict[int, _Order] = {}
        self._listed: dict[tuple[str, int], SegmentListing] = {}
        self._held: dict[int, deque[Held]] = {}
        self._held_now: dict[int, tuple[str, int]] = {}
        self._ticked_ns = start_ns
        #: The slowest answers of each query since the last ``take``, the fastest of them first.
        self._worst: dict[int, list[tuple[int, int, SlowAnswer]]] = {}
        self._goals: dict[int, int | None] = {}
        self._shed: list[ShedRows] = []
        self._noted = 0
        self._explained = 0
        self._explained_until_ns = 0
        #: Seconds that late answers waited, by query and what they were lost to.
        self.totals: dict[tuple[str, Cause], float] = {}

    # Events

    def arrived(self, segment: Stamped, now_ns: int) -> None:
        """A segment is listed, and the engine learns of it now."""
        if len(self._listed) >= MOST_SEGMENTS:
            del self._listed[next(iter(self._listed))]
        created_ns = created_of(segment)
        self._listed[segment.stream, segment.arrival_ns] = SegmentListing(
            now_ns, segment.rows, created_ns
        )

    def tick(self, now_ns: int) -> None:
        """Notes which queries are held; several times a second."""
        for box, state in enumerate(self._engine.look().states):
            was, held = self._held_now.get(box), state != "running"
            if was is None and not held:
                continue
            if was is not None and was[0] != state:
                self._held.setdefault(box, deque(maxlen=MOST_HELD)).append(Held(*was, now_ns))
                del self._held_now[box]
            if held and box not in self._held_now:
                self._held_now[box] = (state, self._ticked_ns)
        self._ticked_ns = now_ns

    def started(self, job: StartJob, now_ns: int) -> None:
        """A worker was given an order: the waits of its queries have ended."""
        parts: dict[int, str] = {}
        view = self._engine.view
        for group in job.groups:
            box = group.boxes[0]
            waited_ns = now_ns - group.taken[0].arrival_ns if group.taken else 0
            if self._is_slow(box, waited_ns) and self._may_explain(now_ns):
                parts[box] = self._parts(box, group.taken[0], now_ns)
        if job.groups:
            first = job.groups[0]
            expected_ns = sum(view.cost_ns[b] for b in first.boxes) * first.tuples
            known = bool(view.calls[first.boxes[0]])
            self.jobs.began(
                JobSeen(
                    job.worker, first.boxes, first.tuples, now_ns, NEVER,
                    expected_ns if known else 0.0,
                )
            )  # fmt: skip
        self._orders[job.worker] = _Order(now_ns, parts)

    def ran(self, job: Account) -> None:
        """A job has committed: notes its answers that are slow enough."""
        ran = job.ran
        delivered_ns = max(ran.began_ns + ran.work_ns + ran.commit_ns, ran.committed_at_ns)
        order = self._orders.get(job.worker, _Order(ran.began_ns, {}))
        self._ended(job, order, delivered_ns)
        if not job.taken:
            return
        oldest = min(job.taken)  # by arrival
        for box, name in ((b, self._engine.view.facts[b].name) for b in job.boxes):
            response_ns = ran.committed_at_ns - oldest.arrival_ns
            late = self._is_late(box, response_ns)
            if late or self._is_slow(box, delivered_ns - oldest.arrival_ns):
                answer = self._answer(name, job, oldest, order, delivered_ns)
                self._note(box, answer, late=late)

    def failed(self, job: AccountFailure, now_ns: int) -> None:
        """A job failed, but held its worker."""
        begun_ns = now_ns - job.cost_ns
        self.jobs.ended(JobSeen(job.worker, job.boxes, job.tuples, begun_ns, now_ns, 0.0))

    def shed(self, tuples: Mapping[int, int], now_ns: int) -> None:
        """Tuples were given up under overload: nothing answers them."""
        for box, n in tuples.items():
            name = self._engine.view.facts[box].name
            if len(self._shed) < MOST_ANSWERS:
                self._shed.append(ShedRows(name, now_ns - self._start_ns, n))

    def now(self, box: int, now_ns: int) -> dict[str, Any]:
        """How a query stands at this moment, and what it waits for."""
        view, reason = self._engine.look(), self._engine.explain(box, now_ns)
        running = [
            {
                "query": view.facts[job.boxes[0]].name,
                "together": len(job.boxes),
                "worker": job.worker,
                "for_s": round((now_ns - job.begun_ns) / 1e9, 3),
                "expected_s": round(job.expected_ns / 1e9, 3) if job.expected_ns else None,
                "is_this": box in job.boxes,
            }
            for job in self.jobs.under_way.values()
        ]
        return {
            "state": view.states[box],
            "error": view.errors[box],
            "waiting": view.waiting[box],
            "oldest_s": round((now_ns - view.oldest_ns[box]) / 1e9, 3)
            if view.waiting[box]
            else None,
            "policy": view.policy.name,
            "reason": None if reason is None else reason.as_json(),
            "running": running,
        }

    def lost(self) -> dict[str, dict[str, float]]:
        """Seconds that late answers lost so far, by query and cause; any thread may ask."""
        found: dict[str, dict[str, float]] = {}
        for (query, cause), seconds in self.totals.copy().items():
            found.setdefault(query, {})[cause] = round(seconds, 3)
        return found

    # What is recorded

    def take(self) -> dict[str, Any]:
        """The slowest answers since the last call, as Arrow tables by series."""
        every = [(whole, answer) for worst in self._worst.values() for whole, _, answer in worst]
        every.sort(key=lambda pair: -pair[0])
        answers = [answer for _, answer in every[:MOST_ANSWERS]]
        tables = {
            WAITS_FILE: as_table(answers, SlowAnswer), SHED_FILE: as_table(self._shed, ShedRows),
        }  # fmt: skip
        self._worst.clear()
        self._shed.clear()
        return tables

    def _is_slow(self, box: int, ns: int) -> bool:
        """Tells whether an answer that takes so long is among those that are kept."""
        worst = self._worst.get(box)
        return worst is None or len(worst) < WORST or ns > worst[0][0]

    def _is_late(self, box: int, response_ns: int) -> bool:
        goal_ns = self._goals.get(box, -1)
        if goal_ns == -1:
            goal_ns = self._goals[box] = goal_ns_of(self._engine.view.network, box)
        return goal_ns is not None and response_ns > goal_ns

    def _may_explain(self, now_ns: int) -> bool:
        if now_ns >= self._explained_until_ns:
            self._explained, self._explained_until_ns = 0, now_ns + EXPLAINED_EVERY_NS
        self._explained += 1
        return self._explained <= MOST_EXPLAINED

    def _parts(self, box: int, item: Waiting, now_ns: int) -> str:
        listed = self._listed.get((item.stream, item.arrival_ns))
        since_ns = item.arrival_ns if listed is None else max(listed.at_ns, item.arrival_ns)
        held = list(self._held.get(box, ()))
        if box in self._held_now:
            held.append(Held(*self._held_now[box], now_ns))
        engine, view = self._engine, self._engine.view
        waited = Waited(
            box, since_ns, now_ns, held, engine.explain(box, now_ns), view.policy.name,
            view.threads, lambda b: view.facts[b].name,
        )  # fmt: skip
        return json.dumps(wait_parts(waited, self.jobs), ensure_ascii=False)

    def _ended(self, job: Account, order: _Order, delivered_ns: int) -> None:
        ran = job.ran
        begun = self.jobs.under_way.get(job.worker)
        expected_ns, begun_ns = 0.0, ran.began_ns
        if begun is not None:  # else another group of the order ran before
            expected_ns, begun_ns = begun.expected_ns, min(order.decided_ns, ran.began_ns)
        tuples = sum(item.tuples for item in job.taken)
        self.jobs.ended(
            JobSeen(
                job.worker, job.boxes, tuples, begun_ns, delivered_ns, expected_ns, ran.cold_ns,
                ran.commit_ns,
            )
        )  # fmt: skip

    def _answer(
        self, name: str, job: Account, item: Waiting, order: _Order, delivered_ns: int
    ) -> SlowAnswer:
        ran, start_ns = job.ran, self._start_ns
        listed = self._listed.get((item.stream, item.arrival_ns)) or SegmentListing(
            item.arrival_ns, item.tuples, None
        )
        stamps = [
            item.arrival_ns, listed.at_ns, order.decided_ns, ran.began_ns,
            ran.began_ns + ran.work_ns,
        ]  # fmt: skip
        arrival, ingested, decided, begun, computed = (
            at - start_ns for at in in_order(stamps, ran.committed_at_ns)
        )
        created_ns = None if listed.created_ns is None else listed.created_ns - start_ns
        return SlowAnswer(
            query=name, tuples=sum(w.tuples for w in job.taken), stream=item.stream,
            segment=item.seq, segment_rows=listed.rows,
            created_ns=created_ns, arrival_ns=arrival, ingested_ns=ingested,
            decided_ns=decided, begun_ns=begun, computed_ns=computed,
            committed_ns=ran.committed_at_ns - start_ns, delivered_ns=delivered_ns - start_ns,
            together=len(job.boxes), way=ran.way or "", cold_ns=ran.cold_ns, disk_ns=ran.disk_ns,
            parts=order.parts.get(job.boxes[0], ""),
        )  # fmt: skip

    def _note(self, box: int, answer: SlowAnswer, *, late: bool) -> None:
        goal_ns = self._goals.get(box)
        if late or goal_ns is None:
            for cause, ns in answer.lost().items():
                key = (answer.query, cause)
                self.totals[key] = self.totals.get(key, 0.0) + ns / 1e9
        worst = self._worst.setdefault(box, [])
        if len(worst) < WORST or answer.whole_ns > worst[0][0]:
            self._noted += 1
            insort(worst, (answer.whole_ns, self._noted, answer))
            del worst[:-WORST]


def goal_ns_of(network: Network, box: int) -> int | None:
    """The response time from which a query's answers are worth less; None if it has none."""
    graph = network.queries[box].qos
    return None if graph is None else graph.deadline_ns or None


def created_of(segment: Any) -> int | None:
    """When the newest row of a segment was made, as far as its source states it.

    A stream with event time states it. A source that reads by itself will state it by file or by
    record; the answer belongs here then.
    """
    high_us = getattr(segment, "high_us", None)
    if high_us is None:
        return None
    late_ns = segment.arrival_ns - high_us * 1000
    return high_us * 1000 if 0 <= late_ns <= MOST_LATE_NS else None
