"""Random sequences of events for an engine under one policy: made, driven, and replayed.

``python -m tests.engine.fuzz`` prints a digest of what engines answer to some of them, by policy.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from random import Random

from tests.engine.inside import inside
from tests.engine.journal import assert_repeats_itself
from tests.engine.made import MS, SECOND, Windows
from tests.engine.model import ASIDE, FACTS, MORE, STREAMS, Driven, units

from daybreak.engine import events as ev
from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Inbox, Tick, Waiting
from daybreak.engine.instructions import Instruction, Notice, StartJob
from daybreak.engine.journal_format import Reader, entry_line, origin_line
from daybreak.engine.queries import QueryFacts
from daybreak.engine.replay import decide, engine_of
from daybreak.engine.state import JobState
from daybreak.engine.window_inbox import GridClosing, WindowInbox
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Query
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy, ProcessorUse
from daybreak.policies.registry import all_policies

LIMITS = Limits(retries=2, retry_s=0.5, job_timeout_s=4.0)
SHEDDING = SheddingParams(window_s=0.5, patience_s=0.0)
#: Events of one sequence: most are short, some long enough for many plans of the default policy.
STEPS = (8, 12, 20, 60)


class RandomRun(Driven):
    """Plays streams, workers on busy cores, sinks, the log and operators, at random."""

    def __init__(self, policy: BasePolicy, seed: int) -> None:
        self.reset()
        self._draw = draw = Random(f"{policy.name} {seed}")
        self._policies = [type(policy), *all_policies().values()]
        for _ in range(draw.randrange(3)):
            self.next_segment("a", draw.randint(1, 5))
        inboxes = [self.inbox(b, facts, earliest=True) for b, facts in enumerate(FACTS)]
        self.engine = Engine(
            JobState(self.network, draw.randint(1, 3), express=draw.choice((0, 0, 1))),
            FACTS, inboxes, policy,
            Settings(
                seed=seed, rider_bound_ns=draw.choice((0, 100)) * MS, limits=LIMITS,
                shedding=draw.choice((None, SHEDDING)),
            ),
            {stream: len(known) for stream, known in self.segments.items()},
        )  # fmt: skip
        self._busy_ns = self._idle_ns = 0
        held: list[ev.Event] = [ev.Pause(box) for box in range(len(FACTS)) if draw.random() < 0.1]
        held += [ev.Delivered(0, ev.Failure("refused"))] if draw.random() < 0.1 else []
        self.tell(self._woke(), *held, ev.Started())

    def inbox(self, box: int, facts: QueryFacts, *, earliest: bool) -> Inbox:
        found = super().inbox(box, facts, earliest=earliest)
        if facts.answers == "rows":
            return found
        return WindowInbox(GridClosing(("a",), *[Windows.WIDTH_US] * 2), self.lives[box].put_us)

    def run(self) -> None:
        ways = (
            *[self._segment] * 4, *[self._time] * 4, *[self._end] * 5, self._watermark,
            self._aside, self._skipped, self._delivered, self._log_full, self._hold, self._add,
            self._declare, self._shows, self._ingested,
        )  # fmt: skip
        for _ in range(self._draw.choice(STEPS)):
            self._draw.choice(ways)()

    def _woke(self) -> ev.Woke:
        """The cores have been busy since, more or less, with whatever."""
        spent_ns = round(self._draw.random() * SECOND)
        self._busy_ns += spent_ns
        self._idle_ns += SECOND - spent_ns
        return ev.Woke(ProcessorUse(2, self._busy_ns, self._idle_ns))

    def _segment(self) -> None:
        stream, rows = self._draw.choice(STREAMS), self._draw.choice((1, 3, 6, 400))
        self.now_ns += self._draw.randrange(50) * MS
        self.tell(ev.SegmentArrived(self.next_segment(stream, rows)))

    def _time(self) -> None:
        self.now_ns += self._draw.choice((1, 100, 600, 5_000)) * MS
        self.tell(self._woke())

    def _end(self) -> None:
        if not self.jobs:
            return
        draw, job = self._draw, self.jobs.pop(self._draw.choice(sorted(self.jobs)))
        ms = draw.choice((1, 30, 80, 2_000))
        self.now_ns += ms * MS
        self.tell(ev.JobBegan(job.order, len(job.groups) - 1))
        done: list[ev.Done] = []
        failure: ev.Failure | None = None
        for group in job.groups:
            end = draw.choice(("well", "well", "well", "undelivered", "alone", "fails"))
            if end == "fails":
                failure = ev.Failure("boom", draw.random() < 0.2, draw.random() < 0.2)
                break
            done.append(self.done(group, end, ms))
        self.tell(ev.JobEnded(job.order, tuple(done), failure, ms * MS * (len(done) + 1)))

    def _watermark(self) -> None:
        self.watermark_us += self._draw.randint(1, 25)
        for life in self.lives.values():
            if life.facts.answers == "windows":
                self.closes(life, self.watermark_us)
        self.tell(ev.WatermarkRaised(Tick(self.now_ns, "a", 0, self.watermark_us)))

    def _aside(self) -> None:
        able = [b for b, life in self.lives.items() if life.facts.share_key is None]
        if able:
            item = Waiting(self.now_ns, ASIDE, self._draw.randint(1, 4), self.aside)
            self.aside += 1
            box = self._draw.choice(able)
            self.lives[box].came += units([item])
            self.tell(ev.RangeArrived((box,), item))

    def _skipped(self) -> None:
        if self.skips:
            skip = self.skips.pop(self._draw.choice(sorted(self.skips)))
            recorded = self._draw.random() < 0.7
            for box, items in skip.given if recorded else ():
                self.lives[box].passes(items)
            self.tell(ev.Skipped(skip.skip, recorded))

    def _delivered(self) -> None:
        if self.delivering:
            box = self._draw.choice(sorted(self.delivering))
            failure = self._draw.choice((None, ev.Failure("refused")))
            self.tell(ev.Delivered(box, failure, self.delivering.pop(box)))

    def _log_full(self) -> None:
        behind = self._draw.randrange(4)
        cut = {s: (max(0, len(known) - behind), 0) for s, known in self.segments.items()}
        inboxes = inside(self.engine).queries.inboxes
        windows = {b: 1 for b, i in enumerate(inboxes) if isinstance(i, WindowInbox) and i.tuples}
        self.tell(ev.LogFull(cut, windows))

    def _shows(self) -> None:
        """A source has something for a step that takes milliseconds or seconds."""
        stream, amount = self._draw.choice(STREAMS), self._draw.choice((0, 1, 50))
        each_ns = self._draw.choice((1.0, 100.0)) * MS
        self.asking.discard(stream)
        if amount:
            self.asking.add(stream)
        self.tell(ev.SourceShows(stream, amount, self.now_ns, 50.0 * MS, each_ns))

    def _ingested(self) -> None:
        if self.steps:
            self.now_ns += self._draw.choice((10, 3_000)) * MS
            self.step_ends()

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Notice) and instruction.event == "ingest-stuck":
            self.steps.clear()
        super()._carry_out(instruction)

    def _hold(self) -> None:
        box = self._draw.randrange(len(inside(self.engine).queries))
        kind = self._draw.choice(("pause", "resume", "resume", "resume", "drop"))
        if kind == "pause":
            self.tell(ev.Pause(box))
        elif kind == "resume":
            self.tell(ev.Resume(box, self._draw.random() < 0.5, self.new_command(box)))
        else:
            if box in self.lives:
                self.lives[box].dropping = True
            self.tell(ev.Drop(box, self.new_command(box)))

    def _add(self) -> None:
        """A new query, or one of a dropped one's name, which may be another query by now."""
        known, names = len(inside(self.engine).queries), [f.name for f in (*FACTS, *MORE)]
        box = self._draw.randrange(min(known + 1, len(names)))
        if box in self.lives:
            return
        new = box >= known
        facts = (
            MORE[box - len(FACTS)] if new else replace(self._draw.choice(FACTS), name=names[box])
        )
        self.delivering.pop(box, None)
        self.network = self.network.with_query(
            Box(name=facts.name, inputs=facts.reads, kind="filter"),
            Query(name=facts.name, output=facts.name, cls=self._draw.choice("hl")),
        )
        inbox = self.inbox(box, facts, earliest=self._draw.random() < 0.5)
        self.tell(ev.AddQuery(box, facts, self.network, inbox))

    def _declare(self) -> None:
        box, cls = self._draw.randrange(len(FACTS)), self._draw.randrange(2)
        value = self._draw.randint(1, 9)
        policy = self._draw.choice(self._policies)()
        commands: tuple[ev.Command, ...] = (
            ev.SwitchPolicy(policy, value), ev.SetPriority(cls, value * 10.0),
            ev.AssignClass(box, cls), ev.SetWeight(box, value / 10), ev.SetSubscribers(box, value),
        )  # fmt: skip
        self.tell(self._draw.choice(commands))


