"""Load shedding on Spark: under a real overload rows are dropped, counted, and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType

from daybreak.engine.overload import WARM_CALLS, Measured
from daybreak.engine.state import SystemState
from daybreak.model.pipeline import Pipeline
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.report import RunReport
from daybreak.spark.app import App
from daybreak.spark.log.rows import Cursor
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: One worker, and a query that asks for more than its time: 600 rows a second at 4 ms, two cores.
PIPELINE = """
[app]
policy = "stride"
[policy]
train = 100
[shedding]
patience_s = 0.2
[classes]
alarm = 3
low = 1
[streams.readings]
format = "generator"
arrivals = { rate_per_s = 600 }
time = "at"
retain = "1 hour"
[queries.alarm]
class = "alarm"
sql = "SELECT reading FROM readings WHERE temperature > 20"
sink = { format = "memory" }
[queries.slow]
class = "low"
sql = "SELECT slowly(reading) AS reading FROM readings"
sink = { format = "memory" }
[queries.counted]
class = "alarm"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"
sink = { format = "memory" }
"""


def slowly(reading: int) -> int:
    time.sleep(0.004)
    return reading


def arrived(run: Run) -> dict[Cursor, dict[str, Any]]:
    """Every row by its place: all segments are retained."""
    return {
        Cursor(segment.seq, row): values
        for segment in run.parts.storage.store.segments("readings")
        for row, values in enumerate(run.parts.storage.store.table(segment).to_pylist())
    }


def test_under_overload_exactly_the_rows_not_shed_are_answered(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.udf.register("slowly", slowly, LongType())
    app = App.from_pipeline(Pipeline.parse(PIPELINE), spark)
    with app.run(run_dir=tmp_path / "run", workers=1) as run:
        deadline = time.monotonic() + 300
        while run.parts.storage.log.losses().get("slow", {}).get("shed", 0) < 500:
            assert time.monotonic() < deadline, (
                run.parts.keeping.figures.view.calls,
                run.troubles,
                run.parts.storage.log.losses(),
            )
            run.wait(0.1)
        log = run.parts.storage.log
        run.parts.threads.close()  # as ``stop`` does; the log is still open
        rows, ends, lost = arrived(run), log.cursors(), log.lost()
        shed, answered = {}, {}
        for query, keeps in (("alarm", lambda r: r["temperature"] > 20), ("slow", lambda _r: True)):
            ranges = [(e["from"], e["to"]) for e in lost if e["query"] == query]
            passed = [at for at in rows if at < ends[query, "readings"]]
            kept = [
                at for at in passed if not any(Cursor(*a) <= at < Cursor(*b) for a, b in ranges)
            ]
            table = run.rows(query)
            assert table is not None
            found = sorted(table["reading"].to_pylist())
            assert found == [rows[at]["reading"] for at in kept if keeps(rows[at])], query
            shed[query], answered[query] = len(passed) - len(kept), len(kept)
            view = run.parts.scheduling.driver.engine.view
            waiting = view.waiting[view.network.query_index[query]]
            assert len(kept) + shed[query] + waiting == len(rows), query
        windows = run.rows("counted")
        seconds = Counter(int(row["at"].timestamp()) for row in rows.values())
        for window in [] if windows is None else windows.to_pylist():
            assert window["n"] == seconds[int(window["e"].timestamp()) - 1], "windows are spared"
    report = RunReport.load(tmp_path / "run/record")
    assert dict(zip(report.queries, report.dropped, strict=True)) == {**shed, "counted": 0}
    told = {query: rows["shed"] for query, rows in report.manifest["lost"].items()}
    assert told == {query: count for query, count in shed.items() if count}
    for query, count in answered.items():
        assert report.by_query()[query].count == count, query
    assert report.manifest["shedding"]["patience_s"] == 0.2


def test_without_the_table_nothing_is_shed() -> None:
    declared = Pipeline.parse(PIPELINE.replace("[shedding]\npatience_s = 0.2\n", ""))
    assert declared.shedding is None
    assert Pipeline.parse(PIPELINE).shedding == SheddingParams(patience_s=0.2)


def test_costs_follow_the_latest_jobs_and_leave_out_the_first() -> None:
    state = SystemState(Pipeline.parse(PIPELINE).network)
    measured = Measured(state)
    box = 0

    def job(tuples: int, work_ns: int) -> float:
        state.calls[box] += 1
        state.tuples_in[box] += tuples
        state.work_ns[box] += work_ns
        measured.look()
        return measured.cost_ns[box]

    assert [job(10, 10**9) for _ in range(WARM_CALLS)] == [0.0] * WARM_CALLS
    assert job(100, 1000) == 10.0
    assert job(100, 3000) == 20.0
    measured.look()
    assert measured.cost_ns[box] == 20.0
