"""The commit protocol under SIGKILL: nothing lost, nothing twice, whatever the moment."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.spark.crash_worker import DEATHS, DIVISORS, open_sinks
from tests.spark.ranges import read

from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.delivery import recover

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("crash_worker.py")
SEED = 1
ROUNDS = 4 * len(DEATHS)


def delivered(folder: Path) -> list[dict[str, int]]:
    """Every row a reader of the sink's folder sees."""
    rows: list[dict[str, int]] = []
    for path in folder.glob("*.*"):
        if path.suffix == ".parquet":
            rows += pq.read_table(path, partitioning=None).to_pylist()
        elif path.suffix == ".json":
            rows += [json.loads(line) for line in path.read_text().splitlines()]
        else:
            rows += pa_csv.read_csv(path).to_pylist()
    return sorted(rows, key=lambda row: row["value"])


def test_after_any_kill_the_sinks_hold_exactly_what_the_cursors_passed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(WORKER), str(tmp_path), str(SEED), str(ROUNDS)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert [life["signal"] for life in lives] == [9] * ROUNDS
    # The kills do hit the gaps between stage, commit, move and mark: the next life finds the work.
    for life, following in pairwise(lives):
        if "delivered" not in following:
            continue  # it died while it recovered
        if life["death"] == "deliver":
            assert following["delivered"] >= 1
        if life["death"] == "mark":
            assert following["taken"] >= 1
    assert sum(life.get("removed", 0) for life in lives) > 0

    with RunDirectory.open(tmp_path / "run", "crash") as rundir:
        log = CommitLog(rundir.state_db)
        sinks = open_sinks(tmp_path, rundir.staging)
        recover(log, sinks)
        assert log.undelivered() == []
        assert all(not list(sink.staged()) for sink in sinks.values())
        store = SegmentStore(rundir, log)
        batches = int((tmp_path / "offset").read_text())
        total = sum(1 + batch % 7 for batch in range(batches))
        for query, divisor in DIVISORS.items():
            rows = delivered(tmp_path / "out" / query)
            passed = values_before(store, log.cursors()[query, "numbers"])
            assert [row["value"] for row in rows] == list(range(0, passed, divisor))
            assert passed > 0
        assert_nothing_ingested_twice(store, total)
        log.close()


def values_before(store: SegmentStore, cursor: Cursor) -> int:
    """The value at a cursor, which is the number of rows before it."""
    rest, _ = read(store, "numbers", cursor, 1)
    if rest.num_rows:
        return int(rest["value"][0].as_py())
    return int(store.table(store.segments("numbers")[-1])["value"][-1].as_py()) + 1


def assert_nothing_ingested_twice(store: SegmentStore, total: int) -> None:
    kept: pa.Table
    kept, _ = read(store, "numbers", store.begin("numbers"))
    first = kept["value"][0].as_py()
    end = first + kept.num_rows
    assert kept["value"].to_pylist() == list(range(first, end))
    # The last batch may be durable while its offset is not.
    assert end - total in range(8)
    stamps = kept[ARRIVAL].to_pylist()
    assert stamps == sorted(stamps)
