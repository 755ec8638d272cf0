"""Event time of a whole run: clocks of its streams, silent ones, ends, and what is retained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from daybreak.engine.inbox import Tick
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import FOREVER, Windowing, duration_us
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.views import FORMAT as VIEW

#: How often the watermark of a silent stream follows the clock: each time is a transaction.
STEP_US = 1_000_000


class EventClocks:
    """Makes the store keep time, and moves it where no row does."""

    def __init__(
        self,
        store: SegmentStore,
        streams: Mapping[str, StreamSpec],
        windows: Mapping[str, Windowing],
        monotonic_ns: int,
    ) -> None:
        """``windows``: those of each query that has some.

        ``monotonic_ns``: silence counts from here at the earliest, not over a time when no
        source ran."""
        self._store = store
        #: Newest segment of each stream with an idle_timeout, and since when it is the newest.
        self._heard: dict[str, tuple[int, int]] = {}
        self._windows = dict(windows)
        self._idle_us: dict[str, int] = {}
        self._retain_ns: dict[str, int] = {}
        for name, spec in streams.items():
            place = f"stream {name!r}"
            if spec.time is not None and spec.format == VIEW:
                store.keep_time(name, spec.time, None)
            elif spec.time is not None:
                delay = duration_us(spec.watermark or "0 seconds", place, "watermark")
                store.keep_time(name, spec.time, delay)
                if spec.idle_timeout is not None:
                    self._idle_us[name] = duration_us(spec.idle_timeout, place, "idle_timeout")
                    self._heard[name] = (store.end(name).seq, monotonic_ns)
            if spec.retain is not None:
                self._retain_ns[name] = duration_us(spec.retain, place, "retain") * 1000
        timed = [name for name in streams if store.clock(name) is not None]
        views = [name for name in timed if streams[name].format == VIEW]
        #: Streams in the order in which they end: a view after all that it reads.
        self.stages = [[n for n in timed if n not in views], *([n] for n in views)]

    def adopt(self, name: str, windows: Windowing) -> None:
        """One more query over windows."""
        self._windows = {**self._windows, name: windows}

    def drop(self, name: str) -> None:
        """A query is gone."""
        self._windows = {query: w for query, w in self._windows.items() if query != name}

    def open_late(self, folder: Path, log: CommitLog) -> LateRows:
        return LateRows(folder, self._store, log, self._windows)

    def retained(self, stream: str, low: Cursor, now_ns: int) -> Cursor:
        """What may be removed: below ``low``, but nothing that the stream retains."""
        if stream not in self._retain_ns:
            return low
        since_ns = now_ns - self._retain_ns[stream]
        young = (s.seq for s in self._store.segments(stream) if s.arrival_ns >= since_ns)
        return min(low, Cursor(next(young, low.seq), 0))

    def silences(
        self,
        now_ns: int,
        monotonic_ns: int,
        *,
        blocked: Callable[[str, int], bool] = lambda _stream, _idle_ns: False,
        failing: Collection[str] = (),
    ) -> Iterator[Tick]:
        """Advances the event time of a stream that has been silent for its idle_timeout.

        Its event time is taken to be the last one plus the silence, the delay is kept. The mark
        is durable before anything closes by it, so what comes later is late by the log.

        Silence is measured by the monotonic clock, from the call that first found the newest
        segment: the wall clock may step, and rows must not be late because it did. ``blocked``
        tells whether rows of a stream may be there that ingest has not read, or not looked for
        within a time: then it is not silent. Neither are the streams ``failing``, whose sources
        have failed: what they will bring must not be late.
        """
        for stream, idle_us in self._idle_us.items():
            clock, end = self._store.clock(stream), self._store.end(stream).seq
            unread = stream in failing or blocked(stream, idle_us * 1000)
            if unread or self._heard[stream][0] != end:
                self._heard[stream] = (end, monotonic_ns)
            if clock is None or clock.high_us is None:
                continue
            silent_us = (monotonic_ns - self._heard[stream][1]) // 1000
            if silent_us < idle_us:
                continue
            watermark = clock.high_us + silent_us - (clock.delay_us or 0)
            if watermark >= clock.watermark_us + STEP_US:
                yield from self._raised(stream, watermark, now_ns)

    def ends(self, streams: Sequence[str], now_ns: int) -> Iterator[Tick]:
        """The input has ended: closes every window over these streams that holds a row."""
        clocks = [self._store.clock(stream) for stage in self.stages for stream in stage]
        highs = [c.high_us for c in clocks if c is not None and c.high_us is not None]
        if not highs:
            return
        reach = max((w.reach_us for w in self._windows.values()), default=0)
        for stream in streams:
            yield from self._raised(stream, min(FOREVER, max(highs) + 2 * reach), now_ns)

    def _raised(self, stream: str, watermark_us: int, now_ns: int) -> Iterator[Tick]:
        if self._store.raise_watermark(stream, watermark_us):
            yield Tick(now_ns, stream, 0, watermark_us)
