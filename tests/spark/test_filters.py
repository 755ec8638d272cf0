"""The Spark step: rows through real services, and what stays as it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from daybreak.filters import Service, ServiceUnavailable, callable_service
from daybreak.spark.adapters import filters as step_module
from daybreak.spark.adapters.filters import FilterStep, route_batches, through_filters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def make_services() -> list[Service]:
    async def divides(row: dict[str, Any], by: int) -> bool:
        await asyncio.sleep(0.001 * (row["id"] % 3))
        return bool(row["id"] % by == 0)

    async def by_two(row: dict[str, Any]) -> bool:
        return await divides(row, 2)

    async def by_three(row: dict[str, Any]) -> bool:
        return await divides(row, 3)

    return [callable_service("two", by_two), callable_service("three", by_three)]


def batches(*sizes: int) -> list[pa.RecordBatch]:
    made, start = [], 0
    for size in sizes:
        ids = list(range(start, start + size))
        made.append(pa.record_batch({"zone": [f"z{i}" for i in ids], "id": ids}))
        start += size
    return made


def test_order_of_rows_and_columns_is_kept_across_batches() -> None:
    step = FilterStep(make_services=make_services, window=10, name="order")
    found = list(route_batches(step, iter(batches(50, 0, 30, 20))))
    rows = [row for batch in found for row in batch.to_pylist()]
    assert rows == [{"zone": f"z{i}", "id": i} for i in range(0, 100, 6)]
    assert all(b.schema.names == ["zone", "id"] for b in found)


def test_a_partition_without_rows_gives_none() -> None:
    step = FilterStep(make_services=make_services, name="empty")
    assert list(route_batches(step, iter([]))) == []


def test_a_reader_that_has_enough_stops_the_calls() -> None:
    step = FilterStep(make_services=make_services, window=10, name="enough")
    found = route_batches(step, iter(batches(50, 50, 50, 50)))
    assert next(found).num_rows > 0
    found.close()  # type: ignore[attr-defined]


def test_what_one_batch_learned_the_next_one_knows() -> None:
    step = FilterStep(make_services=make_services, name="learning")
    list(route_batches(step, iter(batches(300))))
    learned = [e for s in step_module._LEARNED["learning"] for e in s]
    assert [e.estimate.selectivity for e in learned] == pytest.approx([1 / 2, 1 / 3], abs=0.1)
    list(route_batches(step, iter(batches(10))))
    assert [e for s in step_module._LEARNED["learning"] for e in s] == learned


def test_a_dead_service_fails_the_task_instead_of_hanging_it() -> None:
    def dead() -> list[Service]:
        async def unreachable(row: dict[str, Any]) -> bool:
            raise ServiceUnavailable("nobody there")

        return [callable_service("gone", unreachable)]

    step = FilterStep(make_services=dead, give_up_s=0.1, name="dead")
    with pytest.raises(Exception, match="'gone' is dead"):
        list(route_batches(step, iter(batches(5))))


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 600, 1, 2).selectExpr("concat('z', id) as zone", "id", "id * 2 as twice")


@pytest.mark.spark
def test_a_query_keeps_its_columns_and_the_rows_that_pass(spark: SparkSession) -> None:
    frame = numbers(spark)

    def local() -> list[Service]:
        # Pickled by value: workers cannot import tests.
        async def by_two(row: dict[str, Any]) -> bool:
            return bool(row["id"] % 2 == 0)

        def by_three(row: dict[str, Any]) -> bool:
            return bool(row["twice"] % 3 == 0)

        return [callable_service("two", by_two), callable_service("three", by_three)]

    found = through_filters(frame, local)
    assert found.schema == frame.schema
    rows = [tuple(row) for row in found.collect()]
    assert rows == [(f"z{i}", i, 2 * i) for i in range(0, 600, 6)]
