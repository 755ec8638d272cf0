"""Long trains of filters: computed in parts on idle cores, without the rows that nobody keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from daybreak.spark.ingest.generator import KINDS, stations
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.composite import BITS
from daybreak.spark.tasks.cuts import CutByMask
from daybreak.spark.tasks.prepared import plans as plans_module
from daybreak.spark.tasks.prepared import train_runs
from daybreak.spark.tasks.prepared.plans import PlanRunner, Plans
from daybreak.spark.tasks.prepared.train_runs import Cancelled, Cores, Output
from daybreak.spark.tasks.shapes import of_composite
from daybreak.spark.tasks.task import Runnable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = stations(5, np.arange(1003), 1_700_000_000_000_000)
THREE = {"a": pa.table({"n": [1, 2, 3]})}
BY_ROW: Any = SimpleNamespace(by_row=True)
ALL = "SELECT reading, wind FROM readings"
FEW = [
    "SELECT reading, wind * 2 AS twice FROM readings WHERE wind > 80",
    "SELECT * FROM readings WHERE temperature > 44",
    "SELECT station FROM readings WHERE CASE WHEN wind < 3 THEN true END",
    "SELECT station FROM readings WHERE false",
]


def test_a_job_takes_one_core_and_others_only_while_they_are_idle() -> None:
    cores = Cores(3)
    with cores.taken(1) as one:
        with cores.taken(9) as rest, cores.taken(9) as none_left:
            assert (one, rest, none_left) == (1, 2, 1)
        with cores.taken(2) as two:
            assert two == 2
    with cores.taken(9) as everything:
        assert everything == 3


class Scripted(train_runs.TrainRuns):
    """Parts end as they are told to."""

    def __init__(self, parts: list[Callable[[], Output]]) -> None:
        super().__init__(Cores(len(parts)), "test")
        self.parts = parts
        self.begun: list[int] = []
        self.ended: list[int] = []

    def _run_part(self, _runs: Any, _planned: Any, number: int, *_: Any) -> Output:
        self.begun.append(number)
        try:
            return self.parts[number]()
        finally:
            self.ended.append(number)


def test_a_train_that_is_too_long_runs_in_parts_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train_runs, "MOST_BYTES", THREE["a"].nbytes // 2)
    for most_rows, rows in ((9, [1, 2]), (1, [1, 1, 1])):
        seen: list[int] = []

        class Seeing(train_runs.TrainRuns):
            def _run_part(self, _r: Any, _p: Any, lane: int, tables: Any, _m: int) -> Output:
                assert lane == 0
                seen.append(tables["a"].num_rows)  # noqa: B023
                return Output(tables["a"], np.array([0], np.int32))

        found = Seeing(Cores(2), "test").run(cast(Any, None), BY_ROW, THREE, most_rows)
        assert found.table.equals(THREE["a"])
        assert found.places is not None
        assert found.places.tolist() == np.cumsum([0, *seen[:-1]]).tolist()
        assert seen == rows


def _raise() -> Output:
    raise Cancelled("cancelled")


def _some() -> Output:
    return Output(pa.table({"n": [1]}), np.array([0], np.int32))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_part_that_ends_early_ends_the_train(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no part is left running: the next train would share its files."""
    monkeypatch.setattr(train_runs, "PART_ROWS", 1)
    parts: list[Callable[[], Output]] = [_some, _some, _some]
    parts[at] = _raise
    trains = Scripted(parts)
    with pytest.raises(Cancelled):
        trains.run(cast(Any, None), BY_ROW, THREE, 9)
    assert at in trains.ended
    assert sorted(trains.ended) == sorted(trains.begun)
    with trains._cores.taken(9) as free:
        assert free == 3
    trains.close()


def test_other_plans_take_a_core_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_runs, "PART_ROWS", 1)
    cores = Cores(2)
    seen: list[int] = []

    class Counting(train_runs.TrainRuns):
        def _run_part(self, *_: Any) -> Output:
            with cores.taken(2) as more:
                seen.append(more)
            return _some()

    whole: Any = SimpleNamespace(by_row=False)
    Counting(cores, "test").run(cast(Any, None), whole, THREE, 9)
    assert seen == [1], "one of two was free"


