"""Without a Spark job: the same rows as with one, or a refusal, never anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from py4j.protocol import Py4JError

from daybreak.spark.ingest.generator import KINDS, stations
from daybreak.spark.jobs.direct import Direct, Projection
from daybreak.spark.jobs.inmemory import MemoryFolder
from daybreak.spark.sql.catalyst import Catalyst

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READINGS = stations(3, np.arange(400), 1_700_000_000_000_000)
EVALUATED = [
    "SELECT *, wind > 30 AS windy FROM readings",
    "SELECT upper(station) AS s, nvl(CAST(NULL AS INT), wind) AS w FROM readings",
    "SELECT m + 1 AS n, m & 3 AS o, m AS p FROM (SELECT IF(wind > 9, 5L, 0L) AS m FROM readings)",
    "SELECT date_trunc('hour', at) AS hour, CAST(wind AS DECIMAL(9, 2)) AS d FROM readings",
    "SELECT named_struct('t', temperature, 'h', array(humidity)) AS both FROM readings",
    "SELECT CASE WHEN wind <> 7 THEN 100 / (wind - 7) END AS guarded FROM readings",
]
REFUSED = {
    "a filter": "SELECT reading FROM readings WHERE wind > 3",
    "a subquery": "SELECT reading, (SELECT max(id) FROM range(5)) AS top FROM readings",
    "chance": "SELECT reading + rand() AS r FROM readings",
    "rows made": "SELECT explode(array(reading, wind)) AS part FROM readings",
    "another language": "SELECT twice_in_python(wind) AS w FROM readings",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.udf.register("twice_in_python", lambda n: n * 2, "int")
    return made


@pytest.fixture(scope="module")
def direct(session: SparkSession) -> Iterator[Direct]:
    opened = make(session)
    yield opened
    opened.close()


def make(session: SparkSession) -> Direct:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(KINDS["stations"].schema)
    assert isinstance(schema, StructType)
    return Direct(session, {"readings": schema})


def compiled(direct: Direct, session: SparkSession, sql: str) -> Projection | None:
    """The text, over whatever rows it is given."""

    def over(rows: Any) -> Any:
        Catalyst(session).frame(rows, session).createOrReplaceTempView("readings")
        return session.sql(sql)._jdf.queryExecution().analyzed()

    return direct.compile(over, "readings")


@pytest.mark.parametrize("sql", EVALUATED)
def test_the_rows_are_those_of_a_job(session: SparkSession, direct: Direct, sql: str) -> None:
    projection = compiled(direct, session, sql)
    assert projection is not None
    data: Any = READINGS
    session.createDataFrame(data).createOrReplaceTempView("readings")
    for table in (READINGS, READINGS.slice(17, 1), READINGS.slice(100, 250)):
        found = direct.apply(projection, table)
        assert found is not None
        data = table
        session.createDataFrame(data).createOrReplaceTempView("readings")
        assert found.equals(session.sql(sql).toArrow().cast(found.schema))


@pytest.mark.parametrize("why", sorted(REFUSED))
def test_anything_but_a_projection_is_refused(
    session: SparkSession, direct: Direct, why: str
) -> None:
    assert compiled(direct, session, REFUSED[why]) is None


def test_an_expression_that_fails_is_left_to_the_regular_job(
    session: SparkSession, direct: Direct
) -> None:
    projection = compiled(direct, session, "SELECT 100 / (wind - wind) AS x FROM readings")
    assert projection is not None
    assert direct.apply(projection, READINGS) is None


def test_memory_that_is_full_is_left_to_the_regular_job(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.spark.jobs.direct.MemoryFolder", lambda: MemoryFolder(tmp_path))
    direct = make(session)
    projection = compiled(direct, session, EVALUATED[0])
    assert projection is not None
    (folder,) = tmp_path.glob("daybreak-*")
    (folder / "in").symlink_to("/dev/full")
    assert direct.apply(projection, READINGS) is None
    (folder / "in").unlink()
    (folder / "out").symlink_to("/dev/full")
    assert direct.apply(projection, READINGS) is None
    (folder / "out").unlink()
    assert direct.apply(projection, READINGS) is not None
    direct.close()


def test_a_spark_that_lacks_a_piece_is_no_error(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_jvm: Any, name: str) -> Any:
        raise Py4JError(f"{name} does not exist in the JVM")

    monkeypatch.setattr("daybreak.spark.jobs.direct._module", missing)
    direct = make(session)
    assert compiled(direct, session, EVALUATED[0]) is None
    direct.close()
