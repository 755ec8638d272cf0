"""The Spark step against the naive way, on the throttled services of benchmarks/filters.py.

    python benchmarks/filters_spark.py [--rows 800] [--json]

Both run as mapInArrow over the same rows in the same session, one after the other, with the same
number of calls at once per service. Naive: each row looks up its services one at a time, in the
fixed order; as many rows at once as all services together take calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa
from benchmarks.filters import (
    OPTIMUM_PER_S,
    SELECTIVITY,
    THREADS,
    TIMES_S,
    Services,
    adapters,
    keys,
)
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from daybreak.filters import Service
from daybreak.spark.adapters.filters import through_filters
from daybreak.spark.session import local_session

PARTITIONS = 2
#: Low load: a micro-batch of few rows, from submitting its job to its last row.
SMALL_ROWS, SMALL_RUNS = 8, 7


def naive(batches: Iterator[pa.RecordBatch], make: Callable[[], Sequence[Service]]) -> Any:
    """What one writes by hand: semaphores, gather, services in the fixed order."""

    async def partition(rows: list[dict[str, Any]]) -> list[bool]:
        services = make()
        gates = [asyncio.Semaphore(s.threads or 1) for s in services]
        budget = asyncio.Semaphore(sum(s.threads or 1 for s in services))

        async def one(row: dict[str, Any]) -> bool:
            async with budget:
                for service, gate in zip(services, gates, strict=True):
                    async with gate:
                        (found,) = await service.replicas[0].ask([row])
                    if found is None or found is False:
                        return False
                return True

        passed = await asyncio.gather(*(one(row) for row in rows))
        for service in services:
            await service.replicas[0].close()
        return passed

    for batch in batches:
        yield batch.filter(pa.array(asyncio.run(partition(batch.to_pylist()))))


def timed(frame: DataFrame) -> tuple[float, list[int]]:
    began = time.monotonic()
    found = sorted(row["key"] for row in frame.collect())
    return time.monotonic() - began, found


def measure(rows: int, session: SparkSession, servers: Services) -> dict[str, Any]:
    # Each running task has half of every service's threads: together they have all.
    each = THREADS // PARTITIONS
    redis_url, dsn, http_url = servers.redis.url, servers.postgres.dsn, servers.http.url

    def make() -> Sequence[Service]:
        return adapters(redis_url, dsn, http_url, each, lambda row: row["key"])

    def frame_of(count: int) -> DataFrame:
        wanted = [k for k, _ in zip(keys(5), range(count), strict=False)]
        made = session.createDataFrame(pa.table({"key": wanted})).repartition(PARTITIONS).cache()
        made.count()
        return made

    def ways(frame: DataFrame) -> dict[str, DataFrame]:
        return {
            "naive": frame.mapInArrow(lambda b: naive(b, make), frame.schema),
            "free-first": through_filters(frame, make, window=64, name="benchmark"),
        }

    session.range(PARTITIONS).repartition(PARTITIONS).mapInArrow(lambda b: b, "id long").count()
    found: dict[str, Any] = {}
    answers = []
    for name, way in ways(frame_of(rows)).items():
        seconds, passed = timed(way)
        answers.append(passed)
        found[name] = {
            "seconds": seconds,
            "rows_per_s": rows / seconds,
            "of_optimum": rows / seconds / OPTIMUM_PER_S,
        }
    small = ways(frame_of(SMALL_ROWS))
    times: dict[str, list[float]] = {name: [] for name in small}
    for _ in range(SMALL_RUNS):
        for name, way in small.items():
            times[name].append(timed(way)[0])
    for name, seconds_each in times.items():
        found[name]["small_batch_ms"] = 1e3 * median(seconds_each)
    assert answers[0] == answers[1], "both ways must pass the same rows"
    return {
        "rows": rows,
        "passed": len(answers[0]),
        "optimum_per_s": OPTIMUM_PER_S,
        "configured": {"times_s": TIMES_S, "threads": THREADS, "selectivity": SELECTIVITY},
        "ways": found,
        "small_batch_rows": SMALL_ROWS,
        "latency_ratio": (found["free-first"]["small_batch_ms"] / found["naive"]["small_batch_ms"]),
        "throughput_ratio": found["free-first"]["rows_per_s"] / found["naive"]["rows_per_s"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    # Workers cannot import this folder.
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])  # type: ignore[no-untyped-call]
    cloudpickle.register_pickle_by_value(sys.modules["benchmarks.filters"])  # type: ignore[no-untyped-call]
    servers = Services()
    session = local_session("filters benchmark", cores=PARTITIONS)
    try:
        servers.start()
        result = measure(arguments.rows, session, servers)
    finally:
        session.stop()
        servers.close()
    if arguments.json:
        print(json.dumps(result, indent=2))
        return 0
    print(f"{result['rows']} rows, {result['passed']} pass; F* = {OPTIMUM_PER_S:.1f} rows/s")
    for name, way in result["ways"].items():
        print(
            f"  {name:12} {way['rows_per_s']:7.1f} rows/s  {way['of_optimum']:6.1%} of F*  "
            f"{way['small_batch_ms']:6.0f} ms for {SMALL_ROWS} rows"
        )
    print(
        f"  free-first to naive: throughput {result['throughput_ratio']:.2f}, "
        f"latency {result['latency_ratio']:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
