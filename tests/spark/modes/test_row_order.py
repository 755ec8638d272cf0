"""A result does not show in which order its rows were read, or its query is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType
from tests.spark.modes.feeds import SCHEMA

from daybreak.model import ConfigError
from daybreak.spark.sql.check import Checker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Aggregates whose results do not depend on the order of rows.
SETTLED = (
    "sort_array(collect_list(v))",
    "sort_array(collect_list(struct(at, v)), false)",
    "sort_array(collect_list(v) FILTER (WHERE v > 1))",
    "array_sort(collect_set(v))",
    "sort_array(array_distinct(array_agg(v)))",
    "sort_array(transform(collect_list(v), x -> x % 3))",
    "sort_array(flatten(collect_list(array(v, n))))",
    "transform(sort_array(collect_list(struct(at, v))), s -> s.v)",
    "concat_ws(',', sort_array(collect_list(k)))",
    "element_at(sort_array(collect_list(v)), 1)",
    "size(collect_set(v))",
    "array_max(collect_list(v))",
    "array_contains(collect_list(v), 3)",
    "exists(collect_list(v), x -> x > 9)",
    "listagg(k, ',') WITHIN GROUP (ORDER BY k)",
    "mode() WITHIN GROUP (ORDER BY v)",
    "mode(v, true)",
    "max_by(v, at)",
    "max_by(v, at, 2)",
    "median(v)",
    "percentile(v, 0.9)",
    "approx_count_distinct(v)",
    "count_min_sketch(k, 0.5d, 0.5d, 1)",
    "regr_count(v, n)",
    "count(DISTINCT v)",
)
#: Those whose results may, and a part of the remedy.
OPEN = {
    "collect_list(v)": "sort_array",
    "array_agg(v)": "sort_array",
    "collect_set(v)": "sort_array",
    "collect_list(v)[0]": "sort_array",
    "array_join(collect_list(k), ',')": "sort_array",
    "map_from_entries(collect_list(struct(k, v)))": "sort_array",
    "sort_array(transform(collect_list(v), (x, i) -> x + i))": "sort_array",
    "array_sort(collect_list(v), (x, y) -> x % 2 - y % 2)": "sort_array",
    "first(v)": "max_by",
    "last_value(v)": "max_by",
    "any_value(v)": "max_by",
    "string_agg(k, ',')": "WITHIN GROUP",
    "mode(v)": "WITHIN GROUP",
    "percentile_approx(v, 0.9)": "percentile",
    "histogram_numeric(v, 3)": "ranges",
    "hll_sketch_agg(v)": "whose result does not",
    "approx_top_k(k)": "whose result does not",
    "first_value(v) OVER (PARTITION BY k)": "max_by",
    "sum(v) OVER (PARTITION BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)": "ORDER BY",
}
ORDERED = (
    "SELECT n FROM rows ORDER BY n LIMIT 3",
    "SELECT n FROM (SELECT * FROM rows ORDER BY at) LIMIT 3 OFFSET 1",
    "SELECT max(n) AS m FROM rows LIMIT 1",
    "SELECT first(v) OVER (PARTITION BY k ORDER BY at) AS x FROM rows",
    "SELECT sum(v) OVER (PARTITION BY k ORDER BY n ROWS 2 PRECEDING) AS x FROM rows",
    "SELECT sum(v) OVER (PARTITION BY k) AS x, lag(v) OVER (ORDER BY n) AS y FROM rows",
    "SELECT * FROM (SELECT k, v, n FROM rows) PIVOT (sum(n) FOR v IN (1, 2))",
)
PICKING = {
    "SELECT n FROM rows LIMIT 3": "add ORDER BY",
    "SELECT n FROM rows OFFSET 3": "add ORDER BY",
    "SELECT n FROM rows WHERE v > (SELECT v FROM rows LIMIT 1)": "add ORDER BY",
    "SELECT * FROM rows TABLESAMPLE (10 PERCENT)": "hash",
    "WITH a AS (SELECT k, collect_list(v) AS l FROM rows GROUP BY k) SELECT * FROM a": "sort_array",
    "SELECT k FROM rows GROUP BY k HAVING first(v) > 1": "max_by",
}


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Checker:
    schema = StructType.fromDDL(SCHEMA)
    assert isinstance(schema, StructType)
    return Checker(spark.newSession(), {"rows": schema})


def test_what_shows_the_order_of_rows_is_refused_with_its_remedy(checker: Checker) -> None:
    texts = {f"SELECT {call} AS x FROM rows": remedy for call, remedy in OPEN.items()}
    for sql, remedy in {**texts, **PICKING}.items():
        with pytest.raises(ConfigError) as refused:
            checker.sql("q", sql, mode="complete")
        assert remedy in refused.value.remedy, sql


def test_a_state_does_not_hold_what_a_repeated_micro_batch_may_contradict(checker: Checker) -> None:
    with pytest.raises(ConfigError, match=r"uses first\(\)"):
        checker.sql("q", "SELECT k, first(v) AS v FROM rows GROUP BY k", mode="update")
    sql = "SELECT k, sort_array(collect_list(v)) AS v FROM rows GROUP BY k"
    assert checker.sql("q", sql, mode="update").kind == "stateful"


def test_what_does_not_show_it_is_accepted(checker: Checker) -> None:
    for sql in (*(f"SELECT {call} AS x FROM rows" for call in SETTLED), *ORDERED):
        assert checker.sql("q", sql, mode="complete").kind == "complete", sql


def test_what_is_accepted_is_the_same_in_any_order(spark: SparkSession) -> None:
    calls = [f"{call} AS c{number}" for number, call in enumerate(SETTLED)]
    rows = spark.range(60).selectExpr(
        "CAST(id AS INT) AS n", "concat('k', id % 4) AS k", "CAST(id * 7 % 11 AS INT) AS v",
        "timestamp_seconds(id) AS at",
    )  # fmt: skip

    def result(*order: str) -> pa.Table:
        return rows.coalesce(1).sort(*order).coalesce(1).selectExpr(*calls).toArrow()

    one, *others = result("n"), result("k", "n"), result("v", "k")
    for other in others:
        assert one.equals(other)


def test_dropped_duplicates_are_those_of_any_order(checker: Checker) -> None:
    def first_of_each(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["k"])

    with pytest.raises(ConfigError, match="dropDuplicates by some of its columns") as refused:
        checker.function("q", first_of_each, ("rows",), mode="complete")
    assert "max_by" in refused.value.remedy
    assert checker.function("q", first_of_each, ("rows",), mode="append").kind == "stateful"
    within = DataFrame.dropDuplicatesWithinWatermark
    with pytest.raises(ConfigError, match="on streams alone"):
        checker.function("q", lambda rows: within(rows, ["k"]), ("rows",), mode="complete")
    for whole in (DataFrame.distinct, lambda rows: rows.groupBy("k").agg(F.product("v"))):
        assert checker.function("q", whole, ("rows",), mode="complete").kind == "complete"