def test_threads_of_parts_keep_no_program_from_ending() -> None:
    helper = train_runs.Helper("test")
    assert helper._thread.daemon
    done: list[int] = []
    helper.submit(done.append, 7).result(timeout=30)
    assert done == [7]
    with pytest.raises(ValueError, match="whatever"):
        helper.submit(_fail, 1).result(timeout=30)
    helper.close()
    assert not helper._thread.is_alive()


def _fail(_lane: int) -> None:
    raise ValueError("whatever")


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return cast(StructType, StructType.fromDDL(KINDS["stations"].schema))


@pytest.fixture(scope="module")
def checker(spark: SparkSession, schema: StructType) -> Checker:
    return Checker(spark, {"readings": schema})


def runnable(checker: Checker, name: str, sql: str) -> Runnable:
    return Runnable(checker.sql(name, sql), cast(Any, None))


@pytest.fixture
def runner(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanRunner]:
    monkeypatch.setattr(train_runs, "PART_ROWS", 100)
    plans = Plans(spark)
    plans.cores = Cores(3)
    made = plans.worker("parts")
    yield made
    made.close()


@pytest.mark.spark
@pytest.mark.parametrize("queries", [FEW, [*FEW, ALL], FEW * (BITS // len(FEW) + 1)])
@pytest.mark.parametrize("rows", [0, 1, 199, 200, 1003])
def test_a_train_in_parts_gives_the_rows_of_each_query_in_their_order(
    spark: SparkSession,
    checker: Checker,
    schema: StructType,
    runner: PlanRunner,
    queries: list[str],
    rows: int,
) -> None:
    cell = [runnable(checker, f"q{i}", sql) for i, sql in enumerate(queries)]
    task = of_composite(cell, cell, {"readings": schema})
    train = ROWS.slice(0, rows)
    found = runner.run(task, {"readings": train})
    assert found is not None
    assert (found.places is None) == (ALL in queries)
    if found.places is not None and rows > 1:
        assert 0 < len(found.places) == found.table.num_rows < rows / 2
    result = found.made.complete(found.table, train, found.places)
    stamps = np.arange(1_000_000, 1_000_000 + rows)
    stamps = stamps if found.places is None else stamps[found.places]
    cut = task.cut(found.made)
    assert isinstance(cut, CutByMask)
    since = cut.earliest(result, stamps)
    session = spark.newSession()
    data: Any = train
    session.createDataFrame(data, schema).createOrReplaceTempView("readings")
    for sql, query, table, first in zip(queries[:5], cell, cut(result), since, strict=False):
        assert table.equals(session.sql(sql).toArrow().cast(query.schema)), sql
        of_kept = f"SELECT min(reading) FROM readings WHERE {sql.partition('WHERE')[2] or 'true'}"
        [(n,)] = session.sql(of_kept).collect()
        assert first == (None if n is None else 1_000_000 + n), sql


@pytest.mark.spark
def test_without_memory_for_a_plan_long_trains_are_ordinary_jobs_until_there_is_some(
    spark: SparkSession, checker: Checker, schema: StructType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut into parts of what a short train left as its limit, they would be thousands."""
    monkeypatch.setattr(plans_module, "MOST_ROWS", dict.fromkeys(plans_module.MOST_ROWS, 100))
    plans = Plans(spark)
    runner = plans.worker("memory")
    cell = [runnable(checker, "q", FEW[0])]
    task = of_composite(cell, cell, {"readings": schema})

    def runs(rows: int) -> bool:
        return runner.run(task, {"readings": ROWS.slice(0, rows)}) is not None

    assert runs(1000), "ten parts"
    plans.too_large(task.key, 10)
    assert not runs(1000)
    assert not runs(6)
    for _ in range(200):
        assert runs(5)
    assert runs(1000), "in time"
    runner.close()
