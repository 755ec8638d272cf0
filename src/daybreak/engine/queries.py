"""The queries of an engine: what is known of each, how it stands, what waits, and who has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from daybreak.engine.costs import Kind
from daybreak.engine.inbox import Inbox
from daybreak.engine.state import JobState
from daybreak.model.errors import EngineBug
from daybreak.model.limits import Limits

State = Literal["running", "paused", "retrying", "parked", "dropped"]
#: A query answers each row by itself (so trains are cut anywhere), or closed windows as a whole.
Answers = Literal["rows", "windows"]


class QueryBug(EngineBug):
    """An invariant broke at one query."""

    def __init__(self, message: str, box: int) -> None:
        super().__init__(message)
        self.box = box


class Owner(Enum):
    """Who has a query. A policy may plan it only while it is idle."""

    IDLE = "idle"
    #: A plan of the policy's.
    PLANNED = "planned"
    #: Another query's job.
    RIDING = "riding"
    #: An express worker.
    EXPRESS = "express"
    #: Nobody may run it: paused, parked, waiting for a retry, dropped, or rows are given up.
    HELD = "held"


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What an engine has to know of a query."""

    name: str
    reads: tuple[str, ...]
    #: What its jobs are like: where the beliefs about their costs begin, and nothing else.
    kind: Kind = "filter"
    #: What it has in common with all that may run as one job with it; None: it runs alone.
    share_key: str | None = None
    answers: Answers = "rows"
    #: How far apart the windows close that it answers; 0: it answers rows.
    slide_ns: int = 0
    #: It never loses a tuple to overload: a window without some of its rows would be wrong.
    spared: bool = False
    #: What happens when the log is full; None: only the highest class blocks.
    on_full: Literal["skip", "block"] | None = None


@dataclass(slots=True)
class QueryStatus:
    """How a query stands: at work, paused, waiting to be tried again, parked or dropped."""

    state: State = "running"
    #: What it said when it last failed, while that still matters.
    error: str | None = None
    #: Failures since its last success.
    failures: int = 0
    #: When it is tried again, on the clock that nobody sets.
    retry_ns: int = 0
    #: Tuples it took when it last failed: a bad record is among them.
    failed_on: int = 0
    #: Tuples it may take at once: halved by every failure, so that a bad record is found.
    limit: int | None = None
    #: Tuples of the range it last failed on that it has not answered yet.
    doubtful: int = 0
    #: A committed result has not reached its sink; nothing runs before it has.
    behind: bool = False
    #: The number of the delivery that is under way; 0: none is.
    delivering: int = 0

    @property
    def held(self) -> bool:
        """Whether policies must not see it."""
        return self.state != "running"

    def failed(
        self, error: str, taken: int, limits: Limits, now_ns: int, *, ours: bool = False
    ) -> None:
        """Notes a failure; ``ours``: the run's own disk refused, so it is tried without end."""
        self.error, self.failed_on = error, taken
        self.doubtful = max(self.doubtful, taken)
        self.failures += 1
        if self.state in ("paused", "dropped"):
            return
        if self.failures > limits.retries and not ours:
            self.state = "parked"
            return
        self.state = "retrying"
        self.retry_ns = now_ns + limits.wait_ns(self.failures)
        if taken and not ours:
            self.limit = max(1, taken // 2)

    def succeeded(self, tuples: int = 0) -> None:
        """Notes that it has answered so many tuples."""
        self.doubtful = max(0, self.doubtful - tuples)
        self.failures, self.error, self.failed_on = 0, None, 0
        if self.limit is not None:  # grows back slowly: the rest of a bad range is near
            self.limit = None if self.limit >= 2**20 else self.limit * 2

    def gave_up(self, tuples: int) -> None:
        """Notes that so many of its oldest tuples are gone, those that it failed on first."""
        self.failed_on = max(0, self.failed_on - tuples)
        self.doubtful = max(0, self.doubtful - tuples)

    def resume(self, now_ns: int) -> None:
        """Whatever held it, it may run again, once its sink has what it is owed."""
        self.state, self.failures, self.error = "running", 0, None
        if self.behind:
            self.state, self.retry_ns = "retrying", now_ns


class Queries:
    """All queries by index. A query is one box."""

    def __init__(
        self, state: JobState, facts: Sequence[QueryFacts], inboxes: Sequence[Inbox]
    ) -> None:
        self._state = state
        self.facts = list(facts)
        self.inboxes = list(inboxes)
        self.status = [QueryStatus() for _ in facts]
        self._owner = [Owner.IDLE] * len(self.facts)
        self._readers: dict[str, list[int]] = {}
        for box in range(len(self.facts)):
            self._subscribe(box)
            self.show(box)

    def __len__(self) -> int:
        return len(self.facts)

    def owner(self, box: int) -> Owner:
        return self._owner[box]

    def own(self, box: int, owner: Owner) -> None:
        """The only place where a query changes hands."""
        self._owner[box] = owner
        self._state.running[box] = owner is not Owner.IDLE

    def in_job(self, box: int) -> bool:
        """Whether a worker has it, or is about to."""
        return self._owner[box] in (Owner.PLANNED, Owner.RIDING, Owner.EXPRESS)

    def readers(self, stream: str) -> Sequence[int]:
        return self._readers.get(stream, ())

    def add(self, box: int, facts: QueryFacts, inbox: Inbox) -> None:
        """A query comes to this box, which the state knows already."""
        if box == len(self.facts):
            self.facts.append(facts)
            self.inboxes.append(inbox)
            self.status.append(QueryStatus())
            self._owner.append(Owner.IDLE)
        else:
            self.forget(box)
            self.facts[box], self.inboxes[box] = facts, inbox
            self.status[box] = QueryStatus()
        self._subscribe(box)
        self.show(box)

    def forget(self, box: int) -> None:
        """Nothing waits for this query any more, and nothing will."""
        for readers in self._readers.values():
            if box in readers:
                readers.remove(box)
        self.inboxes[box] = Inbox()
        self.show(box)

    def show(self, box: int) -> None:
        """Lets policies see what waits; a query that is held shows nothing."""
        state, inbox = self._state, self.inboxes[box]
        held = self.status[box].held
        state.pending[box] = 0 if held else inbox.tuples
        state.head_ns[box] = inbox.head_ns
        state.arrival_sum_ns[box] = 0 if held else inbox.arrival_sum_ns

    def _subscribe(self, box: int) -> None:
        for stream in self.facts[box].reads:
            self._readers.setdefault(stream, []).append(box)
