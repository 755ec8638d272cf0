"""A query reads streams, views and declared tables, and nothing by another way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType
from tests.spark.windows.logs import declare, feed

from daybreak.model import ConfigError
from daybreak.model.specs import Mode
from daybreak.spark.jobs.adhoc import Kept, ad_hoc
from daybreak.spark.sql.check import Checker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MODES: tuple[Mode | None, ...] = (None, "append", "update", "complete")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, k = 1 and 2, in files of every format that Spark reads by a path."""
    found = tmp_path_factory.mktemp("leaves")
    rows = pa.table({"k": pa.array([1, 2], pa.int32())})
    (found / "parquet").mkdir()
    pq.write_table(rows, found / "parquet/a.parquet")
    (found / "text").write_text("1\n2\n")
    (found / "json").write_text('{"k": 1}\n{"k": 2}\n')
    return found


@pytest.fixture(scope="module")
def checker(spark: SparkSession, folder: Path) -> Iterator[Checker]:
    """A stream r beside all that a session may know that nobody declared as a table."""
    files = spark.read.parquet(str(folder / "parquet"))
    spark.sql(f"CREATE TABLE listed USING parquet LOCATION '{folder / 'parquet'}'")
    spark.sql("CREATE VIEW shown AS SELECT 1 AS k")
    spark.sql("SELECT 1 AS k").createOrReplaceGlobalTempView("everywhere")
    files.createOrReplaceTempView("files")
    files.cache().createOrReplaceTempView("cached")
    lines = spark.sparkContext.textFile(str(folder / "text")).map(lambda line: (int(line),))
    spark.createDataFrame(lines, "k INT").createOrReplaceTempView("lines")
    spark.createDataFrame([(1,)], "k INT").createOrReplaceTempView("made")
    spark.createDataFrame(pa.table({"k": [1]})).createOrReplaceTempView("arrow")
    files.localCheckpoint().createOrReplaceTempView("checkpointed")
    schema = cast("StructType", StructType.fromDDL("k INT, at TIMESTAMP"))
    yield Checker(spark, {"r": schema}, {"r": "at"}, watermarks={"r": ("at", "1 second")})
    for name in ("files", "cached", "lines", "made", "arrow", "checkpointed"):
        spark.catalog.dropTempView(name)
    spark.catalog.dropGlobalTempView("everywhere")
    spark.sql("DROP VIEW shown")
    spark.sql("DROP TABLE listed")


def refusal(checker: Checker, sql: str, mode: Mode | None) -> str:
    try:
        checker.sql("q", sql, mode=mode)
    except ConfigError as error:
        return str(error)
    return "accepted"


FORMS = (
    "SELECT r.k FROM r JOIN {} AS t ON true",
    "SELECT k FROM r WHERE k > (SELECT count(*) FROM {})",
    "SELECT k FROM r WHERE k IN (SELECT length(to_json(struct(*))) FROM {})",
    "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM {})",
    "WITH c AS (SELECT * FROM {}) SELECT r.k FROM r CROSS JOIN c",
    "SELECT r.k FROM r, LATERAL (SELECT * FROM {})",
    "SELECT k FROM (SELECT k FROM r UNION ALL SELECT 1 FROM r JOIN {} ON true)",
)


def test_what_nobody_declared_is_refused_wherever_it_stands(checker: Checker, folder: Path) -> None:
    """Files by their path, tables and views of a catalog, views of files: in every mode."""
    by_path = [
        f"parquet.`{folder}/parquet`", f"text.`{folder}/text`", f"csv.`{folder}/text`",
        f"json.`{folder}/json`", f"binaryFile.`{folder}/text`", f"parquet.`{folder}/none`",
        f"IDENTIFIER('parquet.`{folder}/parquet`')",
    ]  # fmt: skip
    named = ["listed", "spark_catalog.default.listed", "shown", "global_temp.everywhere", "files",
             "cached", "lines"]  # fmt: skip
    for relation in (*by_path, *named):
        for form in FORMS if relation in (by_path[0], by_path[-1], "listed") else FORMS[:1]:
            for mode in MODES:
                why = refusal(checker, form.format(relation), mode)
                assert "[tables.NAME]" in why, (form.format(relation), mode, why)
                assert "declare mode" not in why, "no other mode takes it"
    assert "unknown table 'parquet./" in refusal(checker, FORMS[0].format(by_path[0]), None)
    assert "reads 'listed', which is no stream" in refusal(
        checker, "SELECT * FROM r JOIN listed", None
    )


