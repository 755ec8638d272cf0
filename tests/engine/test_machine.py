"""Whatever happens to an engine, in whatever order: each tuple is in one place, and none is lost.

A machine drives an engine with random events, plays the driver that answers its instructions, and
keeps a model beside it: of each query, what came and what became of it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.engine.inside import inside
from tests.engine.made import MS, Windows
from tests.engine.model import (
    ASIDE,
    FACTS,
    MORE,
    POLICIES,
    STREAMS,
    Driven,
    Whims,
    policy_of,
    units,
)

from daybreak.engine import events as ev
from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Tick, Waiting
from daybreak.engine.queries import Owner, QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Query
from daybreak.model.shedding import SheddingParams
from daybreak.policies.registry import make_policy_with

pytestmark = pytest.mark.slow

BOXES = st.integers(0, len(FACTS) + len(MORE) - 1)
LIMITS = Limits(retries=2, retry_s=0.5, job_timeout_s=4.0)
SHEDDING = SheddingParams(window_s=0.5, patience_s=0.0)


class EngineMachine(Driven, RuleBasedStateMachine):
    """Plays streams, workers, sinks, the log and operators."""

    @initialize(
        policy=st.sampled_from(POLICIES),
        workers=st.integers(1, 3),
        express=st.integers(0, 1),
        bound_ms=st.sampled_from((0, 100)),
        waits=st.lists(st.integers(1, 5), max_size=2),
        first=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=2),
    )
    def begin(
        self, policy: str, workers: int, express: int, bound_ms: int, waits: list[int],
        first: list[tuple[int, bool]],
    ) -> None:  # fmt: skip
        self.reset()
        self.paused = {box for box, pause in first if pause}
        for rows in waits:
            self.next_segment("a", rows)
        inboxes = [self.inbox(b, facts, earliest=True) for b, facts in enumerate(FACTS)]
        self.engine = Engine(
            JobState(self.network, workers, express=express),
            FACTS, inboxes, policy_of(policy),
            Settings(rider_bound_ns=bound_ms * MS, limits=LIMITS, shedding=SHEDDING),
            {stream: len(known) for stream, known in self.segments.items()},
        )  # fmt: skip
        held = [
            ev.Pause(box) if pause else ev.Delivered(box, ev.Failure("refused"))
            for box, pause in first
        ]
        self.tell(ev.Woke(), *held, ev.Started())

    # Arrivals and time

    @rule(stream=st.sampled_from(STREAMS), rows=st.integers(1, 6), again=st.booleans())
    def segment(self, stream: str, rows: int, again: bool) -> None:
        segment = self.next_segment(stream, rows)
        twice = [ev.SegmentArrived(segment)] * (2 if again else 1)
        self.tell(*twice)

    @rule(us=st.integers(1, 25))
    def watermark(self, us: int) -> None:
        self.watermark_us += us
        for life in self.lives.values():
            if life.facts.answers == "windows":
                self.closes(life, self.watermark_us)
        self.tell(ev.WatermarkRaised(Tick(self.now_ns, "a", 0, self.watermark_us)))

    @rule(data=st.data(), tuples=st.integers(1, 4))
    def aside_range(self, data: st.DataObject, tuples: int) -> None:
        able = [b for b, life in self.lives.items() if life.facts.share_key is None]
        if able:
            boxes = data.draw(st.lists(st.sampled_from(able), min_size=1, unique=True))
            item = Waiting(self.now_ns, ASIDE, tuples, self.aside)
            self.aside += 1
            for box in boxes:
                self.lives[box].came += units([item])
            self.tell(ev.RangeArrived(tuple(boxes), item))

    @rule(
        ms=st.sampled_from((1, 100, 600, 5_000, 20_000)),
        jump_s=st.sampled_from((0, 0, 900, 86_400)),
    )
    def time(self, ms: int, jump_s: int) -> None:
        """``jump_s``: for so long the process was stopped."""
        self.pass_time(ms, jump_s)

    @rule(stream=st.sampled_from(STREAMS), amount=st.sampled_from((0, 1, 10**9)))
    def source_shows(self, stream: str, amount: int) -> None:
        self.asking.discard(stream)
        if amount:
            self.asking.add(stream)
        self.tell(ev.SourceShows(stream, amount, self.now_ns, 1e6, 10.0))

    @precondition(lambda self: self.steps)
    @rule()
    def ingest_ends(self) -> None:
        self.step_ends()

    # Workers, the log and sinks

    @rule(rounds=st.integers(1, 4), rows=st.integers(1, 40), ms=st.sampled_from((1, 900)))
    def rush(self, rounds: int, rows: int, ms: int) -> None:
        """Much comes, jobs end well, and time passes: overload, if they are slow."""
        for _ in range(rounds):
            for stream in STREAMS:
                self.tell(ev.SegmentArrived(self.next_segment(stream, rows)))
            for job in list(self.jobs.values())[1:]:  # the first takes longer
                self.ends_well(job, ms)
            self.pass_time(600)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), ms=st.sampled_from((1, 80, 2_000)))
    def job_ends(self, data: st.DataObject, ms: int) -> None:
        """Some groups end well, or without their riders; the next may fail."""
        job = self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))
        self.tell(ev.JobBegan(job.order, len(job.groups) - 1))
        done: list[ev.Done] = []
        failure: ev.Failure | None = None
        how = st.sampled_from(("well", "well", "undelivered", "alone", "fails", "fails"))
        for group in job.groups:
            end = data.draw(how)
            if end == "fails":
                ours, timeout = data.draw(st.sampled_from(((0, 0), (0, 0), (1, 0), (0, 1))))
                failure = ev.Failure("boom", ours=bool(ours), timeout=bool(timeout))
                break
            done.append(self.done(group, end, ms))
        self.tell(ev.JobEnded(job.order, tuple(done), failure, ms * MS * (len(done) + 1)))

    @precondition(lambda self: self.skips)
    @rule(data=st.data(), recorded=st.booleans())
    def skip_answered(self, data: st.DataObject, recorded: bool) -> None:
        skip = self.skips.pop(data.draw(st.sampled_from(sorted(self.skips))))
        if recorded:
            for box, items in skip.given:
                self.lives[box].passes(items)
        self.tell(ev.Skipped(skip.skip, recorded))

    @precondition(lambda self: self.delivering)
    @rule(data=st.data(), refused=st.booleans())
    def delivery_ends(self, data: st.DataObject, refused: bool) -> None:
        box = data.draw(st.sampled_from(sorted(self.delivering)))
        delivery = self.delivering.pop(box)
        self.tell(ev.Delivered(box, ev.Failure("refused") if refused else None, delivery))

    @rule(behind=st.integers(0, 3))
    def log_full(self, behind: int) -> None:
        cut = {s: (max(0, len(known) - behind), 0) for s, known in self.segments.items()}
        inboxes = inside(self.engine).queries.inboxes
        windows = {b: 1 for b, i in enumerate(inboxes) if isinstance(i, Windows) and i.tuples}
        self.tell(ev.LogFull(cut, windows))

    # Operators

    @rule(box=BOXES, skip=st.booleans(), kind=st.sampled_from((ev.Pause, ev.Resume, ev.Drop)))
    def command(self, box: int, skip: bool, kind: type) -> None:
        if box >= len(inside(self.engine).queries):
            return
        if kind is ev.Pause:
            self.paused.add(box)
            self.tell(ev.Pause(box))
            assert inside(self.engine).queries.status[box].held
        elif kind is ev.Resume:
            self.paused.discard(box)
            self.tell(ev.Resume(box, skip, self.new_command(box)))
        else:
            if box in self.lives:
                self.lives[box].dropping = True
            self.tell(ev.Drop(box, self.new_command(box)))

    @rule(
        box=BOXES,
        other=st.sampled_from(FACTS),
        cls=st.sampled_from("hl"),
        earliest=st.booleans(),
    )
    def add(self, box: int, other: QueryFacts, cls: str, earliest: bool) -> None:
        """A new query, or one of a dropped one's name, which may be another query by now."""
        known = len(inside(self.engine).queries)
        if box in self.lives or box > known:
            return
        names = [f.name for f in (*FACTS, *MORE)]
        facts = replace(other, name=names[box]) if box < known else MORE[box - len(FACTS)]
        self.paused.discard(box)
        delivery = self.delivering.pop(box, 0)
        self.network = self.network.with_query(
            Box(name=facts.name, inputs=facts.reads, kind="filter"),
            Query(name=facts.name, output=facts.name, cls=cls),
        )
        inbox = self.inbox(box, facts, earliest=earliest)
        self.tell(ev.AddQuery(box, facts, self.network, inbox))
        if delivery:  # of the dropped one: its answer comes late, and is its successor's no more
            self.tell(ev.Delivered(box, ev.Failure("late"), delivery))

    @rule(
        box=st.integers(0, len(FACTS) - 1),
        cls=st.integers(0, 1),
        value=st.integers(1, 9),
        policy=st.sampled_from(POLICIES),
        what=st.integers(0, 4),
    )
    def declare(self, box: int, cls: int, value: int, policy: str, what: int) -> None:
        commands: tuple[ev.Command, ...] = (
            ev.SwitchPolicy(policy_of(policy), value), ev.SetPriority(cls, value * 10.0),
            ev.AssignClass(box, cls), ev.SetWeight(box, value / 10), ev.SetSubscribers(box, value),
        )  # fmt: skip
        self.tell(commands[what])

    # What holds after every event

    @invariant()
    def each_tuple_is_in_one_place(self) -> None:
        for box, life in self.lives.items():
            groups = [g for o in self.engine.orders.values() for g in o.groups if box in g.boxes]
            running = [u for group in groups for u in units(group.taken)]
            skipping = [
                u for s in self.skips.values() for b, items in s.given if b == box
                for u in units(items)
            ]  # fmt: skip
            assert units(self.engine.skipping(box)) == skipping
            assert not (running and skipping)
            waiting = units(list(inside(self.engine).queries.inboxes[box].waiting))
            assert running + skipping + waiting == life.came[life.past :]

    @invariant()
    def owners_agree_with_orders(self) -> None:
        orders, queries = self.engine.orders, inside(self.engine).queries
        assert set(orders) == set(self.jobs)
        for box in range(len(queries)):
            having = [o for o in orders.values() if box in o.boxes]
            assert len(having) <= 1
            owner = queries.owner(box)
            skips = any(box in dict(s.given) for s in self.skips.values())
            if having:
                assert owner in (Owner.PLANNED, Owner.RIDING, Owner.EXPRESS)
                assert (owner is Owner.EXPRESS) <= having[0].express
            else:
                held = queries.status[box].held or skips
                assert owner is (Owner.HELD if held else Owner.IDLE)

    @invariant()
    def policies_see_what_they_may(self) -> None:
        state, queries = inside(self.engine).state, inside(self.engine).queries
        for box in range(len(queries)):
            inbox, held = queries.inboxes[box], queries.status[box].held
            assert inbox.tuples == sum(w.tuples for w in inbox.waiting)
            assert state.pending[box] == (0 if held else inbox.tuples)
            assert state.running[box] == (queries.owner(box) is not Owner.IDLE)
            if state.pending[box]:
                assert state.head_ns[box] == inbox.waiting[0].arrival_ns
            if not held:
                stamps = sum(w.tuples * w.arrival_ns for w in inbox.waiting)
                assert state.arrival_sum_ns[box] == stamps
            if box not in self.lives:
                assert (queries.status[box].state, inbox.tuples) == ("dropped", 0)

    @invariant()
    def the_last_command_has_the_last_word(self) -> None:
        waiting = {*self.commands.values(), *(b for s in self.skips.values() for b, _ in s.given)}
        for box, life in self.lives.items():
            if box not in waiting and not life.dropping:
                state = inside(self.engine).queries.status[box].state
                assert (state == "paused") == (box in self.paused)

    @invariant()
    def somebody_works_while_something_waits(self) -> None:
        """Some policies keep to one worker per class, so others may be idle."""
        state = inside(self.engine).state
        free = [b for b, n in enumerate(state.pending) if n and not state.running[b]]
        if free and not isinstance(inside(self.engine).policy, Whims):
            assert self.jobs or self.waits or any(s.worker is not None for s in self.steps)

    @invariant()
    def quiet_means_quiet(self) -> None:
        queries = inside(self.engine).queries
        status, inboxes = queries.status, queries.inboxes
        nothing = not any(i.tuples and not s.held for s, i in zip(status, inboxes, strict=True))
        retrying = any(s.state == "retrying" for s in status)
        still = not self.jobs and not self.skips
        assert self.engine.quiet == (still and nothing and not retrying)

    def teardown(self) -> None:
        """Everything is resumed and goes well: all that came is past in the end."""
        if not hasattr(self, "engine"):
            return
        if isinstance(inside(self.engine).policy, Whims):  # it may choose to do nothing for long
            self.tell(ev.SwitchPolicy(make_policy_with("fcfs")))
        for box in self.lives:
            self.tell(ev.Resume(box, False, self.new_command(box)))
        for _ in range(3000):
            self._all_goes_well()
            for check in (self.each_tuple_is_in_one_place, self.owners_agree_with_orders):
                check()
            if self.engine.quiet and not (self.delivering or self.asking):
                break
        assert self.engine.quiet
        assert not self.asking, "every source gets its turn"
        assert not self.commands, "every command is answered"
        for life in self.lives.values():
            assert life.past == len(life.came)

    def _all_goes_well(self) -> None:
        self.pass_time(1_000)
        for job in list(self.jobs.values()):
            self.ends_well(job, ms=1)
        for skip in list(self.skips.values()):
            for box, items in self.skips.pop(skip.skip).given:
                self.lives[box].passes(items)
            self.tell(ev.Skipped(skip.skip))
        for box in sorted(self.delivering):
            self.tell(ev.Delivered(box, None, self.delivering.pop(box)))


def test_each_tuple_is_in_one_place_whatever_happens() -> None:
    run_state_machine_as_test(
        EngineMachine,
        # Not shrunk: that takes minutes. Add Phase.shrink to look into a failure.
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
        ),
    )
