"""Books a job on its queries: response times, costs, estimates, the record."""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.engine.compositing import Compositor
from daybreak.engine.state import SystemState
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.spark.jobs import Ran
from daybreak.spark.segments import Segment
from daybreak.spark.workers import Group


class Books:
    """Everything that is counted. Used by the loop's thread alone."""

    def __init__(
        self,
        state: SystemState,
        monitor: Monitor,
        recorder: Recorder,
        history: History,
        start_ns: int,
    ) -> None:
        self.monitor = monitor
        self._state = state
        self._recorder = recorder
        self.history = history
        self.start_ns = start_ns
        #: Rows that arrived so far, by stream.
        self.arrived_rows: dict[str, int] = {}

    def arrived(self, segment: Segment) -> None:
        at_ns = segment.arrival_ns - self.start_ns
        self._recorder.arrived(segment.stream, at_ns, segment.rows)
        before = self.arrived_rows.get(segment.stream, 0)
        self.arrived_rows[segment.stream] = before + segment.rows

    def job(
        self,
        names: Sequence[str],
        boxes: list[int],
        group: Group,
        ran: Ran,
        learner: Compositor,
        worker: int,
    ) -> list[int]:
        """Books a worker's job on its queries; returns what each of them cost."""
        taken = group.taken
        state, monitor, tuples = self._state, self.monitor, sum(w.tuples for w in taken)
        left_ns = ran.committed_at_ns - self.start_ns
        monitor.work_ns += ran.work_ns
        monitor.call_ns += ran.commit_ns
        cost_ns = ran.work_ns + ran.commit_ns
        shares = learner.learn(boxes, group.cell, tuples, cost_ns)
        done = zip(names, boxes, ran.rows, shares, ran.stale_since_ns, strict=True)
        for name, box, rows, share, since_ns in done:
            if since_ns is not None:
                monitor.was_stale(box, since_ns - self.start_ns, left_ns)
                self.history.was_stale(box, since_ns, ran.committed_at_ns)
            cls = state.query_class[box]
            for item in taken:
                monitor.answered(box, item.arrival_ns - self.start_ns, left_ns, item.tuples, cls)
                self.history.answered(box, item.arrival_ns, ran.committed_at_ns, item.tuples)
            state.calls[box] += 1
            state.tuples_in[box] += tuples
            state.tuples_out[box] += rows
            state.work_ns[box] += share
            state.refine(box, tuples, rows, share)
            self._recorder.ran(name, left_ns, tuples, rows, share, len(boxes))
        self.history.ran(
            worker, boxes, ran.began_ns, ran.began_ns + cost_ns,
            tuples=tuples, rows=sum(ran.rows),
        )  # fmt: skip
        return shares

    def failed(self, worker: int, group: Group, cost_ns: int, now_ns: int) -> None:
        """A worker's job failed; only whoever watches is told."""
        tuples = sum(w.tuples for w in group.taken)
        self.history.ran(
            worker, group.boxes, now_ns - cost_ns, now_ns, tuples=tuples, rows=0, failed=True
        )

    def tick(self, now_ns: int, arrived: Sequence[int]) -> None:
        """Whoever watches gets a point a second; ``arrived``: tuples of each query so far."""
        monitor = self.monitor
        self.history.tick(now_ns, arrived, monitor.scheduling_ns, monitor.work_ns + monitor.call_ns)
