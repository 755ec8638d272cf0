"""The journal of an engine: what it was made of, what it heard, and what it answered.

It is always on. An entry refers to events and instructions, which nothing changes once they are
handled, so keeping one costs less than a microsecond. What is kept in memory is bounded; the oldest
entries go first. ``story`` reads the entries of one query, ``replay`` asks a fresh engine the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

from daybreak.engine.core import Settings
from daybreak.engine.events import Event
from daybreak.engine.inbox import Inbox
from daybreak.engine.instructions import Instruction, StartJob
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.policies.base import BasePolicy

#: What is kept in memory weighs at most this: an entry counts for 8, and for one more with every
#: query of a cell that it starts a job of. A unit takes about 250 bytes (a small job is 3 KB), so
#: this is 15 MB: two minutes of a run with 60 entries a second. Half as many are one minute. Twice
#: as many are 30 MB, and the garbage collector looks at a hundred thousand objects more.
MOST_WEIGHT = 60_000
ENTRY_WEIGHT = 8
#: Entries that wait for the thread that writes them, which comes once a second: beyond that the
#: oldest go, and the record has a gap. Ten times what a loop does in a second; 60 MB at worst, half
#: as many 30.
MOST_UNWRITTEN = 20_000


class Entry(NamedTuple):
    """One call of ``Engine.handle``."""

    now_ns: int
    events: tuple[Event, ...]
    answer: Sequence[Instruction]
    #: Calls before it.
    number: int = 0


@dataclass(frozen=True, slots=True)
class EngineOrigin:
    """An engine before its first event, as data that the engine does not change."""

    state: JobState
    facts: tuple[QueryFacts, ...]
    inboxes: tuple[Inbox, ...]
    #: Its class and its parameters count, whatever it has learned since.
    policy: BasePolicy
    settings: Settings
    next_seq: Mapping[str, int]

    @classmethod
    def of(
        cls,
        state: JobState,
        facts: Sequence[QueryFacts],
        inboxes: Sequence[Inbox],
        policy: BasePolicy,
        settings: Settings,
        next_seq: Mapping[str, int],
    ) -> EngineOrigin:
        """Copies what an engine is about to change."""
        return cls(
            copy_of(state), tuple(facts), tuple(inbox.copy() for inbox in inboxes), policy,
            settings, dict(next_seq),
        )  # fmt: skip


def copy_of(state: JobState) -> JobState:
    """A state with figures of its own; the network, which never changes, is the same."""
    return deepcopy(state, {id(state.network): state.network})


def fresh(policy: BasePolicy) -> BasePolicy:
    """A policy of the same class and parameters that has learned nothing."""
    return type(policy)(policy.params)


class Journal:
    """Entries of one engine, the newest last. One thread adds; any thread may read."""

    def __init__(self, origin: EngineOrigin, most_weight: int = MOST_WEIGHT) -> None:
        self.origin = origin
        self._most_weight = most_weight
        self._entries: deque[tuple[int, Entry]] = deque()
        self._weight = 0
        #: Entries that are not kept any more, and all that there were.
        self.forgotten = 0
        self.added = 0
        self._unwritten: deque[Entry] | None = None

    def add(self, now_ns: int, events: tuple[Event, ...], answer: Sequence[Instruction]) -> None:
        """Keeps an entry, and lets the oldest ones go as far as that takes."""
        weight = ENTRY_WEIGHT
        for instruction in answer:
            if type(instruction) is StartJob:
                for group in instruction.groups:
                    weight += len(group.cell)
        entry = Entry(now_ns, events, answer, self.added)
        self.added += 1
        entries = self._entries
        entries.append((weight, entry))
        if self._unwritten is not None:
            self._unwritten.append(entry)
        self._weight += weight
        while self._weight > self._most_weight and len(entries) > 1:
            self._weight -= entries.popleft()[0]
            self.forgotten += 1

    def record(self) -> None:
        """Hands further entries to ``take`` as well. Called before the first event."""
        self._unwritten = deque(maxlen=MOST_UNWRITTEN)

    def take(self) -> list[Entry]:
        """The entries that were not taken yet, for a thread that writes them."""
        taken: list[Entry] = []
        while self._unwritten:
            taken.append(self._unwritten.popleft())
        return taken

    def entries(self) -> list[Entry]:
        """What is kept, the oldest first."""
        return [entry for _, entry in self._entries.copy()]
