"""The journal of a run on disk, whole or not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.engine.made import Bench

from daybreak.engine.events import SegmentArrived, Woke
from daybreak.engine.inbox import Inbox
from daybreak.engine.queries import QueryFacts
from daybreak.model.errors import ConfigError
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.journal_file import JournalRecorder, load_journal
from daybreak.runtime.journal_replay import replay_run
from daybreak.runtime.record import JOURNAL_FILE, RecordParts

DAY_NS = 86_400 * 10**9


def write(record: Path, parts: int = 3, max_bytes: int = 2**20) -> RecordParts:
    """A journal of some parts, a second and two entries each."""
    made = Bench([QueryFacts("q", ("s",))], policy=make_policy_with("fcfs"), now_ns=DAY_NS)
    recorder = JournalRecorder(made.engine.journal, DAY_NS)
    written = RecordParts(record, max_bytes)
    for _ in range(parts):
        made.now_ns += 10**9
        made.tell(SegmentArrived(made.segment("s", 3)))
        made.tell(Woke())
        recorder.collect()
        written.add(recorder.table())
        written.write()
    return written


def test_a_whole_journal_is_replayed(tmp_path: Path) -> None:
    write(tmp_path / "run" / "record")
    found = replay_run(tmp_path / "run")
    assert (found.entries, found.decisions, found.divergence) == (6, 1, None)


def test_parts_that_were_joined_are_in_order(tmp_path: Path) -> None:
    write(tmp_path, parts=70)
    assert len(list((tmp_path / JOURNAL_FILE).iterdir())) < 60
    assert replay_run(tmp_path).entries == 140


def test_without_its_start_a_journal_is_not_replayed(tmp_path: Path) -> None:
    write(tmp_path, parts=5, max_bytes=3000)
    with pytest.raises(ConfigError, match=r"begins at \d\d:\d\d:\d\d, a replay needs the start"):
        load_journal(tmp_path)


def test_a_gap_is_found(tmp_path: Path) -> None:
    write(tmp_path, parts=4)
    (tmp_path / JOURNAL_FILE / "00000002.parquet").unlink()
    with pytest.raises(ConfigError, match="has a gap before"):
        load_journal(tmp_path)


def test_what_is_there_is_named_where_there_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "wildfire").mkdir()
    with pytest.raises(ConfigError, match="wild: is not there; there is wildfire"):
        load_journal(tmp_path / "wild")
    with pytest.raises(ConfigError, match="holds no record of a run"):
        load_journal(tmp_path / "wildfire")
    head = {"manifest": {"daybreak": "0.9"}}
    (tmp_path / "wildfire" / "report.json").write_text(json.dumps(head))
    (tmp_path / "wildfire" / "jobs.parquet").mkdir()
    with pytest.raises(ConfigError, match=r"no journal \(version 0.9 wrote jobs.parquet\)"):
        load_journal(tmp_path / "wildfire")


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / JOURNAL_FILE / "00000001.parquet").write_bytes(b"no parquet")
    with pytest.raises(ConfigError, match="its journal cannot be read"):
        load_journal(tmp_path)


def test_the_journal_gives_way_to_what_reports_are_made_of(tmp_path: Path) -> None:
    parts = write(tmp_path, parts=4)
    sizes = [path.stat().st_size for path in (tmp_path / JOURNAL_FILE).iterdir()]
    jobs = pq.read_table(next((tmp_path / JOURNAL_FILE).iterdir()), partitioning=None)
    parts._max_bytes = sum(sizes)
    for _ in range(2):
        parts.add({"jobs.parquet": jobs})
        parts.write()
    assert len(list((tmp_path / "jobs.parquet").iterdir())) == 2
    assert len(list((tmp_path / JOURNAL_FILE).iterdir())) < 4


def test_what_has_no_json_ends_the_recording_alone(tmp_path: Path) -> None:
    class Other(Inbox):
        """Of an extension."""

    made = Bench([QueryFacts("q", ("s",))], policy=make_policy_with("fcfs"))
    journal = made.engine.journal
    journal.origin.inboxes[0].__class__ = Other
    recorder = JournalRecorder(journal, 0)
    made.tell(Woke())
    recorder.collect()
    assert recorder.stopped == "a journal cannot hold a Other"
    assert recorder.table()[JOURNAL_FILE].num_rows == 0
