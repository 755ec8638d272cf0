"""Update mode: the newest row of each key is the result of a batch, or the query is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType
from tests.spark.modes.feeds import SCHEMA, declare, row, write
from tests.spark.modes.shapes import RIGHT, STATIC, WRONG, Right
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.specs import MODES, Mode
from daybreak.spark.sql.check import Checker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.run import Run

#: Rows that come in one step after the other: keys that are new, that return, and that do not.
STEPS = [range(7), range(7, 9), range(9, 30)]
#: What is staged at every build; the soak stages the others.
SOME = (
    "with", "with, twice", "tagged branches", "distinct", "except", "the start of a window",
    "grouping sets", "join whose rows are told apart",
)  # fmt: skip
#: Queries without a mode, and in modes that do not take them, besides those of ``shapes``.
OTHERS = {
    "streams crossed": "SELECT x.n, y.n AS m FROM rows x CROSS JOIN rows y",
    "streams joined by a range": "SELECT x.n, y.n AS m FROM rows x JOIN rows y ON x.v < y.v",
    "streams joined": "SELECT x.n, y.n AS m FROM rows x JOIN rows y ON x.v = y.v",
    "streams joined, left": "SELECT x.n, y.n AS m FROM rows x LEFT JOIN rows y ON x.v = y.v",
    "streams joined, full": "SELECT x.n, y.n AS m FROM rows x FULL JOIN rows y ON x.v = y.v",
    "streams joined, semi": "SELECT x.n FROM rows x LEFT SEMI JOIN rows y ON x.v = y.n",
    "in a stream": "SELECT n FROM rows WHERE v IN (SELECT n FROM rows)",
    "not in a stream": "SELECT n FROM rows x WHERE NOT EXISTS "
    "(SELECT 1 FROM rows y WHERE x.v = y.n)",
    "above a mean": "SELECT n FROM rows WHERE v > (SELECT avg(v) FROM rows)",
    "sessions": "SELECT k, session_window(at, '5 seconds') AS w, count(*) AS n FROM rows "
    "GROUP BY k, session_window(at, '5 seconds')",
    "limit": "SELECT n FROM rows LIMIT 3",
    "order": "SELECT n FROM rows ORDER BY v, n LIMIT 3",
    "numbered": "SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM rows",
    "intersect": "SELECT k FROM rows INTERSECT SELECT k FROM names",
    "recursive": "WITH RECURSIVE t(m) AS (SELECT n FROM rows UNION ALL SELECT m + 1 FROM t "
    "WHERE m < 3) SELECT * FROM t",
    "pivot": "SELECT * FROM (SELECT k, v, n FROM rows) PIVOT (sum(n) FOR v IN (1, 2))",
    "windows aggregated again": "WITH a AS (SELECT window.end AS e, count(*) AS n FROM rows "
    "GROUP BY k, window(at, '10 seconds')) SELECT max(n) AS m FROM a",
}  # fmt: skip


def with_tables(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    for name, sql in STATIC.items():
        made.sql(sql).createOrReplaceTempView(name)
    return made


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return with_tables(spark)


@pytest.fixture(scope="module")
def checker(session: SparkSession) -> Checker:
    schema = StructType.fromDDL(SCHEMA)
    assert isinstance(schema, StructType)
    return Checker(
        session, {"rows": schema}, {"rows": "at"}, watermarks={"rows": ("at", "10 seconds")}
    )


@pytest.mark.parametrize("name", WRONG)
def test_what_would_not_be_right_is_refused_in_update_mode(checker: Checker, name: str) -> None:
    sql, finding = WRONG[name]
    with pytest.raises(ConfigError, match=finding) as refused:
        checker.sql("q", sql, mode="update")
    assert refused.value.remedy
    assert "\n" not in str(refused.value)


def test_functions_face_the_same_rules(checker: Checker) -> None:
    def counted(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["n"]).groupBy(F.window("at", "10 seconds"), "k").count()

    right = (
        lambda rows: counted(rows).select("window.end", "k", "count"),
        lambda rows: counted(rows).repartition(2).alias("c").where("k <> 'a'"),
        lambda rows: rows.groupBy("k").applyInPandasWithState(
            lambda *_: iter(()), "k STRING", "n INT", "update", "NoTimeout"
        ),
    )
    for function in right:
        assert checker.function("q", function, ("rows",), mode="update").kind == "stateful"
    wrong = {
        "does not tell window": lambda rows: counted(rows).select("k", "count"),
        "is not taken back": lambda rows: counted(rows).mapInPandas(lambda it: it, "k STRING"),
    }
    for finding, function in wrong.items():
        with pytest.raises(ConfigError, match=finding) as refused:
            checker.function("q", function, ("rows",), mode="update")
        assert 'or declare mode = "' in refused.value.remedy


def test_a_refusal_says_why_no_mode_takes_the_query(checker: Checker) -> None:
    for column, finding, remedy in (
        ("rand()", r"uses rand\(\)", "columns of the row"),
        ("first(v)", r"uses first\(\)", "max_by"),
        ("count(*)", "two columns 'n'", "name them apart"),
        ("make_ym_interval(1, max(n))", "'n': YearMonth", "cast it to a text"),
    ):
        sql = f"SELECT {column} AS n, count(*) AS {'n' if '*' in column else 'm'} FROM rows"
        with pytest.raises(
            ConfigError, match=f"has an aggregate.* not take it.*{finding}"
        ) as found:
            checker.sql("q", sql)
        assert remedy in found.value.remedy


def test_refusals_of_joins_name_static_tables(checker: Checker) -> None:
    names = [name for name in OTHERS if name.startswith("streams")]
    for name in names:
        modes: tuple[Mode | None, ...] = (None, "append", "update")
        for mode in modes[:1] if name == "streams joined" else modes:
            with pytest.raises(ConfigError) as refused:
                checker.sql("q", OTHERS[name], mode=mode)
            assert "as a static table" in refused.value.remedy, (name, mode)


@pytest.mark.slow
def test_a_mode_that_a_refusal_recommends_takes_the_query(
    session: SparkSession, checker: Checker, tmp_path: Path
) -> None:
    recommended: dict[str, set[str]] = {mode: set() for mode in MODES}
    for sql, mode in asked():
        try:
            checker.sql("q", sql, mode=mode)
        except ConfigError as refused:
            for other in re.findall(r'(?:^|; or )declare mode = "(\w+)"', refused.remedy):
                recommended[other].add(sql)
    assert all(recommended.values()), "each is recommended"
    for sql in recommended["complete"]:
        checker.sql("q", sql, mode="complete")
    app = declare(session, tmp_path)
    stateful = [(sql, mode) for mode in MODES if mode != "complete" for sql in recommended[mode]]
    for number, (text, taking) in enumerate(stateful):
        app.query(f"q{number}", sql=text, mode=taking)
    write(tmp_path / "in", 0, map(row, range(9)))
    with app.run(run_dir=tmp_path / "run", on_failure="report") as run:
        run.drain()
        assert {stateful[int(name[1:])]: why for name, why in run.failures.items()} == {}


def asked() -> Iterator[tuple[str, Mode | None]]:
    """Queries without a mode, and in modes that may refuse them."""
    for sql, _ in WRONG.values():
        yield sql, None
    for sql in OTHERS.values():
        yield sql, None
        yield sql, "append"
        yield sql, "update"
    # What is right in update mode runs in another test.
    for name in ("counts", "distinct", "except"):
        yield RIGHT[name].sql, None
        yield RIGHT[name].sql, "append"


def batch(session: SparkSession, sql: str, rows: int) -> pa.Table:
    frame = session.createDataFrame(
        [(r["n"], r["k"], r["v"], r["at"]) for r in map(row, range(rows))],
        "n INT, k STRING, v INT, text STRING",
    )
    frame.selectExpr("n", "k", "v", "CAST(text AS TIMESTAMP) AS at").createOrReplaceTempView("rows")
    return session.sql(sql).toArrow()


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(r) for r in rows)


def newest(table: pa.Table, right: Right) -> list[dict[str, Any]]:
    """The rows that a sink has that replaces rows by their key."""
    rows: list[dict[str, Any]] = table.to_pylist()
    if right.key is None:
        return rows
    return list({repr([r[column] for column in right.key]): r for r in rows}.values())


def unequal(
    run: Run, session: SparkSession, rights: Mapping[str, Right], rows: int
) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, right in rights.items():
        mine = newest(run.rows(name), right)
        whole = batch(session, right.sql, rows).to_pylist()
        if bag(mine) != bag(whole):
            found[name] = (mine, whole)
    return found


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SOME, marks=pytest.mark.slow),
        pytest.param(tuple(RIGHT.keys() - set(SOME)), marks=pytest.mark.soak),
    ],
    ids=["some", "others"],
)
def test_the_newest_rows_are_those_of_a_batch_after_every_step(
    session: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    rights = {name: RIGHT[name] for name in ("one row", *names)}
    app = declare(session, tmp_path)
    for name, right in rights.items():
        app.query(name, sql=right.sql, mode="update")
    batches = with_tables(session)
    with app.run(run_dir=tmp_path / "run") as run:
        for number, step in enumerate(STEPS):
            write(tmp_path / "in", number, map(row, step))
            until(partial(arrived, run, step.stop), "the step has come")
            run.drain()
            assert unequal(run, batches, rights, step.stop) == {}, f"after step {number}"


def arrived(run: Run, end: int) -> bool:
    rows = run.rows("one row").to_pylist()
    return bool(rows) and rows[-1]["n"] == end
