"""Views: boxes that several queries share. A view is a query whose rows are a stream.

Its sink is the segment store: what a job of the view has committed becomes one more segment, with
the arrival of the oldest tuple it answers, so that response times run through. Queries over the
view read that stream as they read any other. Windows over a view whose rows stand alone are
computed from the view's own streams instead: what is late is a matter of their log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.engine.inbox import Tick, Waiting
from daybreak.spark.log.durable import file_name, make_folder, same_folder, write_durably
from daybreak.spark.log.event_time import FOREVER, Grid, Windowing
from daybreak.spark.log.large_segments import adopted
from daybreak.spark.log.rows import CommittedFile, Move, ProgressMove, StagedFile
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.sinks.task_writers import TaskWriter, write_parquet

#: Format of the streams that views make.
FORMAT = "view"
_ARRIVAL = b"daybreak.arrival_ns"
#: Smaller results of executors pass the driver: a file for a few rows is a job for a few rows.
ADOPT_BYTES = 2**20
#: Of results that executors have written.
_BY_TASKS = b"daybreak.by_tasks"


T = TypeVar("T")


def box_name(view: str) -> str:
    """The name of the query that computes a view; the view's own name is that of its stream."""
    return f"view {view}"


@dataclass
class _Bound:
    store: SegmentStore
    on_segment: Callable[[Segment], None]
    on_tick: Callable[[Tick], None]


class ViewSink:
    """Turns the results of a view into segments of its stream, exactly once."""

    exactly_once = True

    def __init__(self, view: str, staging: Path, windowing: Windowing | None, time: str | None):
        self.query = box_name(view)
        self.view = view
        self._staging = staging / file_name(self.query)
        self._windowing = windowing
        self._time = time
        self._bound: _Bound | None = None

    @property
    def folder(self) -> Path | None:
        return None  # its rows go into the log

    def bind(
        self,
        store: SegmentStore,
        on_segment: Callable[[Segment], None] = lambda _segment: None,
        on_tick: Callable[[Tick], None] = lambda _tick: None,
    ) -> None:
        """Call it before the first ``deliver``; with listeners before the first job."""
        self._bound = _Bound(store, on_segment, on_tick)

    def stage(self, job: str, table: pa.Table) -> list[StagedFile]:
        if table.num_rows == 0:
            return []
        path = make_folder(self._staging) / f"{job}-{file_name(self.query)}.parquet"
        write_durably(path, lambda out: pq.write_table(table, out))
        return [StagedFile(self.query, path, table.num_rows)]

    def task_writer(self, job: str, arrival_ns: int) -> TaskWriter:
        stamp = ((_ARRIVAL, str(arrival_ns).encode()), (_BY_TASKS, b"yes"))
        return TaskWriter(self.query, job, self._staging, ".parquet", write_parquet, metadata=stamp)

    def deliver(self, file: CommittedFile) -> bool:
        assert self._bound is not None
        if not file.path.exists():
            return False
        store, listed = self._bound.store, self._bound.on_segment
        if self._was_removed(file, store.segments(self.view)):
            file.path.unlink()  # a power cut brought it back
            return False
        about = pq.read_schema(file.path).metadata or {}
        arrival_ns = int(about[_ARRIVAL])
        # The file's number grows with every commit; a second delivery finds the first.
        batch = self.view, "view", file.id, [file.id]
        if _BY_TASKS in about and file.path.stat().st_size > ADOPT_BYTES:
            adopt = partial(adopted, file.path)
            store.append_files(*batch, adopt, arrival_ns, listed=listed)
        else:
            rows = pq.read_table(file.path, partitioning=None).replace_schema_metadata(None)
            store.append(*batch, rows, arrival_ns, listed=listed)
        file.path.unlink()
        return True

    def has(self, file: CommittedFile) -> bool:
        """Whether its segment was appended; it may be removed by now, but not those after it."""
        assert self._bound is not None
        newest = self._bound.store.segments(self.view)[-1:]
        return bool(newest) and newest[0].batch_id >= file.id

    @staticmethod
    def _was_removed(file: CommittedFile, kept: Sequence[Segment]) -> bool:
        """Whether its rows were in the stream, and all have read them: later ones are there."""
        return bool(kept) and kept[0].batch_id > file.id

    def owns(self, file: CommittedFile) -> bool:
        return same_folder(file.path.parent, self._staging)

    def target(self, _file: CommittedFile) -> Path | None:
        return None  # the segment is durable once it is delivered

    def discard(self, file: CommittedFile) -> None:
        file.path.unlink(missing_ok=True)

    def staged(self) -> list[Path]:
        return sorted(self._staging.iterdir()) if self._staging.is_dir() else []

    def publish(self, *, now: bool) -> None:
        """Nothing: what is delivered is visible."""

    def settled(self, _file: CommittedFile) -> bool:
        return True

    def close(self) -> None:
        """Nothing to release."""

    def closed(self, closed_us: int, at_ns: int) -> None:
        """All windows up to here are in the stream: later rows have later times."""
        if self._windowing is None or self._time is None or self._bound is None:
            return
        grid = self._windowing.over
        assert isinstance(grid, Grid)
        is_start = self._windowing.marks[self._time] == "start"
        next_end = grid.last_closed(closed_us) + grid.slide_us
        watermark = next_end - (grid.length_us if is_start else 0)
        watermark = FOREVER if closed_us >= FOREVER else min(FOREVER, watermark)
        if self._bound.store.raise_watermark(self.view, watermark):
            self._bound.on_tick(Tick(at_ns, self.view, 0, watermark))


class _Query(Protocol):
    @property
    def sink(self) -> object: ...


def stamped(queries: Sequence[_Query], results: Sequence[T], taken: Sequence[Waiting]) -> list[T]:
    """The results; those of views remember when the oldest tuple they answer had arrived.

    What executors have staged does already (``task_writer``).
    """
    stamp = {_ARRIVAL: str(min(item.arrival_ns for item in taken)).encode()}
    return [
        result.replace_schema_metadata(stamp)
        if isinstance(query.sink, ViewSink) and isinstance(result, pa.Table)
        else result
        for query, result in zip(queries, results, strict=True)
    ]


def advance(sink: object, moves: Sequence[Move], at_ns: int) -> None:
    """After the commit of a job: a view over windows raises the watermark of its stream."""
    if isinstance(sink, ViewSink):
        for move in moves:
            if isinstance(move, ProgressMove):
                sink.closed(move.new_us, at_ns)
