"""Orders: what workers are given, and what becomes of it.

A policy's plan becomes groups, each of which is one job: the query that was asked for and those
that run along. The tuples of a group are taken from the inboxes when the order is given. They
are answered, or they go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from daybreak.engine.core import Core
from daybreak.engine.events import Done, JobBegan, JobEnded, Ran
from daybreak.engine.inbox import Waiting, same_range
from daybreak.engine.instructions import (
    DEBUG,
    AbandonJob,
    Account,
    AccountFailure,
    CancelJob,
    Group,
    StartJob,
)
from daybreak.engine.lifecycle import Lifecycle
from daybreak.engine.queries import Owner
from daybreak.policies.base import Plan, Step, Work

#: How long a cancelled job may take to notice, and how often it is cancelled: only what has begun
#: is, and a stage may begin late.
GRACE_NS = 5_000_000_000
CANCEL_EVERY_NS = 1_000_000_000


@dataclass(slots=True)
class Order:
    """Work that a worker has."""

    number: int
    worker: int
    plan: Plan
    groups: tuple[Group, ...]
    express: bool
    #: The policy that asked for it.
    epoch: int
    #: When its present group began, and when it is to be cancelled next.
    began_ns: int
    cancel_ns: int = 0
    #: Its present group.
    group: int = 0
    #: It was to be abandoned, which is asked for once per group.
    abandoned: bool = False

    @property
    def boxes(self) -> list[int]:
        """Every query that it keeps from others; a plan may name one that holds nothing."""
        asked = [step.box for step in self.plan.steps]
        return list(dict.fromkeys([*asked, *(b for group in self.groups for b in group.boxes)]))


class Orders:
    """The orders under way."""

    def __init__(self, core: Core, lifecycle: Lifecycle) -> None:
        self._core = core
        self._lifecycle = lifecycle
        self._numbered = 0
        self.under_way: dict[int, Order] = {}

    def start(self, worker: int, plan: Plan, owner: Owner, work: Work) -> None:
        """Gives a worker what a plan asks for; ``work`` is what deciding on it took."""
        core = self._core
        for step in plan.steps:
            core.queries.own(step.box, owner)
        sized = core.policy.sizes_trains and owner is Owner.PLANNED
        groups = tuple(
            self._group(step, sized) for step in plan.steps if core.state.pending[step.box]
        )
        self._numbered += 1
        order = Order(
            self._numbered, worker, plan, groups, owner is Owner.EXPRESS, core.epoch,
            core.now_ns,
        )  # fmt: skip
        self.under_way[order.number] = order
        core.emit(StartJob(order.number, worker, plan, groups, replace(work)))
        withdrawn = [plan.steps[0].box] if order.express else []
        for box in (*withdrawn, *(rider for group in groups for rider in group.boxes[1:])):
            core.policy.on_withdrawn(box, core.now_ns)

    def _group(self, step: Step, sized: bool) -> Group:
        """Takes what the step says for its query, and the same for those that run along."""
        core, inboxes = self._core, self._core.queries.inboxes
        some = ceil(inboxes[step.box].tuples * step.fraction)
        limits = (some, step.limit, core.queries.status[step.box].limit)
        limit = min(n for n in limits if n is not None)
        boxes, cell, tuples = core.compositor.group(step.box, max(1, limit), sized=sized)
        # A query that has failed narrows it down to the tuple.
        cuts = core.queries.status[step.box].limit is not None
        taken = inboxes[step.box].take(tuples, cuts=cuts)
        riders = [b for b in boxes[1:] if self._joins(b, taken, tuples, cuts)]
        for b in (step.box, *riders):
            core.queries.show(b)
        for rider in riders:
            core.queries.own(rider, Owner.RIDING)
        allowed = inboxes[step.box].allowed
        return Group((step.box, *riders), tuple(taken), tuple(cell), allowed)

    def _joins(self, box: int, taken: Sequence[Waiting], tuples: int, cuts: bool) -> bool:
        """Takes the same for a rider; False, and nothing is taken, if it is at another place.

        The compositor compares how much waits, which is nearly always the same place.
        """
        inbox = self._core.queries.inboxes[box]
        mine = inbox.take(tuples, cuts=cuts)
        if same_range(mine, taken):
            return True
        inbox.put_back(mine)
        return False

    def began(self, event: JobBegan) -> None:
        order = self.under_way.get(event.order)
        if order is not None:
            order.group, order.began_ns, order.cancel_ns = event.group, self._core.now_ns, 0
            order.abandoned = False  # where a commit kept the job before this one from that

    def watch(self) -> None:
        """Cancels jobs that are past their time limit, and gives up those that do not end."""
        core = self._core
        timeout_ns = round(core.settings.limits.job_timeout_s * 1e9)
        for order in self.under_way.values():
            late_ns = core.now_ns - order.began_ns - timeout_ns
            if late_ns <= 0:
                continue
            if core.now_ns >= order.cancel_ns:
                order.cancel_ns = core.now_ns + CANCEL_EVERY_NS
                core.emit(CancelJob(order.worker, order.number, order.group))
            if late_ns > GRACE_NS and not order.abandoned:
                order.abandoned = True
                core.emit(AbandonJob(order.worker, order.number, order.group))

    def ended(self, event: JobEnded) -> Order:
        """Accounts for an order, and gives its queries back or holds them."""
        core, queries = self._core, self._core.queries
        order = self.under_way.pop(event.order)
        tried = [*event.done, *[Done((), None)] * (len(order.groups) - len(event.done))]
        jobs = [self._as_read(*job) for job in zip(order.groups, tried, strict=True)]
        # The last job first: what it took goes back behind what jobs before it took.
        for group, done in reversed(jobs):
            for box in _left(group, done) if done.read is None else ():
                queries.inboxes[box].put_back(list(group.taken))
        costs: dict[int, int] = {}
        for i, (group, done) in enumerate(jobs):
            if done.ran is not None:
                costs.update(zip(done.boxes, self._account(order, group, done), strict=True))
            if i <= len(event.done):
                core.compositor.alone.update(_suspects(group, done, event))
        if event.failure is not None:
            failed = order.groups[len(event.done)]
            self._lifecycle.failed(failed.boxes[0], event.failure, failed.tuples)
            core.emit(AccountFailure(order.worker, failed.boxes, failed.tuples, event.cost_ns))
        for box in order.boxes:
            queries.show(box)
        self._give_back(order, costs, event.cost_ns)
        for box in order.boxes:
            self._lifecycle.after_job(box)
        return order

    def _as_read(self, group: Group, done: Done) -> tuple[Group, Done]:
        """A query whose source decides what it reads: accounts for that, and keeps the rest."""
        if done.read is None:
            return group, done
        (box,) = group.boxes
        read = group._replace(taken=done.read)
        left = sum(item.tuples for item in done.left)
        self._core.queries.inboxes[box].put_back(list(done.left))
        # What was announced was an estimate.
        self._core.state.arrived[box] += read.tuples + left - group.tuples
        return read, done

    def _give_back(self, order: Order, costs: dict[int, int], cost_ns: int) -> None:
        """All are free before the policy hears of the first: it may look at any of them."""
        core, queries = self._core, self._core.queries
        riders = [b for group in order.groups for b in group.boxes[1:]]
        for box in order.boxes:
            queries.own(box, Owner.IDLE)
        if order.epoch != core.epoch:  # another policy asked for it
            for box in order.boxes:
                core.policy.on_returned(box, 0, core.now_ns)
            return
        rest_ns = max(0, cost_ns - sum(costs.get(box, 0) for box in riders))
        if order.express:
            core.policy.on_returned(order.plan.steps[0].box, rest_ns, core.now_ns)
        else:
            core.policy.on_completion(order.plan, order.worker, rest_ns, core.now_ns)
        for box in riders:
            core.policy.on_returned(box, costs.get(box, 0), core.now_ns)

    def _account(self, order: Order, group: Group, done: Done) -> tuple[int, ...]:
        """Books a job on its queries; returns what each of them cost."""
        core, ran = self._core, done.ran
        assert ran is not None
        shares = self._learn(group, done, ran)
        core.emit(Account(order.worker, done.boxes, group.taken, ran, shares))
        core.tell_results(done.boxes, group.taken, ran)
        first = done.boxes[0]
        core.notice(
            "job", "ended", first, level=DEBUG, along=len(done.boxes) - 1, tuples=group.tuples,
            rows=sum(ran.rows), seconds=(ran.work_ns + ran.commit_ns) / 1e9,
        )  # fmt: skip
        for box in done.boxes:
            name = core.queries.facts[box].name
            if name in ran.undelivered:
                core.queries.status[box].behind = True
                self._lifecycle.failed(box, ran.undelivered[name], 0)
            else:
                self._lifecycle.succeeded(box, group.tuples)
        # The bad record may be in the rest of the range: there it would fail all others again.
        if len(done.boxes) == 1 and not core.queries.status[first].doubtful:
            core.compositor.alone.discard(first)
        return shares

    def _learn(self, group: Group, done: Done, ran: Ran) -> tuple[int, ...]:
        state, tuples = self._core.state, group.tuples
        cost_ns = ran.work_ns + ran.commit_ns
        # Where the group failed, what was compiled in the end is the one that was asked, alone.
        cell = group.cell if len(done.boxes) == len(group.boxes) else done.boxes
        if ran.computed:
            # How long a train of whole items is, nobody chose.
            whole = any(item.whole for item in group.taken)
            shares = self._core.compositor.learn(
                list(done.boxes), list(cell), tuples, cost_ns, chosen=not whole
            )
        else:
            shares = [cost_ns, *[0] * (len(done.boxes) - 1)]
        for box, rows, share in zip(done.boxes, ran.rows, shares, strict=True):
            state.calls[box] += 1
            state.tuples_in[box] += tuples
            state.tuples_out[box] += rows
            state.work_ns[box] += share
            if tuples and ran.computed:  # else there is nothing to divide its cost by
                state.refine(box, tuples, rows, share)
        return tuple(shares)


def _left(group: Group, done: Done) -> list[int]:
    """The queries of a group that did not run."""
    return [b for b in group.boxes if b not in done.boxes]


def _suspects(group: Group, done: Done, event: JobEnded) -> list[int]:
    """Of the queries whose job did not end well, those that must run by themselves next.

    What is compiled holds the whole group, so one bad query in it fails all others.
    """
    left, failure = _left(group, done), event.failure
    if done.boxes:  # the one that was asked ran by itself, and well: another failed the group
        return left
    if failure is None or failure.ours:
        return []  # nothing failed, or our own log did
    # A job that timed out was not repeated query by query; any of them may be the slow one.
    return left if failure.timeout else left[:1]
