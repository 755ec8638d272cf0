"""The story of a query is what its engine heard and answered about it, the newest last."""

from __future__ import annotations

import pytest
from tests.engine.made import Bench, First

from daybreak.engine.events import Drop, Failure, JobEnded, SegmentArrived, SetWeight, Woke
from daybreak.engine.instructions import StartJob
from daybreak.engine.journal import Journal
from daybreak.engine.queries import QueryBug, QueryFacts
from daybreak.engine.replay import engine_of, first_difference
from daybreak.engine.story import as_json, as_text
from daybreak.policies.base import Plan, Step

A = QueryFacts("alarm", ("a",))
B = QueryFacts("archive", ("b",))
NAMES = ["alarm", "archive"]


def bench() -> Bench:
    """One job of ``alarm`` that fails, then one of ``archive``."""
    made = Bench([A, B])
    (start, *_) = made.tell(SegmentArrived(made.segment("a", 5)))
    assert isinstance(start, StartJob)
    made.now_ns = 2_000_000_000
    made.tell(JobEnded(start.order, (), Failure("boom"), 10))
    made.tell(SegmentArrived(made.segment("b", 3)), SetWeight(0, 0.5), Woke())
    return made


def test_a_story_is_of_one_query() -> None:
    lines = [as_json(line, 0, NAMES) for line in bench().engine.story(0)]
    assert [line["what"] for line in lines] == [
        "SegmentArrived", "StartJob", "JobEnded", "Notice", "AccountFailure", "SetWeight",
    ]  # fmt: skip
    assert lines[0]["rows"] == 5
    assert lines[1]["taken"] == ["a/0:0+5"]
    assert lines[2]["failure"] == "boom"
    assert lines[-1]["weight"] == 0.5
    assert [line["kind"] for line in lines[:2]] == ["event", "instruction"]
    assert lines[0]["at"] == "1970-01-01T00:00:00.000Z"


def test_a_line_for_a_person_has_no_empty_fields() -> None:
    made = bench()
    text = as_text(made.engine.story(1)[0], 1, NAMES)
    assert text.endswith("> SegmentArrived stream=b rows=3")


def test_a_story_begins_when_its_query_comes() -> None:
    made = bench()
    made.tell(Drop(1, 7))
    assert len(made.engine.story(1)) > 1
    assert made.engine.story(1)[-1].what == Drop(1, 7)


def test_a_bug_ends_with_the_story_of_its_query() -> None:
    made = Bench([A, B], workers=2)
    policy = made.policy
    assert isinstance(policy, First)
    policy.plans = [Plan((Step(0),)), Plan((Step(0),))]
    with pytest.raises(QueryBug, match="planned query 'alarm'") as caught:
        made.tell(SegmentArrived(made.segment("a", 5)))
    message, *story = str(caught.value).splitlines()
    assert "which is running" in message
    assert "SegmentArrived stream=a" in story[0]
    assert "StartJob order=1" in story[-1]


def test_a_journal_is_bounded_and_says_what_it_forgot() -> None:
    made = bench()
    small = Journal(made.engine.journal.origin, most_weight=60)
    for entry in made.engine.journal.entries() * 10:
        small.add(*entry[:3])
    assert 1 < len(small.entries()) < 8
    assert small.forgotten == 30 - len(small.entries())
    assert small.entries()[-1][:3] == made.engine.journal.entries()[-1][:3]


def test_a_replay_finds_the_first_answer_that_differs() -> None:
    journal = bench().engine.journal
    entries = journal.entries()
    assert first_difference(engine_of(journal.origin), entries) is None
    changed = [entries[0], entries[1]._replace(answer=[]), entries[2]]
    difference = first_difference(engine_of(journal.origin), changed)
    assert difference is not None
    assert (difference.number, list(difference.answer)) == (1, list(entries[1].answer))
