"""Steps and the feed: what a micro-batch reads is written down first, and kept for repetitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak.engine.inbox import Waiting
from daybreak.model import ConfigError
from daybreak.spark.log import rows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.large_segments import read_footers
from daybreak.spark.log.rows import Cursor, CursorMove, Part
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.stateful import feed as feeds
from daybreak.spark.stateful.feed import Feed
from daybreak.spark.stateful.steps import Steps, StepTaken, named_files

BEGIN, END = Cursor(0, 0), Cursor(2, 0)


def test_a_step_is_pending_until_the_query_is_past_it(tmp_path: Path) -> None:
    steps = Steps(tmp_path / "steps")
    assert steps.pending({"s": BEGIN}, "q") is None
    made = steps.add({"s": (BEGIN, END)}, {"s": ["a.parquet", "b.parquet"]})
    again = Steps(tmp_path / "steps")  # another process finds it
    assert again.pending({"s": BEGIN, "other": END}, "q") == made
    assert made.cursor_moves("q") == [CursorMove("q", "s", BEGIN, END)]
    assert again.pending({"s": END}, "q") is None
    with pytest.raises(ConfigError, match="were given up"):
        again.pending({"s": Cursor(1, 0)}, "q")


def without_links(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("link", [os.link, without_links])
def test_of_two_drivers_that_plan_a_step_the_later_makes_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[..., None]
) -> None:
    monkeypatch.setattr(os, "link", link)
    suspended, other = Steps(tmp_path / "steps"), Steps(tmp_path / "steps")
    made = other.add({"s": (BEGIN, END)}, {"s": ["a.parquet", "b.parquet"]})
    with pytest.raises(StepTaken):
        suspended.add({"s": (BEGIN, Cursor(1, 0))}, {"s": ["a.parquet"]})
    assert suspended.pending({"s": BEGIN}, "q") == made
    assert Steps(tmp_path / "steps").newest == made
    assert [path.name for path in (tmp_path / "steps").iterdir()] == ["0.json"]


def test_the_newest_step_stays_for_a_restart_of_spark(tmp_path: Path) -> None:
    steps = Steps(tmp_path / "q" / "steps")
    for number in range(3):
        at = Cursor(number, 0), Cursor(number + 1, 0)
        steps.forget_before(steps.add({"s": at}, {"s": [f"{number}.parquet"]}))
    again = Steps(tmp_path / "q" / "steps")
    assert again.newest is not None
    assert again.newest.number == 2
    assert named_files(tmp_path) == {"2.parquet"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    with RunDirectory.open(tmp_path / "run", "app") as rundir:
        log = CommitLog(rundir.state_db)
        made = SegmentStore(rundir, log)
        for batch in range(4):
            made.append("s", "c", batch, [batch], pa.table({"n": [batch, batch]}), 10 + batch)
        yield made
        log.close()


def test_the_feed_writes_a_segment_once_and_removes_it_when_all_have_passed(
    store: SegmentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "TIDY_S", 0.0)
    feed = Feed(tmp_path / "feed", store)
    [first, second, third] = (Waiting(10, "s", 2, seq) for seq in range(3))
    files = feed.files([first, second])["s"]
    assert [pq.read_table(file)["n"].to_pylist() for file in files] == [[0, 0], [1, 1]]
    written = Path(files[0]).stat().st_mtime_ns
    files = feed.files([first, second, third])["s"]
    assert Path(files[0]).stat().st_mtime_ns == written, "another query finds it there"
    assert feed.is_untidy()
    feed.tidy({"s": 2}, named=[files[1]])
    assert [Path(file).exists() for file in files] == [False, True, True], "one may be repeated"
    feed.tidy({}, named=[])
    assert not any(Path(file).exists() for file in files), "nobody reads the stream any more"


def test_the_feed_holds_each_piece_of_a_large_segment_once(
    store: SegmentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "TRAIN_BYTES", 1)

    def write(folder: Path, _time: str | None) -> tuple[Part, ...]:
        folder.mkdir()
        for number, values in enumerate(([1, 2, 3], [4, 5])):
            pq.write_table(pa.table({"n": values}), folder / f"part-{number}.parquet")
        return read_footers(folder).parts

    segment = store.append_files("s", "c", 4, [4], write, 14)
    assert segment is not None
    pieces = store.waiting("s", Cursor(segment.seq, 0))
    assert len(pieces) == 2
    feed = Feed(tmp_path / "feed", store)
    files = feed.files(pieces)["s"]
    assert [pq.read_table(file)["n"].to_pylist() for file in files] == [[1, 2, 3], [4, 5]]
    feed.tidy({"s": segment.seq}, named=[])
    assert all(Path(file).exists() for file in files), "the query is at this segment"
    feed.tidy({"s": segment.seq + 1}, named=[])
    assert not any(Path(file).exists() for file in files)