def test_a_path_is_not_looked_up(checker: Checker, folder: Path) -> None:
    """So a refusal does not tell whether a file is there."""
    there, missing = (
        refusal(checker, f"SELECT * FROM r JOIN text.`{folder}/{name}`", None)
        for name in ("text", "none")
    )
    assert there.replace("/text'", "/none'") == missing


def test_rows_that_cannot_change_may_be_read(checker: Checker) -> None:
    for relation in ("made", "arrow", "checkpointed", "range(3)", "(VALUES (1))"):
        for mode in MODES:
            assert refusal(checker, FORMS[0].format(relation), mode) == "accepted", relation
    recursive = (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) "
        "SELECT r.k FROM r JOIN t ON n = k"
    )
    assert refusal(checker, recursive, "complete") == "accepted"


def test_a_query_runs_no_program(checker: Checker) -> None:
    for mode in MODES:
        why = refusal(checker, "SELECT TRANSFORM(k) USING 'id' AS (x STRING) FROM r", mode)
        assert "has TRANSFORM ... USING, which runs a program" in why
        assert f'declare mode = "{mode}"' not in why, "that would not help"


def test_a_function_reads_no_files(spark: SparkSession, checker: Checker, folder: Path) -> None:
    files = spark.read.parquet(str(folder / "parquet"))

    def joined(r: DataFrame) -> DataFrame:
        return r.join(files, "k")

    for mode in MODES:
        with pytest.raises(ConfigError, match=r"reads files or tables .*\[tables.NAME\]"):
            checker.function("q", joined, ("r",), mode=mode)


def test_a_declared_table_of_the_same_files_is_read(
    spark: SparkSession, tmp_path: Path, folder: Path
) -> None:
    app = declare(spark)
    app.table("known", format="parquet", path=str(folder / "parquet"))
    app.query("sql", sql="SELECT n FROM a JOIN known ON a.k = known.k")

    @app.query("function")
    def function(a: DataFrame) -> DataFrame:
        return a.join(a.sparkSession.table("known"), "k").select("n")

    rows: list[dict[str, Any]] = [{"n": n, "k": n % 4, "v": 0, "at": n} for n in range(20)]
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        feed(run, [("a", 0, rows)])
        run.drain()
        assert not run.failures
    expected = sorted(n for n in range(20) if n % 4 in (1, 2))
    for name in ("sql", "function"):
        found = run.rows(name)
        assert found is not None
        assert sorted(found["n"].to_pylist()) == expected, name


def test_an_ad_hoc_query_reads_what_a_query_reads(
    spark: SparkSession, tmp_path: Path, folder: Path
) -> None:
    app = declare(spark)
    app.query("q", sql="SELECT n FROM a")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.pause("q")
        feed(run, [("a", 0, [{"n": n, "k": 0, "v": 0, "at": n} for n in range(3)])])
        schemas, kept = run.parts.accepted.catalog.application.schemas, Kept(tmp_path / "run")

        def asked(sql: str) -> list[dict[str, Any]]:
            return cast("list[dict[str, Any]]", ad_hoc(spark, kept, schemas, sql).to_pylist())

        assert asked("SELECT count(*) AS n FROM a ORDER BY 1 LIMIT 1;") == [{"n": 3}]
        for sql, why in {
            f"SELECT * FROM text.`{folder}/text`": r"^query: .*\[tables.NAME\]",
            "SELECT TRANSFORM(n) USING 'id' AS (x STRING) FROM a": "runs a program",
            "SELECT 1 / (n - n) AS x FROM a": r"^query: fails: .*DIVIDE_BY_ZERO",
            "SELECT * FROM a WHERE '\ud800' = ''": "character 24 of its SQL",
            "DROP VIEW a": "write a SELECT",
        }.items():
            with pytest.raises(ConfigError, match=why):
                asked(sql)
