"""The allow-list: what may run on any cut does, all else is refused by name with a remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from daybreak.model import ConfigError
from daybreak.spark.sql.forms import SqlBody

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from daybreak.spark.sql.check import Checker

pytestmark = pytest.mark.spark

DDL = "a INT, b STRING, at TIMESTAMP, arr ARRAY<INT>"


def stream_schema() -> StructType:
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(DDL))


@pytest.fixture(scope="module")
def checker(spark: SparkSession) -> Iterator[Checker]:
    """Streams r, q and Readings; static tables stations (k, v) and noise; three functions."""
    from pyspark.sql import functions as f

    from daybreak.spark.sql.check import Checker

    stations = pa.table({"k": pa.array([1, 2, 2, 9], pa.int32()), "v": ["x", "y", "z", None]})
    spark.createDataFrame(stations).createOrReplaceTempView("stations")
    spark.range(3).withColumn("n", f.rand()).createOrReplaceTempView("noise")
    spark.udf.register("plus_one", lambda a: None if a is None else a + 1, "int")
    spark.udf.register("dice", f.udf(lambda a: a, "int").asNondeterministic())
    schema = stream_schema()
    yield Checker(spark, {"r": schema, "q": schema, "Readings": schema})
    for view in ("stations", "noise"):
        spark.catalog.dropTempView(view)


#: SQL that may run: the streams it reads and its kind.
ALLOWED: dict[str, tuple[tuple[str, ...], str]] = {
    "SELECT * FROM r": (("r",), "filter"),
    "TABLE r": (("r",), "filter"),
    "SELECT a + 1 AS x, upper(b) AS u FROM readings WHERE b LIKE 'a%' ;\n": (
        ("Readings",), "filter",
    ),
    "SELECT a, plus_one(a) AS x, transform(arr, e -> e + 1) AS y FROM r": (("r",), "filter"),
    "WITH c AS (SELECT a FROM r WHERE a > 1) SELECT a FROM c |> WHERE a < 5": (("r",), "filter"),
    "SELECT window(at, '10 seconds') AS w, a FROM r": (("r",), "filter"),
    "SELECT window(at, '10 seconds', '5 seconds') AS w, a FROM r": (("r",), "stateless"),
    "SELECT a FROM r UNION ALL SELECT a + 1 FROM q": (("q", "r"), "stateless"),
    "WITH c AS (SELECT a FROM r) SELECT * FROM c UNION ALL SELECT * FROM c": (("r",), "stateless"),
    "SELECT a, x FROM r LATERAL VIEW explode(arr) AS x": (("r",), "stateless"),
    "SELECT a, x FROM r, LATERAL explode(arr) AS t(x)": (("r",), "stateless"),
    "SELECT * FROM (SELECT a, get(arr, 0) AS z FROM r) UNPIVOT (val FOR nm IN (a, z))": (
        ("r",), "stateless",
    ),
    "SELECT a, v FROM r JOIN stations ON a = k": (("r",), "stateless"),
    "SELECT /*+ BROADCAST(s) */ a, v FROM stations s JOIN r ON a = k": (("r",), "stateless"),
    "SELECT a, v FROM r LEFT JOIN stations ON a = k": (("r",), "stateless"),
    "SELECT a, v FROM stations RIGHT JOIN r ON a = k": (("r",), "stateless"),
    "SELECT a FROM r LEFT SEMI JOIN stations ON a = k": (("r",), "stateless"),
    "SELECT a FROM r LEFT ANTI JOIN stations ON a = k": (("r",), "stateless"),
    "SELECT a, id FROM r CROSS JOIN range(3)": (("r",), "stateless"),
    "SELECT a, n FROM r JOIN (SELECT k, count(*) AS n FROM stations GROUP BY k) ON a = k": (
        ("r",), "stateless",
    ),
    "SELECT a FROM r JOIN (SELECT DISTINCT k FROM stations ORDER BY k) ON a = k": (
        ("r",), "stateless",
    ),
    "SELECT a FROM r WHERE a IN (SELECT k FROM stations)": (("r",), "stateless"),
    "SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM stations WHERE k = r.a)": (
        ("r",), "stateless",
    ),
    "SELECT a FROM r WHERE a > (SELECT min(k) FROM stations)": (("r",), "stateless"),
    "SELECT a, (SELECT max(k) FROM stations WHERE k < r.a) AS m FROM r": (("r",), "stateless"),
    "SELECT a, y FROM r, LATERAL (SELECT k + 1 AS y FROM stations WHERE k = r.a)": (
        ("r",), "stateless",
    ),
}  # fmt: skip

#: SQL that is refused, and what the refusal says.
REFUSED: dict[str, str] = {
    "SELECT DISTINCT a FROM r": "has DISTINCT, .*depend on how the rows were batched",
    "SELECT a FROM r UNION SELECT a FROM q": "write UNION ALL",
    "SELECT a FROM r LIMIT 3": "has LIMIT",
    "SELECT a FROM r OFFSET 3": "has OFFSET",
    "SELECT a FROM r ORDER BY a": "has ORDER BY",
    "SELECT a FROM r SORT BY a": "has SORT BY",
    "SELECT a FROM r DISTRIBUTE BY a": "DISTRIBUTE BY",
    "SELECT /*+ REPARTITION(3) */ a FROM r": "partitioning hint",
    "SELECT a, row_number() OVER (ORDER BY a) AS n FROM r": "window function",
    "SELECT a, rank() OVER (PARTITION BY b ORDER BY a) AS n FROM r": "ranks rows of different",
    "SELECT a, lag(a) OVER (PARTITION BY b ORDER BY at) AS n FROM r": "window function",
    "SELECT a FROM r TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT TRANSFORM(a) USING 'cat' FROM r": "TRANSFORM ... USING, which runs a program",
    "SELECT count(*) AS n FROM r": "has an aggregate",
    "SELECT max(a) AS n FROM r HAVING max(a) > 1": "has an aggregate",
    "SELECT a, count(*) AS n FROM r GROUP BY a": "GROUP BY without a window",
    "SELECT * FROM r PIVOT (sum(a) FOR b IN ('x'))": "GROUP BY without a window",
    "SELECT a, b, count(*) AS n FROM r GROUP BY CUBE (a, b)": "GROUP BY without a window",
    "SELECT window(at, '9 seconds') AS w, count(*) AS n FROM r GROUP BY 1": "event time",
    "SELECT b, max(a) AS n FROM r GROUP BY b, window(at, '9 seconds', '3 seconds')": "'at'",
    "SELECT session_window(at, '9 seconds') AS w, count(*) AS n FROM r GROUP BY 1": "fixed ends",
    "SELECT r.a FROM r JOIN q ON r.a = q.a": "joins streams 'r' and 'q', .*band",
    "SELECT x.a FROM r x JOIN r y ON x.a = y.a": "joins streams 'r' with itself",
    "WITH c AS (SELECT a FROM r) SELECT x.a FROM c x JOIN c y ON x.a = y.a": "'r' with itself",
    "SELECT a FROM r EXCEPT SELECT a FROM q": "EXCEPT, .*window",
    "SELECT a FROM r EXCEPT ALL SELECT k FROM stations": "EXCEPT with a static table, .*LEFT ANTI",
    "SELECT a FROM r INTERSECT SELECT a FROM q": "INTERSECT, .*window",
    "SELECT a FROM r WHERE a IN (SELECT a FROM q)": "subquery over stream 'q'",
    "SELECT a FROM r WHERE a > (SELECT max(a) FROM r)": "subquery over stream 'r'",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM stations WHERE k IN (SELECT a FROM q))": "'q'",
    "WITH c AS (SELECT a FROM q) SELECT a FROM r WHERE a IN (SELECT a FROM c)": "stream 'q'",
    "SELECT r.a, y FROM r, LATERAL (SELECT a AS y FROM q WHERE q.a = r.a)": "stream 'q'",
    "SELECT v FROM stations LEFT JOIN r ON a = k": "LEFT OUTER join .* of the static table",
    "SELECT v FROM r FULL JOIN stations ON a = k": "FULL OUTER join",
    "SELECT v FROM stations LEFT SEMI JOIN r ON a = k": "LEFT SEMI join",
    "SELECT v FROM stations LEFT ANTI JOIN r ON a = k": "LEFT ANTI join",
    "SELECT a FROM r UNION ALL SELECT k FROM stations": "a branch of UNION ALL reads no stream",
    "SELECT a FROM r UNION ALL SELECT 1": "a branch of UNION ALL reads no stream",
    "SELECT k FROM stations": "reads no stream",
    "SELECT a FROM r JOIN (SELECT k FROM stations LIMIT 1) ON a = k": "LIMIT over static tables",
    "SELECT a FROM r JOIN (SELECT collect_list(k) AS l FROM stations) ON l[0] = a": "CollectList",
    "SELECT a FROM r WHERE a = (SELECT first(k) FROM stations)": "First over static",
    "SELECT a FROM r JOIN noise ON a = id": r"uses rand\(\)",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) "
    "SELECT a FROM r JOIN t ON n = a": "WITH RECURSIVE",
    "SELECT a, a FROM r": "two columns 'a'; name them apart",
    "SELECT a, b AS A FROM r": "two columns 'A'",
    "SELECT NULL AS x FROM r": "column 'x' has no type",
    "SELECT a, INTERVAL 3 MONTHS AS x FROM r": "no sink can hold .'x': YearMonth",
    "SELECT a FROM readngs": "line 1, column 15: unknown stream 'readngs'; did you mean 'Readings'",
    "SELECT a\nFROM r\nWHERE nosuch > 1": "line 3, column 7: .*`nosuch` cannot be resolved",
    "SELECT a FROM r WHERE (a > 1": "line 1, column 29: Syntax error",
    "SELECT nofunction(a) FROM r": "line 1, column 8: .*nofunction",
    "SELECT 1; SELECT 2": "line 1, column 9",
    "": "empty statement",
    "DROP VIEW r": "not begin as a query but with 'DROP'",
    "INSERT INTO q SELECT * FROM r": "'INSERT'",
    "CREATE TABLE made_by_a_query AS SELECT 1 AS x": "'CREATE'",
    "SET spark.sql.ansi.enabled = false": "'SET'",
}

#: Expressions whose value depends on when or where they are computed, and the name we give them.
MOVING: dict[str, str] = {
    "rand()": r"rand\(\)",
    "rand(3)": r"rand\(\)",
    "randn()": r"randn\(\)",
    "random()": r"rand",
    "randstr(3)": r"randstr\(\)",
    "uniform(1, 3)": r"uniform\(\)",
    "uuid()": r"uuid\(\)",
    "shuffle(arr)": r"shuffle\(\)",
    "monotonically_increasing_id()": r"monotonically_increasing_id\(\)",
    "spark_partition_id()": r"SPARK_PARTITION_ID\(\)",
    "input_file_name()": r"input_file_name\(\)",
    "input_file_block_start()": r"input_file_block_start\(\)",
    "java_method('java.util.UUID', 'randomUUID')": r"java_method\(\)",
    "dice(a)": r"dice\(\)|<lambda>\(\)",
    "aes_encrypt('a', '0000111122223333')": r"aes_encrypt\(\)",
    "now()": r"now\(\)",
    "current_timestamp()": r"current_timestamp\(\)",
    "current_timestamp": r"current_timestamp\(\)",
    "current_date()": r"current_date\(\)",
    "curdate()": r"current_date\(\)",
    "current_time()": r"current_time\(\)",
    "localtimestamp()": r"localtimestamp\(\)",
    "unix_timestamp()": r"current_timestamp\(\)",
    "date_add(current_date(), a)": r"current_date\(\)",
    "current_user()": r"current_user\(\)",
    "TIMESTAMP 'now'": "'now'",
    "date\n' TODAY '": "'TODAY'",
    "timestamp_ntz'yesterday'": "'yesterday'",
    "DATE /* the day of the job */ 'tomorrow'": "'tomorrow'",
    'TIMESTAMP r"now"': "'now'",
    r"TIMESTAMP 'n\u006fw'": r"'n\\u006fw'",
    "cast('now' AS TIMESTAMP)": "'now' or 'today' cast",
    "to_timestamp('to' || 'morrow')": "'now' or 'today' cast",
    "to_date('today')": "'now' or 'today' cast",
    "at > 'now'": "'now' or 'today' cast",
    "(SELECT max(k) FROM stations WHERE current_date() > DATE '2020-01-01')": r"current_date\(\)",
}


@pytest.mark.parametrize("sql", ALLOWED)
def test_allowed(checker: Checker, sql: str) -> None:
    found = checker.sql("x", sql)
    assert (found.reads, found.kind) == ALLOWED[sql]
    assert isinstance(found.body, SqlBody)
    assert not found.body.text.endswith((";", "\n"))


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(checker: Checker, sql: str) -> None:
    with pytest.raises(ConfigError, match=rf"^p\.toml:3: .*{REFUSED[sql]}") as caught:
        checker.sql("x", sql, "p.toml:3")
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("expression", MOVING)
@pytest.mark.parametrize("form", ["SELECT {} AS x FROM r", "SELECT a FROM r WHERE {} IS NOT NULL"])
def test_what_depends_on_the_moment_is_refused_by_name(
    checker: Checker, expression: str, form: str
) -> None:
    with pytest.raises(ConfigError, match=f"uses (a text such as )?({MOVING[expression]})"):
        checker.sql("x", form.format(expression))


def test_texts_that_only_look_like_moments_are_fine(checker: Checker) -> None:
    for condition in (
        "at > '2026-01-01'",
        "at > TIMESTAMP '2026-01-01 00:00:00'",
        "b = 'now'",
        "to_date(b) > DATE '2020-01-01'",
        "b = 'current_timestamp()'",
        "b = 'DATE ''today'' and more'",
        "b = 'x' /* DATE 'today' */ -- TIMESTAMP 'now'",
    ):
        assert checker.sql("x", f"SELECT a FROM r WHERE {condition}").kind == "filter"


def test_the_result_has_the_schema_spark_gives(checker: Checker) -> None:
    found = checker.sql("x", "SELECT a + 1L AS n, at, map(b, arr) AS m FROM r")
    assert found.schema.simpleString() == "struct<n:bigint,at:timestamp,m:map<string,array<int>>>"


def test_checking_runs_no_job_and_leaves_no_trace(spark: SparkSession, checker: Checker) -> None:
    from daybreak.spark.sql.check import check_sql

    sc = spark.sparkContext
    before = {table.name for table in spark.catalog.listTables()}
    sc.setJobGroup("checking", "checking")
    try:
        check_sql(spark, "x", "SELECT a FROM other", {"other": stream_schema()})
        with pytest.raises(ConfigError, match="CREATE"):
            checker.sql("x", "CREATE TEMP VIEW v AS SELECT 1 AS x")
        assert sc.statusTracker().getJobIdsForGroup("checking") == []
    finally:
        sc.setLocalProperty("spark.jobGroup.id", cast(str, None))
    assert {table.name for table in spark.catalog.listTables()} == before
    assert type(spark).getActiveSession() is spark


def test_streams_that_differ_only_in_case_are_refused(spark: SparkSession) -> None:
    from daybreak.spark.sql.check import Checker

    schema = stream_schema()
    with pytest.raises(ConfigError, match="differ only in case"):
        Checker(spark, {"r": schema, "R": schema})


def test_a_stream_may_have_a_name_that_needs_quotes(spark: SparkSession) -> None:
    from daybreak.spark.sql.check import check_sql

    streams = {"fire-watch 1": stream_schema()}
    assert check_sql(spark, "x", "SELECT a FROM `fire-watch 1`", streams).reads == tuple(streams)


def test_a_function_must_give_a_frame(spark: SparkSession, checker: Checker) -> None:
    from daybreak.spark.sql.check import check_function

    def hot(readings: DataFrame) -> DataFrame:
        return readings.filter("a > 35").select("a", "b")

    found = checker.function("hot", hot, ("r",))
    assert (found.reads, found.kind, found.schema.names) == (("r",), "function", ["a", "b"])
    both = check_function(
        spark,
        "both",
        lambda x, y: x.union(y),
        {"y": stream_schema(), "x": stream_schema()},
    )
    assert both.reads == ("y", "x")

    def refused(function: Any, reads: tuple[str, ...] = ("r",)) -> str:
        with pytest.raises(ConfigError) as caught:
            checker.function("x", function, reads)
        return str(caught.value)

    assert "returns int; return a DataFrame" in refused(lambda frame: 3)
    assert "returns NoneType" in refused(lambda frame: None)
    assert "fails on empty input (AnalysisException" in refused(lambda frame: frame.select("z"))
    assert "fails on empty input (TypeError" in refused(lambda: None)
    assert "two columns 'a'" in refused(lambda frame: frame.select("a", "a"))
    assert "unknown stream 'rr'" in refused(hot, ("rr",))


SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("arr", pa.list_(pa.int32())),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.integers(0, 9)),
        "b": st.sampled_from(["abc", "x", "", None]),
        "at": st.integers(0, 20).map(lambda s: datetime.fromtimestamp(s, UTC)),
        "arr": st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=2)),
    }
)


def results(
    spark: SparkSession, queries: list[str], rows: list[dict[str, Any]]
) -> Counter[tuple[int, str]]:
    """The rows of all queries over one cut of every stream, by one job."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    for stream in ("r", "q", "readings"):
        spark.createDataFrame(table).createOrReplaceTempView(stream)
    parts = [
        f"SELECT {number} AS number, to_json(struct(*)) AS row FROM (\n{sql}\n)"
        for number, sql in enumerate(queries)
    ]
    found = spark.sql(" UNION ALL ".join(parts)).toArrow()
    return Counter(zip(found["number"].to_pylist(), found["row"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def queries(spark: SparkSession, checker: Checker) -> Iterator[list[str]]:
    bodies = [checker.sql("x", sql).body for sql in ALLOWED]
    yield [body.text for body in bodies if isinstance(body, SqlBody)]
    for stream in ("r", "q", "readings"):
        spark.catalog.dropTempView(stream)


# Always the same few examples, not made smaller: each costs three jobs of all queries.
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
@given(rows=st.lists(ROWS, min_size=6, max_size=12), cut=st.integers(1, 6))
def test_any_cut_gives_the_rows_of_the_batch(
    spark: SparkSession, queries: list[str], rows: list[dict[str, Any]], cut: int
) -> None:
    whole = results(spark, queries, rows)
    parts = results(spark, queries, rows[:cut]) + results(spark, queries, rows[cut:])
    assert parts == whole


def test_what_is_refused_does_depend_on_the_cut(spark: SparkSession, queries: list[str]) -> None:
    """So the comparison above can tell."""
    refused = [
        "SELECT DISTINCT b FROM r",
        "SELECT a FROM r LIMIT 1",
        "SELECT count(*) AS n FROM r",
        "SELECT v FROM stations LEFT ANTI JOIN r ON a = k",
        "SELECT v, a FROM stations LEFT JOIN r ON a = k",
        "SELECT v FROM stations LEFT SEMI JOIN r ON a = k",
        "SELECT a FROM r UNION ALL SELECT k FROM stations",
        "SELECT x.a FROM r x JOIN q y ON x.b = y.b",
        "SELECT a FROM r WHERE a >= (SELECT max(a) FROM r)",
    ]
    rows: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}, {"a": 1, "b": "x"}]
    whole = results(spark, refused, rows)
    parts = results(spark, refused, rows[:1]) + results(spark, refused, rows[1:])
    differing = {number for number, _ in (whole - parts) + (parts - whole)}
    assert differing == set(range(len(refused)))


@pytest.mark.parametrize("form", ["no-such-source", "\x00"])
def test_a_source_that_spark_does_not_know_is_refused(spark: SparkSession, form: str) -> None:
    from daybreak.spark.app import App

    app = App(spark)
    app.stream("s", format=form, schema="n INT")
    app.query("q", sql="SELECT n FROM s")
    with pytest.raises(ConfigError, match=r"stream 's': Spark refuses it: .*DATA_SOURCE_NOT_FOUND"):
        app.check()
