"""Logs of older layouts open with every position at its new place, or are refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak.model import ConfigError
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import Cursor, Progress
from daybreak.spark.log.tables import ARRIVAL, ipc_bytes

#: The tables of layout 3.
OLD = """
CREATE TABLE IF NOT EXISTS meta (id TEXT NOT NULL, run INTEGER NOT NULL, boot TEXT);
CREATE TABLE IF NOT EXISTS segments (
    stream TEXT, seq INTEGER, checkpoint_id TEXT NOT NULL, batch_id INTEGER NOT NULL,
    offsets TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
    arrival_ns INTEGER NOT NULL, file TEXT NOT NULL, content BLOB,
    low_us INTEGER, high_us INTEGER, before_us INTEGER, after_us INTEGER,
    PRIMARY KEY (stream, seq), UNIQUE (stream, checkpoint_id, batch_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
    stream TEXT PRIMARY KEY, before_seq INTEGER NOT NULL, watermark_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queries (name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursors (
    query TEXT REFERENCES queries (name) ON DELETE CASCADE, stream TEXT,
    seq INTEGER NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (query, stream)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commits (job TEXT PRIMARY KEY, at_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL REFERENCES commits (job),
    query TEXT NOT NULL, path TEXT NOT NULL, rows INTEGER NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0, content BLOB
);
CREATE TABLE IF NOT EXISTS paused (
    query TEXT PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE
);
CREATE TABLE IF NOT EXISTS declarations (
    query TEXT PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE, text TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS lost (
    query TEXT NOT NULL, stream TEXT NOT NULL, why TEXT NOT NULL,
    from_seq INTEGER NOT NULL, from_row INTEGER NOT NULL,
    to_seq INTEGER NOT NULL, to_row INTEGER NOT NULL,
    rows INTEGER NOT NULL, at_ns INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS losses (
    query TEXT, why TEXT, rows INTEGER NOT NULL, PRIMARY KEY (query, why)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS undelivered ON files (id) WHERE NOT delivered;
CREATE INDEX IF NOT EXISTS files_of_job ON files (job);
"""
PARTIAL = pa.schema([("__pane", pa.int64()), ("__p0", pa.int64())])


def partial(*ends: int) -> pa.Table:
    return pa.table({"__pane": ends, "__p0": [1] * len(ends)}, schema=PARTIAL)


def stamped(table: pa.Table) -> pa.Table:
    return table.append_column(ARRIVAL, pa.array([5] * table.num_rows, pa.int64()))


@contextmanager
def old_log(root: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(root / "state.db")) as db:
        db.executescript(OLD)
        db.execute("INSERT INTO meta VALUES ('0123abcd', 3, 'boot')")
        yield db
        db.commit()


def add_query(db: sqlite3.Connection, name: str, places: dict[str, tuple[int, int]]) -> None:
    db.execute("INSERT INTO queries VALUES (?, 'f')", (name,))
    values = [(name, stream, *at) for stream, at in places.items()]
    db.executemany("INSERT INTO cursors VALUES (?, ?, ?, ?)", values)


def add_segment(
    db: sqlite3.Connection, stream: str, seq: int, checkpoint: str, batch: int,
    offsets: str = "[]", content: bytes | None = b"", file: str = "", high_us: int = 0,
) -> None:  # fmt: skip
    db.execute(
        "INSERT INTO segments VALUES (?, ?, ?, ?, ?, 1, 1, 5, ?, ?, 0, ?, 0, 0)",
        (stream, seq, checkpoint, batch, offsets, file, content, high_us),
    )


def test_progress_and_partials_of_an_older_log_are_where_they_belong(tmp_path: Path) -> None:
    file = tmp_path / "segments" / "q%23panes" / "000000000002.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(stamped(partial(60)), file)
    with old_log(tmp_path) as db:
        add_query(db, "filter", {"a": (4, 2)})
        add_query(db, "window", {"a": (3, 0), "b": (1, 0), "#closed": (40, 0)})
        add_query(db, "q", {"a": (6, 0), "#closed": (30, 0), "q#panes": (1, 0)})
        for seq in range(3, 8):
            add_segment(db, "a", seq, "cp", seq)
        ipc = [ipc_bytes(stamped(partial(*ends))) for ends in ((10, 20), (40, 50), (70,))]
        add_segment(db, "q#panes", 0, "panes", 2, "[0,2]", ipc[0], high_us=20)
        add_segment(db, "q#panes", 1, "panes", 4, "[2,4]", ipc[1], high_us=50)
        name = file.relative_to(tmp_path / "segments").as_posix()
        add_segment(db, "q#panes", 2, "panes", 6, "[4,6]", None, name, high_us=60)
        # Its job has not committed: segments 6 and 7 are read again.
        add_segment(db, "q#panes", 3, "panes", 8, "[6,8]", ipc[2], high_us=70)
        db.execute("INSERT INTO lost VALUES ('window', '#closed', 'full', 10, 0, 20, 0, 7, 9)")
        db.execute("INSERT INTO lost VALUES ('filter', 'a', 'full', 0, 0, 1, 0, 3, 9)")
    for _ in range(2):  # the second time nothing is left to do
        log = CommitLog(tmp_path / "state.db")
        assert log.cursors() == {
            ("filter", "a"): Cursor(4, 2),
            ("window", "a"): Cursor(3, 0),
            ("window", "b"): Cursor(1, 0),
            ("q", "a"): Cursor(6, 0),
        }
        assert log.progress() == {"window": Progress(40, ""), "q": Progress(30, None)}
        assert {s.stream for s in log.segments()} == {"a"}
        kept = Partials(log).tables("q", PARTIAL)
        assert [table["__pane"].to_pylist() for table in kept] == [[40, 50], [60]]
        assert [e["stream"] for e in log.lost()] == ["a"]
        assert log.lost_windows() == [
            {"query": "window", "why": "full", "after_us": 10, "closed_us": 20, "rows": 7,
             "at_ns": 9},
        ]  # fmt: skip
        log.close()


def test_how_partials_were_made_is_recorded_when_an_older_log_is_first_used(
    tmp_path: Path,
) -> None:
    with old_log(tmp_path) as db:
        add_query(db, "q", {"a": (6, 0), "#closed": (30, 0), "q#panes": (0, 0)})
    log = CommitLog(tmp_path / "state.db")
    starts = {"a": Cursor(9, 0)}
    with pytest.raises(ConfigError, match="--reset-query q"):
        log.register_query("q", "f", starts, Progress(0, ""))
    assert not log.register_query("q", "f", starts, Progress(0, "way"))
    assert log.progress() == {"q": Progress(30, "way")}
    log.close()


def test_streams_that_only_look_like_ours_are_left_alone(tmp_path: Path) -> None:
    with old_log(tmp_path) as db:
        add_query(db, "filter", {"#closed": (4, 2)})
        add_query(db, "x", {"x#panes": (1, 1)})
        add_segment(db, "#closed", 4, "cp", 4)
        add_segment(db, "x#panes", 1, "cp", 1)
    for _ in range(2):
        log = CommitLog(tmp_path / "state.db")
        assert log.cursors() == {
            ("filter", "#closed"): Cursor(4, 2),
            ("x", "x#panes"): Cursor(1, 1),
        }
        assert log.progress() == {}
        assert [s.stream for s in log.segments()] == ["#closed", "x#panes"]
        log.close()


def test_a_log_whose_positions_are_ambiguous_is_refused_and_left_alone(tmp_path: Path) -> None:
    with old_log(tmp_path) as db:
        add_query(db, "w", {"#closed": (4, 0), "a": (0, 0)})
        add_segment(db, "#closed", 4, "cp", 4)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"query 'w': reads a stream '#closed'.*new run dir"):
            CommitLog(tmp_path / "state.db")
