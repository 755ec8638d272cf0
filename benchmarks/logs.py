"""Commit latency of both logs side by side: SQLite and PostgreSQL, on this machine's disk.

::

    python benchmarks/logs.py [--commits 400] [--json]

A commit moves the cursors of 1, 25 or 250 queries and lists a result of 4 KB for each. A segment of
4 KB is listed without a wait for the disk in SQLite, and made durable by ``sync``; in PostgreSQL it
is durable when it is listed. The server is one of its own, with ``fsync`` on. Rounds alternate
between the logs, so that both see the same machine.

Works with an earlier version of SQLite's log as well: copy this file there, and leave out
PostgreSQL with ``--only sqlite``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove, SegmentRow, StagedFile

Open = Callable[[str], CommitLog]
ROUNDS = 4
QUERIES = (1, 25, 250)
CONTENT = b"r" * 4096


class Bench:
    """One log, with so many queries over one stream."""

    def __init__(self, log: CommitLog, queries: int) -> None:
        self._log = log
        self._names = [f"query {n}" for n in range(queries)]
        self._at = self._segments = 0
        for name in self._names:
            log.register_query(name, "1", {"r": Cursor(0, 0)})

    def commit(self) -> float:
        """Milliseconds of one commit."""
        old, new = Cursor(self._at, 0), Cursor(self._at + 1, 0)
        self._at += 1
        job = self._log.new_job()
        moves = [CursorMove(name, "r", old, new) for name in self._names]
        staged = [StagedFile(n, Path(f"/out/{job}-{n}"), 10, CONTENT) for n in self._names]
        began = time.perf_counter()
        files = self._log.commit(job, moves, staged)
        took = (time.perf_counter() - began) * 1e3
        self._log.mark_delivered([file.id for file in files])
        return took

    def segment(self) -> float:
        """Milliseconds until one segment is durable."""
        self._segments += 1
        number = self._segments
        segment = SegmentRow(
            stream="s", seq=number, checkpoint_id="c", batch_id=number, offsets="{}", rows=10,
            bytes=len(CONTENT), arrival_ns=1, file="",
        )  # fmt: skip
        began = time.perf_counter()
        self._log.add_segment(segment, CONTENT)
        self._log.sync()
        return (time.perf_counter() - began) * 1e3


def logs(folder: Path, only: str | None, stack: ExitStack) -> Iterator[tuple[str, Open]]:
    if only in (None, "sqlite"):
        yield "sqlite", lambda name: CommitLog(folder / f"{name}.db")
    if only in (None, "postgresql"):
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        from benchmarks.servers import PostgresServer

        from daybreak.model.storage import check_log
        from daybreak.spark.log.postgres_log import PostgresDatabase

        server = PostgresServer(fsync=True)
        stack.callback(server.close)
        server.start()
        url = check_log(server.dsn, "benchmark")
        yield "postgresql", lambda name: CommitLog(PostgresDatabase(url, name))


def measure(commits: int, only: str | None) -> dict[str, dict[str, dict[str, float]]]:
    """Median and 95th percentile (ms) by what was done and by log."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened = dict(logs(folder, only, stack))
        took: dict[tuple[str, str], list[float]] = {}
        for queries in QUERIES:
            benches = {
                kind: Bench(_kept(open_(f"bench{queries}"), stack), queries)
                for kind, open_ in opened.items()
            }
            rounds = max(10, commits // (1 if queries == 1 else 4))
            for _ in range(ROUNDS):
                for kind, bench in benches.items():
                    key = (f"commit, {queries} queries", kind)
                    took.setdefault(key, []).extend(bench.commit() for _ in range(rounds // ROUNDS))
                    if queries == 1:
                        took.setdefault(("segment", kind), []).extend(
                            bench.segment() for _ in range(rounds // ROUNDS)
                        )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (what, kind), ms in took.items():
        found.setdefault(what, {})[kind] = {
            "median_ms": round(statistics.median(ms), 3),
            "p95_ms": round(statistics.quantiles(ms, n=20)[-1], 3),
            "count": len(ms),
        }
    return found


def _kept(log: CommitLog, stack: ExitStack) -> CommitLog:
    stack.callback(log.close)
    return log


def main() -> int:
    parser = argparse.ArgumentParser(prog="logs.py", description="Commit latency of both logs.")
    parser.add_argument("--commits", type=int, default=400)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.commits, given.only)
    if given.json:
        print(json.dumps(found, indent=2))
        return 0
    for what, by_kind in found.items():
        for kind, ms in by_kind.items():
            print(f"{what:22} {kind:12} {ms['median_ms']:9.3f} ms {ms['p95_ms']:9.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
