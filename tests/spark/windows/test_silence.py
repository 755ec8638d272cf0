"""Silent streams: ``idle_timeout`` measures how long nothing came, whatever the wall clock does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from daybreak.engine.inbox import Tick
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore

S_NS = 1_000_000_000
S_US = 1_000_000
#: Wall and monotonic clocks have nothing to do with each other.
WALL_NS = 1_767_225_600 * S_NS
BOOTED_NS = 500 * S_NS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    with RunDirectory.open(tmp_path, "silent") as rundir:
        log = CommitLog(rundir.state_db)
        yield SegmentStore(rundir, log)
        log.close()


def keeper(store: SegmentStore, monotonic_ns: int = BOOTED_NS) -> EventClocks:
    spec = StreamSpec(
        name="a", format="json", time="at", watermark="1 second", idle_timeout="30 seconds"
    )
    return EventClocks(store, {"a": spec}, {}, monotonic_ns)


def arrive(store: SegmentStore, batch: int, at_s: int) -> None:
    at = pa.array([at_s * S_US], pa.timestamp("us", "UTC"))
    made = store.append("a", "cp", batch, [batch], pa.table({"at": at}), WALL_NS + batch)
    assert made is not None


def look(
    time: EventClocks, wall_s: float, monotonic_s: float, *, blocked: bool = False
) -> list[Tick]:
    """At so many seconds after both clocks' beginnings."""
    wall_ns, monotonic_ns = (round(s * S_NS) for s in (wall_s, monotonic_s))
    return list(
        time.silences(WALL_NS + wall_ns, BOOTED_NS + monotonic_ns, blocked=lambda *_: blocked)
    )


def test_a_step_of_the_wall_clock_is_no_silence(store: SegmentStore) -> None:
    time = keeper(store)
    arrive(store, 0, at_s=100)
    assert look(time, 0, 0) == []
    assert look(time, 3600, 1) == [], "an hour forward between two looks"
    assert look(time, -3600, 2) == []
    arrive(store, 1, at_s=101)
    clock = store.clock("a")
    assert clock is not None
    assert clock.watermark_us == 100 * S_US, "by the rows alone: nothing later is late"


def test_silence_advances_event_time_by_its_length(store: SegmentStore) -> None:
    time = keeper(store)
    arrive(store, 0, at_s=100)
    assert look(time, 1, 1) == []
    assert look(time, 30, 30) == [], "29 s"
    (tick,) = look(time, 31, 31)
    assert (tick.stream, tick.watermark_us) == ("a", (100 + 30 - 1) * S_US)
    assert look(time, 31.5, 31.5) == [], "in steps of a second"
    arrive(store, 1, at_s=200)
    assert look(time, 33, 33) == [], "a row ends the silence"
    assert look(time, 62, 62) == []
    assert len(look(time, 63, 63)) == 1


def test_silence_counts_from_the_start_and_not_while_sources_are_blocked(
    store: SegmentStore,
) -> None:
    keeper(store, monotonic_ns=10**18)
    arrive(store, 0, at_s=100)
    # Another process: its monotonic clock began elsewhere, the row arrived hours ago.
    time = keeper(store)
    assert look(time, 7200, 29) == []
    assert look(time, 7201, 30, blocked=True) == []
    assert look(time, 7230, 59) == []
    (tick,) = look(time, 7231, 60)
    assert tick.watermark_us == (100 + 30 - 1) * S_US


def test_a_stream_whose_source_has_failed_is_not_silent(store: SegmentStore) -> None:
    """What it will bring once it works again must not be late by the time that took."""
    time = keeper(store)
    arrive(store, 0, at_s=100)
    assert look(time, 1, 1) == []
    failing = {"a"}
    assert list(time.silences(WALL_NS, BOOTED_NS + 500 * S_NS, failing=failing)) == []
    assert look(time, 529, 529) == [], "silence counts from its restart"
    assert len(look(time, 531, 531)) == 1


def test_rows_that_are_shown_and_not_read_are_no_silence(store: SegmentStore) -> None:
    now_ns = [BOOTED_NS]
    time, sources = keeper(store), Backpressure(lambda: now_ns[0])

    def ticks(at_s: float) -> list[Tick]:
        now_ns[0] = BOOTED_NS + round(at_s * S_NS)
        return list(time.silences(WALL_NS, now_ns[0], blocked=sources.is_blocked))

    arrive(store, 0, at_s=100)
    sources.is_empty("a", listening=True)
    assert ticks(0) == []
    sources.shows("a")
    assert ticks(29) == []
    assert ticks(500) == [], "rows wait, however long"
    sources.is_empty("a", listening=True)
    assert ticks(529) == [], "silence counts from when there was nothing to read"
    assert len(ticks(531)) == 1


def test_a_source_that_was_not_asked_within_the_timeout_is_not_silent(store: SegmentStore) -> None:
    now_ns = [BOOTED_NS]
    time, sources = keeper(store), Backpressure(lambda: now_ns[0])

    def ticks(at_s: float, *, asked: bool) -> list[Tick]:
        now_ns[0] = BOOTED_NS + round(at_s * S_NS)
        if asked:
            sources.is_empty("a")
        return list(time.silences(WALL_NS, now_ns[0], blocked=sources.is_blocked))

    arrive(store, 0, at_s=100)
    assert ticks(0, asked=True) == []
    assert ticks(31, asked=False) == [], "a question may have no answer yet"
    assert ticks(60, asked=True) == []
    assert ticks(62, asked=False) != [], "31 s after the last doubt"


def test_a_full_log_blocks_every_stream() -> None:
    sources = Backpressure()
    assert not sources.is_blocked("a", 10**18), "a source that says nothing of itself"
    sources.full = True
    assert sources.is_blocked("a", 10**18)
