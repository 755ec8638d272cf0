"""Orders of the engine become grants, one after the other, and restarts of failed queries."""

from __future__ import annotations

import threading
from collections.abc import Callable

from daybreak.engine.events import Done, Failure, JobBegan, JobEnded
from daybreak.engine.instructions import StartJob
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import one_line
from daybreak.spark.gates.bridge import Bridge, UnitGroup
from daybreak.spark.governed.backlog import is_asked
from daybreak.spark.governed.governed_queries import NOTHING, Governed, GrantOrder, Grants, Job
from daybreak.spark.governed.roster import Roster


class Granting:
    """What workers are at. One thread uses it; restarts have threads of their own."""

    def __init__(
        self, roster: Roster, bridge: Bridge, later: Callable[[Callable[[], None]], object]
    ) -> None:
        """``later`` does something on the loop's thread."""
        self._roster = roster
        self._bridge = bridge
        self._later = later
        self.grants = Grants()

    def start(self, job: StartJob) -> None:
        """A worker is to see to these queries, one after the other."""
        self._begin(GrantOrder(job))

    def running(self, number: int) -> Governed | None:
        """The query that has an order now."""
        for query in self._roster.by_box.values():
            if query.job is not None and query.job.order.started.order == number:
                return query
        return None

    def _begin(self, order: GrantOrder) -> None:
        """Grants the next query of an order, or ends it."""
        while (group := order.group) is not None:
            query = self._roster.by_box.get(group.boxes[0])
            if query is not None and query.can_begin:
                break
            if query is not None:  # what waits is announced when it has ended: see ``hangs``
                query.left(())
            order.done.append(NOTHING)
        else:
            self._end(order)
            return
        if order.done:
            self._roster.came.append(JobBegan(order.started.order, len(order.done)))
        units = self._roster.units(query, group.allowed)
        query.job = Job(order, group.taken, CLOCK.now_ns(), units)
        query.left(())
        if query.run is not None:
            self.grant(query)
        else:
            threading.Thread(
                target=self._restart, args=(query,), name="daybreak-restart", daemon=True
            ).start()

    def grant(self, query: Governed) -> None:
        """Of a query that is gone by now, the end is reported soon."""
        assert query.run is not None
        assert query.job is not None
        query.parked = False
        self._bridge.grant(query.run, query.job.units)

    def used(self, query: Governed, job: Job, groups: tuple[UnitGroup, ...]) -> None:
        """A query has used its grant, and so much is left."""
        if job.ran:
            self.grants.add(since(job.began_ns), job.cost_ns)
        elif not all(map(is_asked, job.taken)):
            # Its source gives nothing of what waits yet, such as one with minOffsetsPerTrigger.
            # Granted again at once, it would hold a worker; the next probe reports it again.
            groups = ()
        left = tuple(self._roster.waiting(query, group) for group in sorted(groups))
        query.left(groups)
        self._next(query, job.done(query.box, left, CLOCK.now_ns()), job.cost_ns)

    def stopped(self, query: Governed) -> None:
        """A query ended inside its turn, and not by a failure."""
        self._next(query, NOTHING, 0)

    def failed(self, query: Governed, failure: Failure) -> None:
        """The turn of a query has failed: the engine decides what becomes of it."""
        assert query.job is not None
        order, began_ns, query.job = query.job.order, query.job.began_ns, None
        order.cost_ns += since(began_ns)
        self._end(order, failure)

    def _next(self, query: Governed, done: Done, cost_ns: int) -> None:
        """The order goes on with its next query, or ends."""
        assert query.job is not None
        order, query.job = query.job.order, None
        order.cost_ns += cost_ns
        order.done.append(done)
        self._begin(order)

    def _end(self, order: GrantOrder, failure: Failure | None = None) -> None:
        number, done = order.started.order, tuple(order.done)
        self._roster.came.append(JobEnded(number, done, failure, order.cost_ns))

    def _restart(self, query: Governed) -> None:
        """On a thread of its own: Spark answers when the query has started."""
        assert query.restart is not None
        try:
            query.restart()
        except Exception as error:
            failure = Failure(one_line_of(error))
            self._later(lambda: None if query.job is None else self.failed(query, failure))


def since(began_ns: int) -> int:
    return max(0, CLOCK.now_ns() - began_ns)


def one_line_of(error: BaseException) -> str:
    """In one line, without the class of an error that only carries a text."""
    return one_line(error).removeprefix("RuntimeError: ")
