"""Small trains without a Spark job: how much prepared plans save, and up to how many rows.

Every kind of query over the same trains, in turns as an ordinary Spark job and as a plan that was
prepared, in one process. The rows are compared first.

    python benchmarks/without_a_job.py [--quick] [--json] [--rows 200,2000,20000] [--kinds NAME,...]
    python benchmarks/without_a_job.py --crossover [--json]
    python benchmarks/without_a_job.py --soak 600 [--queries 100] [--json]

Stated before measuring: at 2 000 rows a window aggregate, a join with a static table, a join of
two streams by window and a merge of panes take at most an eighth of the ordinary job's time. The
command exits with 1 if one does not. ``--quick`` takes less than 5 minutes.

``--crossover`` goes on to longer trains until ordinary jobs are faster, with two workers that run
jobs at the same time: time is per job, of both together. ``--soak`` runs window queries through
prepared plans for so many seconds, and exits with 1 if the live heap, the execution memory or the
number of accumulators grows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.spark.jobs.panes import paned, with_windows
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.event_time import NEVER
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.session import local_session
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.forms import PanedAggregate
from daybreak.spark.sql.windows.pane_plans import merged_rows
from daybreak.spark.tasks.prepared import plans as prepared_plans
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.shapes import ROWS as LEAF
from daybreak.spark.tasks.shapes import of_fill, of_merge
from daybreak.spark.tasks.task import Leaves, Runnable, Task

SCHEMA = "id BIGINT, station INT, temperature INT, humidity INT, wind INT, at TIMESTAMP"
START_US = 1_767_225_600_000_000
_WINDOWED = "(SELECT *, window(at, '10 seconds') AS w FROM {})"
SQL = {
    "filter": "SELECT id, station, temperature FROM a WHERE temperature > 900 AND wind > 10",
    "window aggregate": "SELECT window.end AS e, station, count(*) AS n, avg(temperature) AS m "
    "FROM a WHERE humidity > 5 GROUP BY window(at, '10 seconds'), station",
    "static join": "SELECT id, name, temperature FROM a JOIN stations USING (station) "
    "WHERE temperature > 500",
    "window join": f"SELECT x.id, y.id AS other FROM {_WINDOWED.format('a')} x "
    f"JOIN {_WINDOWED.format('b')} y ON x.w = y.w AND x.station = y.station",
    "band join": "SELECT x.id, y.id AS other FROM a x JOIN b y ON x.station = y.station AND "
    "y.at BETWEEN x.at - INTERVAL 2 SECONDS AND x.at + INTERVAL 2 SECONDS",
    "except": "SELECT window(at, '10 seconds').end AS e, station FROM a EXCEPT "
    "SELECT window(at, '10 seconds').end AS e, station FROM b",
    "union": "SELECT window.end AS e, station, count(*) AS n FROM (SELECT at, station FROM a "
    "UNION ALL SELECT at, station FROM b) GROUP BY window(at, '10 seconds'), station",
}
PANED = (
    "SELECT window.end AS e, station, count(*) AS n, avg(temperature) AS m FROM a "
    "GROUP BY window(at, '60 seconds', '5 seconds'), station"
)
KINDS = (*SQL, "pane fill", "pane merge")
CLAIMED = ("window aggregate", "static join", "window join", "pane merge")
LEAST_RATIO, AT_ROWS = 8.0, 2000
WARM, TIMES = 5, 11
ROWS = "200,2000,20000"
CROSSOVER = "20000,100000,400000,800000,1600000"
Compute = Callable[[JobRunner], list[pa.Table]]


def readings(seed: int, rows: int) -> pa.Table:
    """A minute of a stream, with the stamps of segments."""
    rng = np.random.default_rng(seed)

    def column(high: int) -> Any:
        return rng.integers(0, high, rows, dtype=np.int32)

    at = START_US + np.sort(rng.integers(0, 60_000_000, rows))
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64),
            # So many that joins give about as many rows as they read.
            "station": rng.integers(0, max(1, rows // 6), rows, dtype=np.int32),
            "temperature": column(1000),
            "humidity": column(100),
            "wind": column(100),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            ARRIVAL: np.zeros(rows, np.int64),
        }
    )


def run(runner: JobRunner, task: Task, rows: pa.Table) -> list[pa.Table]:
    """The results of a task over one leaf."""
    return list(runner.engines.compute([task], Leaves.of({LEAF: rows})).results)


class Ways:
    """The same queries with two runners of jobs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        schema = StructType.fromDDL(SCHEMA)
        assert isinstance(schema, StructType)
        stations: Any = pa.table(
            {"station": pa.array(range(500), pa.int32()), "name": [f"s{i}" for i in range(500)]}
        )
        spark.createDataFrame(stations).createOrReplaceTempView("stations")
        self.schemas = {"a": schema, "b": schema}
        self.checker = Checker(spark, self.schemas, {"a": "at", "b": "at"})
        self.plans = Plans(spark)
        assert self.plans.runs is not None, self.plans.missing
        unused = cast(Any, None)
        made = (spark, self.schemas, unused, unused, unused, unused)
        self.runners = {
            "ordinary": [JobRunner(*made, folder / f"ordinary{i}") for i in range(2)],
            "prepared": [
                JobRunner(*made, folder / f"prepared{i}", self.plans.worker(f"prepared{i}"))
                for i in range(2)
            ],
        }
        self.ordinary, self.prepared = (runners[0] for runners in self.runners.values())

    def close(self) -> None:
        for runners in self.runners.values():
            for runner in runners:
                runner.close()

    def runnable(self, name: str, sql: str) -> Runnable:
        checked: CheckedQuery = self.checker.sql(name.replace(" ", "-"), sql)
        return Runnable(checked, cast(Any, None))

    def compute(self, kind: str, rows: int) -> Compute:
        """What is computed: over so many rows of each stream, or of partials."""
        a, b = readings(1, rows), readings(2, rows)
        if kind in SQL:
            query = self.runnable(kind, SQL[kind])
            tables = {"a": a, "b": b}
            read = _read(query, tables)
            return lambda runner: [runner.trial(query, read)]
        query = self.runnable("panes", PANED)
        form = query.checked.form
        assert isinstance(form, PanedAggregate)
        panes, windowing = form.panes, form.windowing
        if kind == "pane fill":
            fresh = paned(a, windowing, panes, None, NEVER)
            return lambda runner: run(runner, of_fill([query]), fresh)
        # Each partial belongs to twelve windows.
        some = readings(1, max(1, rows // 12))
        read = paned(some, windowing, panes, None, NEVER)
        partials = run(self.prepared, of_fill([query]), read)[0]
        last_us = START_US + 10**10
        ended = with_windows(partials, panes.grid, panes.width_us, NEVER, last_us)
        merged = merged_rows([panes], [ended])
        return lambda runner: run(runner, of_merge([query]), merged)

    def measure(self, kind: str, rows: int, times: int, workers: int = 1) -> dict[str, Any] | None:
        """None if trains of this length do not run with prepared plans (``plans.reasons``)."""
        compute = self.compute(kind, rows)
        began = time.perf_counter()
        first = compute(self.prepared)
        first_ms = (time.perf_counter() - began) * 1e3
        assert same(first, compute(self.ordinary)), f"{kind}, {rows} rows: the results differ"
        before = self.plans.reasons.total()
        spent: dict[str, list[float]] = {"ordinary": [], "prepared": []}
        for i in range(WARM + times):
            for way, runners in self.runners.items():
                took = at_once(compute, runners[:workers])
                if i >= WARM:
                    spent[way].append(took)
        if self.plans.reasons.total() > before:
            return None
        ms = {way: round(float(np.median(took)) * 1e3, 2) for way, took in spent.items()}
        ratio = round(ms["ordinary"] / ms["prepared"], 1)
        return {
            "kind": kind, "rows": rows, "ms": ms, "ratio": ratio, "first_ms": round(first_ms, 1)
        }  # fmt: skip


def at_once(compute: Compute, runners: Sequence[JobRunner]) -> float:
    """Seconds per job, of workers that run one each at the same time."""
    began = time.perf_counter()
    if len(runners) == 1:
        compute(runners[0])
    else:
        with ThreadPoolExecutor(len(runners)) as pool:
            list(pool.map(compute, runners))
    return (time.perf_counter() - began) / len(runners)


def same(some: Sequence[pa.Table], others: Sequence[pa.Table]) -> bool:
    """Whether tables have the same rows, in whatever order."""

    def ordered(table: pa.Table) -> list[str]:
        return sorted(map(str, zip(*(c.to_pylist() for c in table.columns), strict=True)))

    return all(ordered(x) == ordered(y) for x, y in zip(some, others, strict=True))


def measured(
    ways: Ways, kinds: Sequence[str], sizes: Sequence[int], times: int, workers: int
) -> dict[str, Any]:
    found = []
    for kind in kinds:
        for rows in sizes:
            one = ways.measure(kind, rows, times, workers)
            if one is None:
                show(f"{kind}, {rows} rows: not with a prepared plan: {[*ways.plans.reasons]}")
                break
            found.append(one)
            show(f"{kind}, {rows} rows: {one['ms']} ms, {one['ratio']}x")
            if one["ratio"] < 1:
                break
    fast = {f["kind"] for f in found if f["rows"] == AT_ROWS and f["ratio"] >= LEAST_RATIO}
    claimed = [kind for kind in kinds if kind in CLAIMED and AT_ROWS in sizes]
    missed = [kind for kind in claimed if kind not in fast]
    return {"measured": found, "least_ratio": LEAST_RATIO, "missed": missed}


class Memory:
    """What could grow."""

    def __init__(self, spark: SparkSession, plans: Plans) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._runs: Any = plans.runs

    def sample(self, seconds: float, trains: int) -> dict[str, float]:
        self._jvm.java.lang.System.gc()
        runtime = self._jvm.java.lang.Runtime.getRuntime()
        accumulators = getattr(self._jvm, "org.apache.spark.util.AccumulatorContext")
        return {
            "seconds": round(seconds, 1),
            "trains": trains,
            "live_heap_mb": round((runtime.totalMemory() - runtime.freeMemory()) / 2**20, 1),
            "execution_memory_bytes": int(self._runs.memoryUsed()),
            "accumulators": int(accumulators.numAccums()),
        }


def _read(query: Runnable, train: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows that a query reads of a train."""
    return {stream: train[stream].drop_columns([ARRIVAL]) for stream in query.checked.reads}


def soak(spark: SparkSession, ways: Ways, seconds: float, count: int) -> dict[str, Any]:
    """Window queries of several kinds, round robin, each train another."""
    kinds = ("window aggregate", "window join", "static join", "except")
    queries = [
        ways.runnable(f"soak-{i}", SQL[kinds[i % 4]].replace("10 seconds", f"{2 + i % 30} seconds"))
        for i in range(count)
    ]
    trains = [{"a": readings(i, 300), "b": readings(1000 + i, 300)} for i in range(50)]
    memory, samples, done = Memory(spark, ways.plans), [], 0
    for query in queries:  # planned first
        ways.prepared.trial(query, _read(query, trains[0]))
    began = time.monotonic()
    due = 0.0
    while (at := time.monotonic() - began) < seconds:
        if at >= due:
            samples.append(memory.sample(at, done))
            show(str(samples[-1]))
            due = at + seconds / 12
        query, train = queries[done % count], trains[done * 7 % len(trains)]
        ways.prepared.trial(query, _read(query, train))
        done += 1
    samples.append(memory.sample(seconds, done))
    return {"samples": samples, "fallbacks": dict(ways.plans.reasons), "grew": grew(samples)}


def grew(samples: Sequence[Mapping[str, float]]) -> list[str]:
    """What is larger in the last third than in the third before, by more than a tenth."""
    third = len(samples) // 3
    found = [
        name
        for name, slack in (("live_heap_mb", 5.0), ("accumulators", 100.0))
        if np.median([s[name] for s in samples[-third:]])
        > 1.1 * np.median([s[name] for s in samples[third : 2 * third]]) + slack
    ]
    if any(s["execution_memory_bytes"] for s in samples):
        found.append("execution_memory_bytes")
    return found


def show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help=f"of each stream, a list; {ROWS} if left out")
    parser.add_argument("--kinds", default=",".join(KINDS), help="a list")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--crossover", action="store_true", help="up to where jobs are faster")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="watch the memory instead")
    parser.add_argument("--queries", type=int, default=100, help="of --soak")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    chosen = parser.parse_args()
    spark = local_session("without-a-job")
    if chosen.crossover:
        prepared_plans.MOST_ROWS = dict.fromkeys(prepared_plans.MOST_ROWS, 10**9)
    with TemporaryDirectory() as folder:
        ways = Ways(spark, Path(folder))
        if chosen.soak is not None:
            found = soak(spark, ways, chosen.soak, chosen.queries)
        else:
            sizes = chosen.rows or (CROSSOVER if chosen.crossover else ROWS)
            times = 5 if chosen.quick or chosen.crossover else TIMES
            workers = 2 if chosen.crossover else 1
            kinds = chosen.kinds.split(",")
            found = measured(ways, kinds, [*map(int, sizes.split(","))], times, workers)
        ways.close()
    if chosen.json:
        print(json.dumps(found, indent=2))
    return 1 if found.get("missed") or found.get("grew") else 0


if __name__ == "__main__":
    sys.exit(main())
