"""Keeps what an engine was told and what it answered, and asks another one the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Event
from daybreak.engine.inbox import Inbox
from daybreak.engine.instructions import Instruction
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.policies.base import BasePolicy


class Told(NamedTuple):
    now_ns: int
    events: tuple[Event, ...]
    answer: list[Instruction]


class JournalEngine(Engine):
    """An engine with a memory: events are kept as they were before it handled them."""

    def __init__(
        self,
        state: JobState,
        facts: Sequence[QueryFacts],
        inboxes: Sequence[Inbox],
        policy: BasePolicy,
        settings: Settings,
        next_seq: Mapping[str, int] | None = None,
    ) -> None:
        self.made_of = deepcopy((state, facts, inboxes, policy, settings, next_seq))
        self.journal: list[Told] = []
        super().__init__(state, facts, inboxes, policy, settings, next_seq)

    def handle(self, now_ns: int, *events: Event) -> list[Instruction]:
        kept = deepcopy(events)
        answer = super().handle(now_ns, *events)
        self.journal.append(Told(now_ns, kept, list(answer)))
        return answer


def assert_repeats_itself(engine: JournalEngine) -> None:
    """A fresh engine that is told the same answers the same, instruction by instruction."""
    again = Engine(*engine.made_of)
    for told in engine.journal:
        assert again.handle(told.now_ns, *told.events) == told.answer, told.events
