"""The tables of a commit log, in the words of SQLite and of PostgreSQL."""

from __future__ import annotations

from string import Template

_TABLES = Template("""
CREATE TABLE IF NOT EXISTS meta (id $text NOT NULL, run $int NOT NULL, boot $text);
CREATE TABLE IF NOT EXISTS segments (
    stream $text, seq $int, checkpoint_id $text NOT NULL, batch_id $int NOT NULL,
    offsets $text NOT NULL, rows $int NOT NULL, bytes $int NOT NULL,
    arrival_ns $int NOT NULL, file $text NOT NULL, content $bytes,
    low_us $int, high_us $int, before_us $int, after_us $int,
    PRIMARY KEY (stream, seq), UNIQUE (stream, checkpoint_id, batch_id)
) $without_rowid;
CREATE TABLE IF NOT EXISTS schemas (
    stream $text, from_seq $int, content $bytes NOT NULL, PRIMARY KEY (stream, from_seq)
) $without_rowid;
CREATE TABLE IF NOT EXISTS marks (
    stream $text PRIMARY KEY, before_seq $int NOT NULL, watermark_us $int NOT NULL
) $without_rowid;
CREATE TABLE IF NOT EXISTS positions (
    stream $text PRIMARY KEY, kind $text NOT NULL, source $text NOT NULL,
    checkpoint_id $text NOT NULL, batch_id $int NOT NULL, place $text NOT NULL
) $without_rowid;
CREATE TABLE IF NOT EXISTS source_files (
    stream $text, path $text, mtime_ms $int NOT NULL, size $int NOT NULL, batch_id $int NOT NULL,
    PRIMARY KEY (stream, path)
) $without_rowid;
CREATE TABLE IF NOT EXISTS source_batches (
    stream $text, batch_id $int, newest_mtime_ms $int NOT NULL, paths $bytes NOT NULL,
    PRIMARY KEY (stream, batch_id)
) $without_rowid;
CREATE TABLE IF NOT EXISTS dead_letters (
    stream $text, batch_id $int, records $int NOT NULL, content $bytes, file $text NOT NULL,
    PRIMARY KEY (stream, batch_id)
);
CREATE TABLE IF NOT EXISTS queries (name $text PRIMARY KEY, fingerprint $text NOT NULL);
CREATE TABLE IF NOT EXISTS cursors (
    query $text REFERENCES queries (name) ON DELETE CASCADE, stream $text,
    seq $int NOT NULL, row $int NOT NULL, PRIMARY KEY (query, stream)
) $without_rowid;
CREATE TABLE IF NOT EXISTS progress (
    query $text PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE,
    closed_us $int NOT NULL, panes $text
) $without_rowid;
CREATE TABLE IF NOT EXISTS late_rows (
    query $text REFERENCES queries (name) ON DELETE CASCADE, stream $text,
    seq $int NOT NULL, PRIMARY KEY (query, stream)
) $without_rowid;
CREATE TABLE IF NOT EXISTS batches (
    query $text PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE, batch $int NOT NULL
) $without_rowid;
CREATE TABLE IF NOT EXISTS partials (
    id $id,
    query $text NOT NULL REFERENCES queries (name) ON DELETE CASCADE,
    first_seq $int NOT NULL, end_seq $int NOT NULL,
    high_us $int NOT NULL, content $bytes NOT NULL
);
CREATE TABLE IF NOT EXISTS commits (job $text PRIMARY KEY, at_ns $int NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    id $id, job $text NOT NULL REFERENCES commits (job),
    query $text NOT NULL, path $text NOT NULL, rows $int NOT NULL,
    delivered $flag, content $bytes
);
CREATE TABLE IF NOT EXISTS places (file $int PRIMARY KEY, place $text NOT NULL);
CREATE TABLE IF NOT EXISTS paused (
    query $text PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE
);
CREATE TABLE IF NOT EXISTS declarations (
    query $text PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE, text $text NOT NULL
);
CREATE TABLE IF NOT EXISTS undeclared (
    query $text PRIMARY KEY REFERENCES queries (name) ON DELETE CASCADE, since_ns $int NOT NULL
) $without_rowid;
CREATE TABLE IF NOT EXISTS lost ($rowid
    query $text NOT NULL, stream $text NOT NULL, why $text NOT NULL,
    from_seq $int NOT NULL, from_row $int NOT NULL,
    to_seq $int NOT NULL, to_row $int NOT NULL,
    rows $int NOT NULL, at_ns $int NOT NULL
);
CREATE TABLE IF NOT EXISTS lost_windows ($rowid
    query $text NOT NULL, why $text NOT NULL, after_us $int NOT NULL,
    closed_us $int NOT NULL, rows $int NOT NULL, at_ns $int NOT NULL
);
CREATE TABLE IF NOT EXISTS losses (
    query $text, why $text, rows $int NOT NULL, PRIMARY KEY (query, why)
) $without_rowid;
CREATE INDEX IF NOT EXISTS undelivered ON files (id) WHERE NOT delivered;
CREATE INDEX IF NOT EXISTS files_of_job ON files (job);
CREATE INDEX IF NOT EXISTS partials_of_query ON partials (query, end_seq);
""")

SQLITE_TABLES = _TABLES.substitute(
    int="INTEGER", text="TEXT", bytes="BLOB", flag="INTEGER NOT NULL DEFAULT 0",
    id="INTEGER PRIMARY KEY AUTOINCREMENT", rowid="", without_rowid="WITHOUT ROWID",
)  # fmt: skip
#: Texts are ordered by their bytes, as in SQLite; ``rowid``, which a table of SQLite has by itself,
#: is the order in which rows came.
POSTGRES_TABLES = _TABLES.substitute(
    int="BIGINT", text='TEXT COLLATE "C"', bytes="BYTEA", flag="BOOLEAN NOT NULL DEFAULT FALSE",
    id="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    rowid="\n    rowid BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,", without_rowid="",
)  # fmt: skip
