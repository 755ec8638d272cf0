"""Asks a fresh engine what an engine's journal holds."""

from __future__ import annotations

from daybreak.engine.engine import Engine
from daybreak.engine.replay import engine_of, first_difference


def assert_repeats_itself(engine: Engine) -> None:
    """A fresh engine that hears the same answers the same, instruction by instruction."""
    journal = engine.journal
    assert not journal.forgotten, "a replay needs the start"
    difference = first_difference(engine_of(journal.origin), journal.entries())
    if difference is not None:
        number, entry, answer = difference
        raise AssertionError(f"entry {number}: {entry.events}\nwas {entry.answer}\nis {answer}")
