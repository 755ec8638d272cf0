"""The lives of queries: held and released, retried and parked, resumed, skipped and dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from daybreak.engine.core import Core
from daybreak.engine.events import Delivered, Drop, Failure, Pause, Resume, Skipped
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import ERROR, WARNING, Finished, Redeliver, Skip
from daybreak.engine.queries import Owner
from daybreak.policies.base import Change

#: Why rows are given up, as it is recorded.
RESUMED, FULL, SHED = "skipped", "full", "shed"


@dataclass(slots=True)
class _Skipping:
    """Ranges on their way out: gone for good once that is recorded."""

    given: dict[int, list[Waiting]]
    #: What follows; told how many tuples of each query were given up, None if none could be.
    then: Callable[[Mapping[int, int] | None], None]


@dataclass(slots=True)
class _Forgoing:
    """A ``Resume`` that gives up one result which the sink refuses."""

    command: Resume
    #: The number of the delivery that was told so; 0: another one is still under way.
    delivery: int = 0


@dataclass(slots=True)
class Lifecycle:
    """Decides when a query may run at all."""

    core: Core
    #: Commands that wait for a query's job or skip to end, in their order.
    _after: dict[int, list[Pause | Resume | Drop]] = field(default_factory=dict)
    _skips: dict[int, _Skipping] = field(default_factory=dict)
    _forgoing: dict[int, _Forgoing] = field(default_factory=dict)
    _numbered: int = 0

    def hold(self, box: int) -> None:
        """Takes a query whose status says so from the policy's sight, now or after its job."""
        self.core.queries.show(box)
        if self.core.queries.owner(box) is Owner.IDLE:
            self.core.withdraw(box, Owner.HELD)

    def release(self, box: int) -> None:
        """Gives a query that may run again back to the policy."""
        self.core.queries.show(box)
        if self.core.queries.owner(box) is Owner.HELD and not self._is_skipping(box):
            self.core.give_back(box)

    def after_job(self, box: int) -> None:
        """A job of this query has ended: what waited for that happens now."""
        if self.core.queries.status[box].held:
            self.hold(box)
        self._carry_out_waiting(box)

    # Failures

    def failed(self, box: int, failure: Failure, taken: int) -> None:
        """A query that fails is tried again, then parked; what waits for it stays."""
        core, status = self.core, self.core.queries.status[box]
        status.failed(failure.error, taken, core.settings.limits, core.now_ns, ours=failure.ours)
        core.notice(
            "job-failed" if taken else "delivery-failed", failure.error, box, level=WARNING,
            failures=status.failures, tuples=taken or None, next=status.state,
        )  # fmt: skip
        if status.state == "parked":
            message = f"failed {status.failures} times; correct the cause, then resume it"
            core.notice("parked", message, box, level=ERROR, error=failure.error)

    def succeeded(self, box: int, tuples: int = 0) -> None:
        status = self.core.queries.status[box]
        if status.failures:
            self.core.notice("well-again", "works again", box)
        status.succeeded(tuples)

    def delivered(self, event: Delivered) -> None:
        """A delivery was tried: at the start, or because it had failed."""
        status = self.core.queries.status[event.box]
        if event.delivery != status.delivering:
            return  # of a query that had this index before
        status.delivering = 0
        if status.state == "dropped":
            return
        if event.failure is not None:
            status.behind = True
            self.failed(event.box, event.failure, 0)
            self.hold(event.box)
        else:
            status.behind = False
            self.succeeded(event.box)
        self._forgo_next(event)
        if status.state == "retrying" and not status.behind:
            status.state = "running"
            self.release(event.box)
        self._carry_out_waiting(event.box)

    def _forgo_next(self, event: Delivered) -> None:
        """Asks again for a result to be given up, or finishes the command that wanted it."""
        forgoing = self._forgoing.get(event.box)
        if forgoing is None:
            return
        if event.failure is not None and event.delivery != forgoing.delivery:
            forgoing.delivery = self._redeliver(event.box, skip=True)
            return
        del self._forgoing[event.box]
        self.core.emit(Finished(forgoing.command.command, event.skipped))

    def _redeliver(self, box: int, *, skip: bool = False) -> int:
        self._numbered += 1
        self.core.queries.status[box].delivering = self._numbered
        self.core.emit(Redeliver(box, self._numbered, skip))
        return self._numbered

    def retry(self) -> None:
        """Queries whose time has come are tried again."""
        for box, status in enumerate(self.core.queries.status):
            if status.state != "retrying" or self.core.now_ns < status.retry_ns:
                continue
            if not status.behind:
                status.state = "running"
                self.release(box)
            elif not status.delivering:
                self._redeliver(box)

    # Commands

    def pause(self, command: Pause) -> None:
        """Takes effect at once, and again after a ``Resume`` that came before it and waits."""
        if self._gone(command.box):
            return
        self._paused(command.box)
        if command.box in self._after or self._is_skipping(command.box):
            self._after.setdefault(command.box, []).append(command)

    def resume(self, command: Resume) -> None:
        self._when_free(command)

    def drop(self, command: Drop) -> None:
        """Held at once, so that no further job begins; gone when the present one has ended."""
        if not self._gone(command.box):
            self.core.queries.status[command.box].state = "paused"
            self.hold(command.box)
        self._when_free(command)

    def _gone(self, box: int) -> bool:
        """Whether a command comes too late: another one has dropped its query."""
        return self.core.queries.status[box].state == "dropped"

    def _when_free(self, command: Resume | Drop) -> None:
        self._after.setdefault(command.box, []).append(command)
        self._carry_out_waiting(command.box)

    def _carry_out_waiting(self, box: int) -> None:
        """In the order of the commands, up to one for whose end the others have to wait."""
        waiting = self._after.pop(box, [])
        while waiting and not self.core.queries.in_job(box) and not self._is_skipping(box):
            self._carry_out(waiting.pop(0))
        if waiting:
            self._after[box] = waiting

    def _carry_out(self, command: Pause | Resume | Drop) -> None:
        if isinstance(command, Pause):
            if not self._gone(command.box):
                self._paused(command.box)
        elif self._gone(command.box):
            self.core.emit(Finished(command.command, refused=isinstance(command, Resume)))
        elif isinstance(command, Drop):
            self._dropped(command)
        else:
            self._resume(command)

    def _paused(self, box: int) -> None:
        self.core.queries.status[box].state = "paused"
        self.hold(box)
        self._change("paused", box)

    def _resume(self, command: Resume) -> None:
        box = command.box
        if command.skip and self.core.queries.status[box].behind:
            self._forgo(command)
            return
        failed_on = self.core.queries.status[box].failed_on if command.skip else 0
        if not failed_on or not self.skip({box: failed_on}, RESUMED, self._resumed(command)):
            self._resumed(command)({})

    def _forgo(self, command: Resume) -> None:
        """Tries the delivery once more, and gives up one result if the sink refuses it."""
        box, status = command.box, self.core.queries.status[command.box]
        status.resume(self.core.now_ns)
        self.core.queries.show(box)
        self._change("resumed", box)
        self._forgoing[box] = forgoing = _Forgoing(command)
        if not status.delivering:
            forgoing.delivery = self._redeliver(box, skip=True)

    def _resumed(self, command: Resume) -> Callable[[Mapping[int, int] | None], None]:
        def then(skipped: Mapping[int, int] | None) -> None:
            core, box = self.core, command.box
            if skipped is None:
                core.emit(Finished(command.command, refused=True))
                return
            core.queries.status[box].resume(core.now_ns)
            if core.queries.status[box].held:
                core.queries.show(box)
            else:
                self.release(box)
            self._change("resumed", box)
            core.emit(Finished(command.command, skipped.get(box, 0)))

        return then

    def _dropped(self, command: Drop) -> None:
        core, box = self.core, command.box
        core.queries.status[box].state = "dropped"
        core.queries.forget(box)
        core.compositor.forget(box)
        if core.queries.owner(box) is Owner.HELD:
            core.give_back(box)  # policies hear of the end of queries that are free
        core.policy.on_query_removed(box, core.now_ns)
        core.queries.own(box, Owner.HELD)  # whatever a policy plans, it stays gone
        core.emit(Finished(command.command))

    def _change(self, what: Literal["paused", "resumed"], box: int) -> None:
        self.core.policy.on_change(Change(what, box), self.core.now_ns)

    # Rows that are given up

    def skip(
        self,
        counts: Mapping[int, int],
        why: str,
        then: Callable[[Mapping[int, int] | None], None] = lambda _skipped: None,
    ) -> bool:
        """Gives up so many of the oldest tuples of each query, all in one transaction.

        Not of queries in a job. Of a query over windows, whole windows are given up, at least as
        many as hold so many tuples. The queries are held until it is recorded. False if there is
        nothing to give up; then ``then`` is not called.
        """
        queries = self.core.queries
        taken = {b: queries.inboxes[b].take(n, cuts=True) for b, n in counts.items()}
        given = {b: items for b, items in taken.items() if items}
        if not given:
            return False
        for box in given:
            queries.show(box)
            if queries.owner(box) is Owner.IDLE:
                self.core.withdraw(box, Owner.HELD)
        self._numbered += 1
        self._skips[self._numbered] = _Skipping(given, then)
        told = tuple((box, tuple(items)) for box, items in given.items())
        self.core.emit(Skip(self._numbered, told, why))
        return True

    def skipped(self, event: Skipped) -> None:
        """It is recorded, or it was not and nothing is given up."""
        skip = self._skips.pop(event.skip)
        rows = {box: sum(w.tuples for w in items) for box, items in skip.given.items()}
        for box, items in skip.given.items():
            if event.recorded:
                self.core.queries.status[box].gave_up(rows[box])
            else:
                self.core.queries.inboxes[box].put_back(items)
        for box in skip.given:
            if self.core.queries.status[box].held:
                self.core.queries.show(box)
            else:
                self.release(box)
        skip.then(rows if event.recorded else None)
        for box in skip.given:
            self._carry_out_waiting(box)

    @property
    def skips(self) -> bool:
        """Whether rows are being given up, which is not recorded yet."""
        return bool(self._skips)

    def _is_skipping(self, box: int) -> bool:
        return box in self._forgoing or any(box in skip.given for skip in self._skips.values())

    def skipping(self, box: int) -> list[Waiting]:
        """What is being given up of a query."""
        return [w for skip in self._skips.values() for w in skip.given.get(box, ())]
