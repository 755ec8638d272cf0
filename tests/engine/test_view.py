"""Readers see an engine through frozen views; nothing outside looks behind them."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from tests.engine.made import MS, Bench

import daybreak
from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import (
    Failure,
    JobEnded,
    Pause,
    SegmentArrived,
    SetPriority,
    SwitchPolicy,
    Woke,
)
from daybreak.engine.queries import QueryFacts
from daybreak.engine.view import EngineView
from daybreak.model.limits import Limits
from daybreak.policies.registry import make_policy_with

SOURCE = Path(daybreak.__file__).parent
#: The parts of an engine that its views stand for.
PARTS = {
    "queries", "state", "compositor", "policy", "next_seq", "arrived_rows", "inboxes",
    "_core", "_queries", "_state", "_lifecycle", "_orders", "_next_seq", "_arrived_rows",
}  # fmt: skip
EACH = [QueryFacts("p", ("s",)), QueryFacts("q", ("s", "t"))]


def name_of(owner: ast.expr) -> str | None:
    """The last name of what an attribute is read of."""
    if isinstance(owner, ast.Attribute):
        return owner.attr
    return owner.id if isinstance(owner, ast.Name) else None


def test_nothing_outside_the_engine_reads_its_parts() -> None:
    files = [f for f in SOURCE.rglob("*.py") if SOURCE / "engine" not in f.parents]
    assert len(files) > 200
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}: engine.{node.attr}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in PARTS
        and name_of(node.value) in {"engine", "_engine"}
    ]
    assert not found, "read the view, or ask a method of the engine"
    public = {name for name in (*vars(Engine), *vars(Bench(EACH).engine)) if name[0] != "_"}
    assert not public & PARTS


def test_a_view_stays_as_it_was() -> None:
    bench = Bench(EACH)
    before = bench.engine.look()
    same = replace(before)
    bench.tell(SegmentArrived(bench.segment("s", 5)), Pause(0), SetPriority(0, 9.0))
    assert before == same
    with pytest.raises(FrozenInstanceError):
        setattr(before, "at_ns", 1)  # noqa: B010
    after = bench.engine.view
    assert (after.states, after.class_priority[0]) == (("paused", "running"), 9.0)
    assert after.next_seq == {"s": 1}
    assert after.arrived_rows == {"s": 5}


def test_it_is_made_when_numbers_are_old_and_at_once_when_more_has_changed() -> None:
    bench = Bench(EACH, settings=Settings(view_every_ns=50 * MS, limits=Limits(retries=0)))
    bench.tell(Woke())
    seen: list[EngineView] = [bench.engine.view]

    def is_new() -> bool:
        seen.append(bench.engine.view)
        return seen[-1] is not seen[-2]

    bench.now_ns = 10 * MS
    bench.tell(SegmentArrived(bench.segment("s", 5)))
    assert not is_new()
    assert bench.engine.look().waiting == (0, 5), "the first query runs"
    assert bench.engine.look() is bench.engine.view, "made once"
    is_new()
    bench.now_ns = 60 * MS
    bench.tell(Woke())
    assert is_new(), "numbers are old"
    bench.tell(JobEnded(1, (), Failure("bad"), MS))
    assert is_new(), "a query is parked"
    assert bench.engine.view.parked == {"p": "bad"}
    assert bench.engine.view.failures == (1, 0)
    bench.tell(SwitchPolicy(make_policy_with("stride")))
    assert is_new(), "an operator sees what he has done"
    assert bench.engine.view.policy.name == "stride"
    assert bench.engine.view.policy.report(0)["policy"] == "stride"


def test_it_shows_what_waits_by_stream() -> None:
    bench = Bench(EACH)
    bench.tell(Pause(0), Pause(1))
    for stream, rows in (("s", 5), ("t", 2), ("s", 1)):
        bench.now_ns += MS
        bench.tell(SegmentArrived(bench.segment(stream, rows)))
    view = bench.engine.look()
    assert (view.waiting, view.pending, view.oldest_ns) == ((6, 8), (0, 0), (MS, MS))
    assert [view.by_stream(q) for q in range(2)] == [{"s": 6}, {"s": 6, "t": 2}]
    assert [item.tuples for item in bench.engine.waiting(1)] == [5, 2, 1]
    assert bench.engine.cell(0) == (0,)
