"""The JSON of a journal: what it holds, and who may read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.engine.made import Bench

from daybreak.engine.events import SegmentArrived, SwitchPolicy, Woke
from daybreak.engine.inbox import Inbox
from daybreak.engine.instructions import Group
from daybreak.engine.journal_format import (
    FORMAT,
    Reader,
    decisions,
    entry_line,
    layout,
    origin_line,
)
from daybreak.engine.queries import QueryFacts
from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.policies.registry import make_policy_with

LAYOUT = Path(__file__).with_name("journal_layout.txt")


def bench() -> Bench:
    return Bench([QueryFacts("q", ("s",))], policy=make_policy_with("stride", train=7))


def test_what_a_journal_holds_changes_only_on_purpose() -> None:
    """Write the file again if it does; raise FORMAT if an older reader would misread it."""
    assert LAYOUT.read_text().splitlines() == [f"format {FORMAT}", *layout()]


def test_an_entry_is_read_as_it_was_written() -> None:
    made = bench()
    made.tell(SegmentArrived(made.segment("s", 30)))
    made.tell(SwitchPolicy(make_policy_with("mbd", train=9), 4))
    reader, journal = Reader("here"), made.engine.journal
    origin = reader.origin(origin_line(journal.origin))
    assert (origin.policy.name, origin.policy.params.train) == ("stride", 7)
    assert origin.facts == journal.origin.facts
    first, second = (reader.entry(entry_line(e.number, e)) for e in journal.entries())
    (arrived,) = first.events
    assert isinstance(arrived, SegmentArrived)
    assert (arrived.segment.stream, arrived.segment.rows) == ("s", 30)
    assert first.decisions == decisions(journal.entries()[0].answer)
    assert first.decisions[0][0] == "StartJob"
    (switch,) = second.events
    assert isinstance(switch, SwitchPolicy)
    assert (switch.policy.name, switch.policy.params.train, switch.seed) == ("mbd", 9, 4)


def test_what_a_later_version_wrote_is_refused() -> None:
    journal = bench().engine.journal
    line = json.loads(origin_line(journal.origin))
    line.update(format=FORMAT + 1, daybreak="9.1")
    with pytest.raises(NewerFormat, match=r"9\.1"):
        Reader("a run").origin(json.dumps(line))
    for event in (["Teleported", 1], ["Pause", 1, "more"]):
        with pytest.raises(ConfigError, match=r"a run: its journal holds .* later version"):
            Reader("a run").entry(json.dumps([0, 1, [event], []]))
    for decision in (["Teleport", 1], ["WakeAt", 1, 2]):
        with pytest.raises(ConfigError, match=r"a run: its journal holds .* later version"):
            Reader("a run").entry(json.dumps([0, 1, [], [decision]]))


def test_a_field_that_was_added_since_has_its_default() -> None:
    said = '[0, 1, [["Woke"]], [["Redeliver", 1, 2], ["StartJob", 1, 0, [[[0], [], [0]]]]]]'
    entry = Reader("a run").entry(said)
    assert entry.events == (Woke(None),)
    group = [[0], [], [0], *[None] * (len(Group._fields) - 3)]
    assert entry.decisions == [["Redeliver", 1, 2, False], ["StartJob", 1, 0, [group]]]


def test_an_inbox_that_has_no_json_is_refused() -> None:
    class Other(Inbox):
        """Of an extension."""

    made = bench()
    origin = made.engine.journal.origin
    strange = type(origin)(
        origin.state, origin.facts, (Other(),), origin.policy, origin.settings, origin.next_seq
    )
    with pytest.raises(TypeError, match="cannot hold a Other"):
        origin_line(strange)
