"""Replays: a fresh engine hears what a journal holds, and has to answer the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from daybreak.engine.engine import Engine
from daybreak.engine.events import Event, SwitchPolicy
from daybreak.engine.instructions import Instruction
from daybreak.engine.journal import EngineOrigin, Entry, copy_of, fresh
from daybreak.engine.journal_format import Recorded, decisions
from daybreak.policies.base import BasePolicy


class Difference(NamedTuple):
    """The first entry of a journal that a replay answers in another way."""

    #: Its place among the entries.
    number: int
    entry: Entry
    answer: Sequence[Instruction]


def engine_of(origin: EngineOrigin, policy: BasePolicy | None = None) -> Engine:
    """An engine at its origin; ``policy``: another one than it had."""
    return Engine(
        copy_of(origin.state), origin.facts, [inbox.copy() for inbox in origin.inboxes],
        policy or fresh(origin.policy), origin.settings, origin.next_seq,
    )  # fmt: skip


def again(event: Event) -> Event:
    """The same event for another engine: one policy is attached to one engine."""
    if isinstance(event, SwitchPolicy):
        return replace(event, policy=fresh(event.policy))
    return event


def first_difference(engine: Engine, entries: Iterable[Entry]) -> Difference | None:
    """Feeds an engine the events of a journal until it answers in another way."""
    for number, entry in enumerate(entries):
        answer = engine.handle(entry.now_ns, *map(again, entry.events))
        if answer != list(entry.answer):
            return Difference(number, entry, answer)
    return None


def decide(engine: Engine, entry: Recorded) -> list[Any]:
    """What an engine decides on the events of a recorded entry, as ``entry.decisions`` has it."""
    return decisions(engine.handle(entry.now_ns, *map(again, entry.events)))
