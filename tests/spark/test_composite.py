"""Compositing: the same rows together as alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from daybreak.spark.ingest.generator import KINDS, stations
from daybreak.spark.sql.catalyst import Catalyst, kind, nodes
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.composite import BITS, Composite, plain_schema
from daybreak.spark.sql.forms import Composable, OverRows, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READINGS = stations(3, np.arange(400), 1_700_000_000_000_000)
TOGETHER = [
    "SELECT * FROM readings",
    "SELECT reading, station FROM readings WHERE temperature > 20",
    "SELECT r.reading, r.wind * 2 AS twice FROM readings r WHERE r.wind > 30 AND 'r.x' <> 'y'",
    "SELECT wind * 2 AS also_twice, upper(concat('r.', station)) AS s FROM readings r",
    "SELECT reading, 100 / (wind - 7) AS risky FROM readings WHERE wind <> 7",
    """SELECT reading, CASE WHEN wind > 50 THEN 'storm' END AS note, CAST(NULL AS INT) AS n
    FROM readings WHERE district IN (1, 2, 3) AND at > TIMESTAMP '2020-01-01 00:00:00'""",
    """SELECT reading AS `odd name`, named_struct('t', temperature, 'h', humidity) AS both
    FROM readings WHERE humidity IS NOT NULL""",
    "SELECT reading FROM readings WHERE false",
    "SELECT date_trunc('hour', at) AS hour FROM readings WHERE temperature BETWEEN 5 AND 9",
    "SELECT (1e18D * wind + -1e18D * wind) + 1 AS left_first FROM readings",
    "SELECT 1e18D * wind + (-1e18D * wind + 1) AS right_first FROM readings",
    "SELECT reading FROM readings WHERE (1e18D * wind + -1e18D * wind) + 1 > 0.5",
    "SELECT reading FROM readings WHERE 1e18D * wind + (-1e18D * wind + 1) > 0.5",
    "SELECT extract(hour FROM at) AS hour, at + INTERVAL 5 MINUTES AS later FROM readings",
    "SELECT 'wind * 2' AS text, transform(array(wind), wind -> wind + 1) AS m FROM readings wind",
]
#: What queries read, and a column that the stream does not have.
SOURCES = {
    "readings JOIN districts USING (district)": "name",
    "readings r LEFT JOIN districts d ON r.district = d.district AND d.name <> 'd  3'": "d.name",
    "districts d JOIN readings r ON d.district = r.district JOIN districts e ON true": "e.name",
    "readings NATURAL JOIN districts": "districts.name",
    "readings, districts LATERAL VIEW explode(array(1, 2)) t AS part": "part",
    "(SELECT *, wind * 2 AS twice FROM readings WHERE wind > 3) AS fast": "fast.twice",
    "readings LEFT ANTI JOIN districts USING (district)": "length(station)",
}
OVER_A_SOURCE = [
    "SELECT reading, {other} AS other FROM {source}",
    "SELECT reading, station FROM {source} WHERE temperature > 20",
    "SELECT reading, 100 / (wind - 7) AS risky, upper({other}) AS s FROM {source} WHERE wind <> 7",
    "SELECT\n{other} AS `odd name`, at FROM\n{source}\nWHERE reading % 7 = 3 AND 'r.x' <> 'y'",
]
ALONE = [
    "SELECT reading, (SELECT max(district) FROM districts) AS most FROM readings",
    "SELECT reading FROM readings UNION ALL SELECT reading FROM readings WHERE wind > 3",
]


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Checker:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(KINDS["stations"].schema)
    assert isinstance(schema, StructType)
    _districts(spark)
    return Checker(spark, {"readings": schema})


def _districts(session: SparkSession) -> None:
    named = [(i % 40, f"d  {i}") for i in range(50)]
    frame = session.createDataFrame(named, "district INT, name STRING")
    frame.createOrReplaceTempView("districts")


@pytest.mark.spark
@pytest.mark.parametrize("source", SOURCES)
def test_queries_over_one_join_give_the_rows_they_give_alone(
    spark: SparkSession, checker: Checker, source: str
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    session = spark.newSession()
    data: Any = READINGS
    session.createDataFrame(data).createOrReplaceTempView("readings")
    _districts(session)
    texts = [sql.format(source=source, other=SOURCES[source]) for sql in OVER_A_SOURCE]
    checked = [checker.sql(f"q{i}", sql) for i, sql in enumerate(texts)]
    assert len({c.form.share_key for c in checked}) == 1
    parts = parts_of(c.form for c in checked)
    assert all(p.source.same_as(parts[0].source) for p in parts)
    assert parts[0].source.parsed is not None
    schemas = [plain_schema(to_arrow_schema(c.schema, timezone="UTC")) for c in checked]
    for some in (range(len(parts)), range(1, len(parts))):
        composite = Composite([parts[i] for i in some], Catalyst(session))
        read = Catalyst(session).frame(composite.source.parsed, session)
        result = _result(composite, read)
        cut = composite.cutter.cut(result, {at: schemas[i] for at, i in enumerate(some)})
        for i, table in zip(some, cut, strict=True):
            alone = session.sql(texts[i]).toArrow().cast(schemas[i])
            assert _sorted(table) == _sorted(alone), texts[i]
            assert table.num_rows or "ANTI" in source


def _result(composite: Composite, rows: DataFrame) -> pa.Table:
    plan = composite.over(rows._jdf.queryExecution().analyzed())
    return Catalyst(rows.sparkSession).frame(plan, rows.sparkSession).toArrow()


def _sorted(table: Any) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.spark
def test_queries_run_together_give_the_rows_they_give_alone(
    spark: SparkSession, checker: Checker
) -> None:
    """Repeated until several masks are needed."""
    from pyspark.sql.pandas.types import to_arrow_schema

    session = spark.newSession()
    data: Any = READINGS
    session.createDataFrame(data).createOrReplaceTempView("readings")
    many = TOGETHER * (BITS // len(TOGETHER) + 2)
    checked = [checker.sql(f"q{i}", sql) for i, sql in enumerate(TOGETHER)]
    parts = parts_of(c.form for c in checked)
    alone = [c.body for c in checked if not isinstance(c.form, Composable)]
    assert len(parts) == len(TOGETHER), alone
    assert len(many) > BITS
    composite = Composite([parts[i % len(parts)] for i in range(len(many))], Catalyst(session))
    schemas = [plain_schema(to_arrow_schema(c.schema, timezone="UTC")) for c in checked]
    result = _result(composite, session.table("readings"))
    wanted = {i: schemas[i % len(schemas)] for i in range(len(many))}
    cut = composite.cutter.cut(result, wanted)
    assert composite.cutter.cut(result, {7: wanted[7], 2: wanted[2]}) == [cut[7], cut[2]]
    for sql, schema, table in zip(many, schemas * len(many), cut, strict=False):
        assert table.equals(session.sql(sql).toArrow().cast(schema)), sql


@pytest.mark.spark
@pytest.mark.parametrize("sql", ALONE)
def test_what_cannot_be_taken_apart_runs_alone(checker: Checker, sql: str) -> None:
    assert type(checker.sql("q", sql).form) is OverRows


@pytest.mark.spark
def test_workers_share_no_expression(spark: SparkSession, checker: Checker) -> None:
    """``to_json`` keeps a writer, and two threads would write into one text."""
    catalyst = Catalyst(spark)
    sql = "SELECT to_json(struct(wind)) AS j FROM readings WHERE wind > 3"
    [parts] = parts_of([checker.sql("q", sql).form])
    jvm: Any = spark.sparkContext._jvm

    def tagged() -> set[int]:
        composite = Composite([parts], catalyst)
        made = [*composite._computed, *composite._masks]
        found = [node for tree in made for node in nodes(tree)]
        names = ("StructsToJson", "GreaterThan")
        return {jvm.System.identityHashCode(n) for n in found if kind(n) in names}

    one, other = tagged(), tagged()
    assert len(one) == len(other) == 3
    assert not one & other


@pytest.mark.spark
def test_columns_that_changed_places_are_no_longer_the_same_source(
    spark: SparkSession, checker: Checker
) -> None:
    sql = "SELECT reading, name FROM readings r JOIN districts d ON r.district = d.district"
    [parts] = parts_of([checker.sql("q", sql).form])
    session = spark.newSession()
    data: Any = READINGS
    session.createDataFrame(data).createOrReplaceTempView("readings")
    _districts(session)
    frame = Catalyst(session).frame(parts.source.parsed, session)
    assert [f.name for f in frame.schema] == [
        f["name"] for f in json.loads(parts.source.schema)["fields"]
    ]
    swapped = session.table("districts").select("name", "district")
    swapped.createOrReplaceTempView("districts")
    again = Catalyst(session).frame(parts.source.parsed, session)
    assert again._jdf.schema().json() != parts.source.schema