def assert_lines_repeat(engine: Engine) -> None:
    """The same for an engine that is made of the lines of the journal, as they are recorded."""
    reader, entries = Reader("a journal"), engine.journal.entries()
    origin = reader.origin(origin_line(engine.journal.origin))
    recorded = [reader.entry(entry_line(e.number, e)) for e in entries]
    again = engine_of(origin)
    for entry in recorded:
        assert decide(again, entry) == entry.decisions, entry


def check_replays(policy: type[BasePolicy], seeds: range) -> int:
    """Every sequence, replayed through a fresh engine and a fresh policy, is answered the same.

    Returns how many jobs were started.
    """
    jobs = 0
    for seed in seeds:
        run = RandomRun(policy(), seed)
        try:
            run.run()
            assert_repeats_itself(run.engine)
            if seed % 10 == 0:
                assert_lines_repeat(run.engine)
        except Exception as error:
            error.add_note(f"of RandomRun({policy.__name__}(), {seed})")
            raise
        jobs += sum(isinstance(i, StartJob) for e in run.engine.journal.entries() for i in e.answer)
    return jobs


def digests(seeds: range) -> dict[str, str]:
    """What engines answer, by policy: the same in every process."""
    found = {}
    for name, policy in all_policies().items():
        told = sha256()
        for seed in seeds:
            run = RandomRun(policy(), seed)
            run.run()
            for entry in run.engine.journal.entries():
                told.update(repr(entry.answer).encode())
        found[name] = told.hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(digests(range(3))))
