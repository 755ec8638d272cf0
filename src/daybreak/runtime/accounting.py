"""Accounts for jobs: response times, staleness, the record. The same on Spark and in replays."""

from __future__ import annotations

from daybreak.engine.engine import Engine
from daybreak.engine.instructions import Account, AccountFailure, Shed, StartJob
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.why.book import Stamped, WaitBook


class Accounts:
    """Everything that is counted of what an engine does. One thread uses it."""

    def __init__(
        self,
        engine: Engine,
        monitor: Monitor,
        recorder: Recorder | None = None,
        history: History | None = None,
        start_ns: int = 0,
        waits: WaitBook | None = None,
    ) -> None:
        """``start_ns``: instants of the record count from here.

        ``waits`` notes the slowest answers; a replay has none.
        """
        self._engine = engine
        self.monitor = monitor
        self._recorder = recorder
        self.history = history
        self.start_ns = start_ns
        self._waits = waits

    def listed(self, segment: Stamped, now_ns: int) -> None:
        """A segment is listed, and the engine learns of it now."""
        self.arrived(segment.stream, segment.arrival_ns, segment.rows)
        if self._waits is not None:
            self._waits.arrived(segment, now_ns)

    def decided(self, job: StartJob, now_ns: int) -> None:
        """A worker is given an order now."""
        self.monitor.decisions += 1
        self.monitor.invoked(0, job.work)
        if self._waits is not None:
            self._waits.started(job, now_ns)

    def arrived(self, stream: str, arrival_ns: int, tuples: int) -> None:
        if self._recorder is not None:
            self._recorder.arrived(stream, arrival_ns - self.start_ns, tuples)

    def charge(self, scheduling_ns: int) -> None:
        """A decision took so long, where nobody measures it."""
        self.monitor.scheduling_ns += scheduling_ns

    def ran(self, job: Account) -> None:
        """Books a job on its queries."""
        ran, monitor, history, start_ns = job.ran, self.monitor, self.history, self.start_ns
        view = self._engine.view
        tuples = sum(item.tuples for item in job.taken)
        left_ns = ran.committed_at_ns - start_ns
        monitor.work_ns += ran.work_ns
        monitor.call_ns += ran.commit_ns
        if ran.way is not None:
            monitor.ways[ran.way] += 1
        each = zip(job.boxes, ran.rows, job.shares, ran.stale_since_ns, strict=True)
        for box, rows, share, since_ns in each:
            if since_ns is not None:
                monitor.was_stale(box, since_ns - start_ns, left_ns)
                if history is not None:
                    history.was_stale(box, since_ns, ran.committed_at_ns)
            cls = view.query_class[box]
            for item in job.taken:
                monitor.answered(box, item.arrival_ns - start_ns, left_ns, item.tuples, cls)
                if history is not None:
                    history.answered(box, item.arrival_ns, ran.committed_at_ns, item.tuples)
            if self._recorder is not None:
                name = view.facts[box].name
                self._recorder.ran(name, left_ns, tuples, rows, share, len(job.boxes))
        if history is not None:
            end_ns = ran.began_ns + ran.work_ns + ran.commit_ns
            history.ran(
                job.worker, job.boxes, ran.began_ns, end_ns, tuples=tuples, rows=sum(ran.rows)
            )
        if self._waits is not None:
            self._waits.ran(job)

    def failed(self, job: AccountFailure, now_ns: int) -> None:
        """A job failed; only watchers learn of it."""
        if self._waits is not None:
            self._waits.failed(job, now_ns)
        if self.history is not None:
            self.history.ran(
                job.worker, job.boxes, now_ns - job.cost_ns, now_ns, tuples=job.tuples, rows=0,
                failed=True,
            )  # fmt: skip

    def shed(self, shed: Shed, now_ns: int = 0) -> None:
        """Tuples were given up under overload; ``now_ns`` is for those who note waits."""
        for box, tuples in shed.tuples.items():
            self.monitor.dropped(box, tuples)
        if self._waits is not None:
            self._waits.shed(shed.tuples, now_ns)

    def tick(self, now_ns: int) -> None:
        """Samples the backlog, if that is due; watchers get a point a second."""
        monitor = self.monitor
        if self._waits is not None:
            self._waits.tick(now_ns)
        if now_ns - self.start_ns >= monitor.next_sample_ns:
            monitor.sample(now_ns - self.start_ns, self._engine.look())
        if self.history is not None:
            busy_ns = monitor.work_ns + monitor.call_ns
            arrived = self._engine.look().arrived
            self.history.tick(now_ns, arrived, monitor.scheduling_ns, busy_ns)
