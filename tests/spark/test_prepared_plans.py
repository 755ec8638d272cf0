"""Prepared plans: the same rows as an ordinary job from every train, or a refusal."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from tests.spark.windows.logs import bag

from daybreak.spark.tasks.prepared import plans as plans_module
from daybreak.spark.tasks.prepared import train_runs
from daybreak.spark.tasks.prepared.jvm import Java
from daybreak.spark.tasks.prepared.plans import SWITCH, PlanRunner, Plans
from daybreak.spark.tasks.prepared.train_runs import Cancelled
from daybreak.spark.tasks.prepared.trains import MemoryFolder
from daybreak.spark.tasks.task import Built, Frames, Planning, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DDL = "k INT, v INT, s STRING, at TIMESTAMP"
WINDOWED = "(SELECT *, window(at, '10 seconds') AS w FROM {})"
A, B = WINDOWED.format("a"), WINDOWED.format("b")
KINDS = {
    "projection": "SELECT k + 1 AS k, upper(s) AS s, at FROM a",
    "filter": "SELECT * FROM a WHERE v > 50 AND s LIKE '%1%'",
    "guarded": "SELECT CASE WHEN v <> 7 THEN 100 / (v - 7) END AS guarded FROM a",
    "generator": "SELECT k, part FROM a LATERAL VIEW explode(array(v, v + 1)) t AS part",
    "json": "SELECT to_json(named_struct('k', k, 's', s)) AS j FROM a",
    "window": "SELECT window.end AS e, k, count(*) AS n, avg(v) AS m, max(s) AS top FROM a "
    "GROUP BY window(at, '10 seconds'), k HAVING count(*) > 1",
    "sliding": "SELECT window.end AS e, sum(v) AS t FROM a "
    "GROUP BY window(at, '10 seconds', '4 seconds')",
    "exact": "SELECT window.end AS e, median(v) AS m, count(DISTINCT k) AS d, "
    "collect_set(k % 3) = array() AS c FROM a GROUP BY window(at, '10 seconds')",
    "static": "SELECT a.k, v, name FROM a JOIN dim ON a.k = dim.k WHERE v > 10",
    "static rows of a program": "SELECT a.k, v, word FROM a JOIN words ON a.k = words.k",
    "static outer": "SELECT a.k, v, name FROM a LEFT JOIN dim ON a.k = dim.k AND v > 50",
    "static window": "SELECT name, window.start AS b, sum(v) AS t FROM a JOIN dim ON a.k = dim.k "
    "GROUP BY name, window(at, '10 seconds')",
    "static subquery": "SELECT k, v FROM a WHERE v > (SELECT max(k) FROM dim) "
    "AND k IN (SELECT k FROM dim WHERE name <> 'n1')",
    "window join": f"SELECT x.k, x.v, y.s FROM {A} x JOIN {B} y ON x.w = y.w AND x.k = y.k",
    "self join": f"SELECT x.k, x.v, y.v AS u FROM {A} x JOIN {A} y ON x.w = y.w AND x.v = y.k",
    "outer join": f"SELECT x.v, y.v AS u FROM {A} x FULL JOIN {B} y ON x.w = y.w AND x.v = y.v",
    "right join": f"SELECT x.v, y.v AS u FROM {A} x RIGHT JOIN {B} y ON x.w = y.w AND x.v = y.v",
    "anti join": f"SELECT x.v FROM {A} x LEFT ANTI JOIN {B} y ON x.w = y.w AND x.k = y.k",
    "merge join": f"SELECT /*+ MERGE(y) */ x.v, y.v AS u FROM {A} x JOIN {B} y "
    "ON x.w = y.w AND x.k = y.k",
    "band": "SELECT x.v, y.v AS u FROM a x JOIN b y ON x.k = y.k "
    "AND y.at BETWEEN x.at - INTERVAL 2 SECONDS AND x.at + INTERVAL 3 SECONDS",
    "top": f"SELECT x.v, x.k FROM {A} x JOIN (SELECT window(at, '10 seconds') AS w, max(v) AS m "
    "FROM a GROUP BY 1) y ON x.w = y.w AND x.v = y.m",
    "union": "SELECT k, v FROM a UNION ALL SELECT v, k FROM b",
    "union window": "SELECT window.end AS e, k, count(*) AS n FROM (SELECT at, k FROM a "
    "UNION ALL SELECT at, k FROM b) GROUP BY window(at, '10 seconds'), k",
    "windows united": "SELECT e, sum(n) AS n FROM (SELECT window.end AS e, count(*) AS n FROM a "
    "GROUP BY window(at, '10 seconds') UNION ALL SELECT window.end AS e, count(*) AS n FROM b "
    "GROUP BY window(at, '10 seconds')) GROUP BY e",
    "except": "SELECT window(at, '10 seconds').end AS e, k FROM a EXCEPT "
    "SELECT window(at, '10 seconds').end AS e, k FROM b",
    "except all": "SELECT window(at, '10 seconds').end AS e, k FROM a EXCEPT ALL "
    "SELECT window(at, '10 seconds').end AS e, k FROM b",
    "intersect": "SELECT window(at, '10 seconds').end AS e, k FROM a INTERSECT "
    "SELECT window(at, '10 seconds').end AS e, k FROM b",
    "distinct": "SELECT DISTINCT window(at, '10 seconds') AS w, k FROM a",
    "part twice": "WITH c AS (SELECT window(at, '10 seconds') AS w, k, max(v) AS m FROM a "
    "GROUP BY 1, 2) SELECT x.k, x.m FROM c x JOIN (SELECT w, max(m) AS m FROM c GROUP BY w) y "
    "ON x.w = y.w AND x.m = y.m",
}
REFUSED = {
    "SELECT /*+ BROADCAST(y) */ x.v FROM a x JOIN b y ON x.k = y.k": "a broadcast depends",
    "SELECT v FROM a WHERE v > (SELECT avg(v) FROM a)": "a subquery depends",
    "SELECT v + rand() AS r FROM a": "not deterministic",
    "SELECT twice_in_python(v) AS w FROM a": "not known to be safe",
    "SELECT v, row_number() OVER (ORDER BY v) AS r FROM a": "not known to be safe",
    "SELECT nothing FROM a": "cannot be planned",
}
Tables = Mapping[str, pa.Table]


def train(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    at = 1_700_000_000_000_000 + rng.integers(0, 60_000_000, rows)
    return pa.table(
        {
            "k": rng.integers(0, 12, rows).astype("int32"),
            "v": pa.array(rng.integers(0, 100, rows).astype("int32"), mask=rng.random(rows) < 0.05),
            "s": pa.array([f"text {n}" for n in rng.integers(0, 40, rows)], pa.string()),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )


TRAINS = [
    {"a": train(1, 300), "b": train(2, 200)},
    {"a": train(3, 1), "b": train(4, 400)},
    {"a": train(5, 0), "b": train(6, 5)},
    {"a": pa.concat_tables([train(7, 90), train(8, 0), train(9, 80)]), "b": train(10, 0)},
    {"a": train(1, 300), "b": train(2, 200)},
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.udf.register("twice_in_python", lambda n: n * 2, "int")
    data: Any = pa.table(
        {"k": pa.array(range(10), pa.int32()), "name": [f"n{i % 4}" for i in range(10)]}
    )
    made.createDataFrame(data).createOrReplaceTempView("dim")
    made.createDataFrame(
        [(k, f"w{k}") for k in range(9)], "k INT, word STRING"
    ).createOrReplaceTempView("words")
    return made


@pytest.fixture
def plans(session: SparkSession) -> Plans:
    made = Plans(session)
    assert made.runs is not None, made.missing
    return made


@pytest.fixture
def runner(plans: Plans) -> Iterator[PlanRunner]:
    made = plans.worker("test")
    yield made
    made.close()


def task(sql: str, streams: tuple[str, ...] = ("a", "b")) -> Task:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(DDL)
    assert isinstance(schema, StructType)

    def build(planning: Planning, frames: Frames) -> Built:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return Built(planning.spark.sql(sql))

    return Task(sql, dict.fromkeys(streams, schema), build)


def ordinary(session: SparkSession, sql: str, tables: Tables) -> pa.Table:
    clone = type(session)(session.sparkContext, session._jsparkSession.cloneSession())
    for name, table in tables.items():
        data: Any = table.combine_chunks()
        clone.createDataFrame(data, DDL).createOrReplaceTempView(name)
    return clone.sql(sql).toArrow()


@pytest.mark.parametrize("name", KINDS)
def test_every_train_gives_the_rows_of_an_ordinary_job(
    session: SparkSession, plans: Plans, runner: PlanRunner, name: str
) -> None:
    """Different trains through one plan: nothing of an earlier one may come again."""
    for tables in TRAINS:
        found = runner.run(task(KINDS[name]), tables)
        assert found is not None, plans.reasons
        assert bag(found.table) == bag(ordinary(session, KINDS[name], tables))


def test_a_copy_of_a_plan_makes_its_projections_once(plans: Plans, runner: PlanRunner) -> None:
    """Spark writes their source code again in every task: most of the time of a small train."""
    for tables in TRAINS[:2]:
        assert runner.run(task(KINDS["projection"]), tables) is not None
    copy = plans._entries[KINDS["projection"]].result().copies["test"]
    first = _field(_field(copy, "rdd"), "projections")
    assert first.size() == 2, "that of the columns that are read, and the query's"
    assert runner.run(task(KINDS["projection"]), TRAINS[0]) is not None
    assert _field(_field(copy, "rdd"), "projections").get(1).equals(first.get(1))


def _field(of: Any, name: str) -> Any:
    found = of.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found.get(of)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_spark_would_keep_or_cannot_run_here_is_left_to_ordinary_jobs(
    plans: Plans, runner: PlanRunner, sql: str
) -> None:
    for _ in range(2):
        assert runner.run(task(sql), TRAINS[0]) is None
    (reason,) = plans.reasons
    assert REFUSED[sql] in reason
    assert plans.reasons[reason] == 2


def test_rows_of_files_are_left_to_ordinary_jobs(
    session: SparkSession, tmp_path: Path, plans: Plans, runner: PlanRunner
) -> None:
    """A plan that is kept would not see them change. Queries may not read files by themselves."""
    file = tmp_path / "districts.parquet"
    pq.write_table(pa.table({"k": pa.array(range(12), pa.int32()), "name": ["x"] * 12}), file)
    session.read.parquet(str(file)).createOrReplaceTempView("districts")
    assert (
        runner.run(task("SELECT v, name FROM a JOIN districts ON a.k = districts.k"), TRAINS[0])
        is None
    )
    [reason] = plans.reasons
    assert "FileSourceScanExec" in reason


def test_an_expression_that_fails_is_left_to_the_ordinary_job(
    plans: Plans, runner: PlanRunner
) -> None:
    sql = "SELECT 100 / (v - 7) AS x, to_json(named_struct('s', s)) AS j FROM a"
    bad, good = train(1, 300), train(1, 300).filter(pa.compute.field("v") != 7)
    for _ in range(plans_module.MOST_FAILURES):
        assert runner.run(task(sql, ("a",)), {"a": bad}) is None
        found = runner.run(task(sql, ("a",)), {"a": good})
        assert found is not None, "what it computed halfway has left nothing behind"
        assert found.table.num_rows == good.num_rows
    for _ in range(plans_module.MOST_FAILURES + 1):
        assert runner.run(task(sql, ("a",)), {"a": bad}) is None
    assert plans.why() == {
        "failed: [DIVIDE_BY_ZERO]": 2 * plans_module.MOST_FAILURES,
        "failed several times": 1,
    }


def test_memory_that_is_full_is_left_to_the_ordinary_job(
    plans: Plans, runner: PlanRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_runs, "MemoryFolder", lambda: MemoryFolder(tmp_path))
    wanted = task(KINDS["filter"])
    assert runner.run(wanted, TRAINS[0]) is not None
    (folder,) = tmp_path.glob("daybreak-*/0")
    assert not list(folder.iterdir()), "rows do not stay in memory"
    shorter = {name: table.slice(0, table.num_rows // 4) for name, table in TRAINS[0].items()}
    for name in ("in0", "out", "in0", "out"):  # a plan that fails otherwise is given up after three
        (folder / name).symlink_to("/dev/full")
        assert runner.run(wanted, TRAINS[0]) is None
        assert runner.run(wanted, TRAINS[0]) is None, "as large again"
        assert runner.run(wanted, shorter) is not None
        while runner.run(wanted, TRAINS[0]) is None:  # in time it is tried: others held the memory
            assert runner.run(wanted, shorter) is not None
    assert "failed several times" not in plans.reasons


def test_an_interrupted_plan_ends(plans: Plans, runner: PlanRunner) -> None:
    """A join of every row with every row would take minutes."""
    sql = "SELECT x.v FROM a x CROSS JOIN a y CROSS JOIN a z WHERE x.v + y.v + z.v < -1"
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(0.01):
            plans.cancel("test")

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(Cancelled):
            runner.run(task(sql, ("a",)), {"a": train(1, 4000)})
    finally:
        done.set()
        thread.join()
    found = runner.run(task(sql, ("a",)), {"a": train(1, 10)})
    assert found is not None, "it can run again"


def test_nothing_is_left_behind(session: SparkSession, plans: Plans, runner: PlanRunner) -> None:
    names = ("window", "static", "window join")
    for name in names:
        assert runner.run(task(KINDS[name]), TRAINS[0]) is not None
    jvm: Any = session.sparkContext._jvm
    accumulators = getattr(jvm, "org.apache.spark.util.AccumulatorContext")
    before = accumulators.numAccums()
    for tables in TRAINS * 4:
        for name in names:
            assert runner.run(task(KINDS[name]), tables) is not None
    assert plans.runs is not None
    assert plans.runs.memoryUsed() == 0
    assert accumulators.numAccums() <= before, "metrics belong to the plan, not to its runs"


def test_a_static_table_of_a_few_rows_takes_little_memory(plans: Plans, runner: PlanRunner) -> None:
    """Spark keeps it in pages of 32 MB by itself: a few dozen plans would push each other out."""
    static = task(KINDS["static"])
    assert runner.run(static, TRAINS[0]) is not None
    planned = plans.get(static, runner._make_planner, plans.tables())
    assert 1_000 < planned.bytes < 4 << 20


def test_workers_share_a_plan_but_not_its_state(session: SparkSession, plans: Plans) -> None:
    names = ("json", "static window", "union window")
    expected = {n: [bag(ordinary(session, KINDS[n], t)) for t in TRAINS] for n in names}
    wrong: list[object] = []

    def work(number: int) -> None:
        runner = plans.worker(f"test-{number}")
        try:
            for _ in range(5):
                for name in names:
                    for tables, rows in zip(TRAINS, expected[name], strict=True):
                        found = runner.run(task(KINDS[name]), tables)
                        if found is None or bag(found.table) != rows:
                            wrong.append((number, name, found))
        finally:
            runner.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not plans.reasons


def test_a_spark_that_lacks_a_piece_is_no_error(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_java: Java) -> object:
        raise Py4JError("Runs does not exist in the JVM")

    monkeypatch.setattr(Java, "runs", missing)
    plans = Plans(session)
    assert "does not exist" in plans.missing
    assert plans.worker("test").run(task(KINDS["filter"]), TRAINS[0]) is None


def test_a_switch_turns_it_off(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    plans = Plans(session)
    assert SWITCH in plans.missing
    assert plans.worker("test").run(task(KINDS["filter"]), TRAINS[0]) is None


def test_too_large_trains_and_results_take_ordinary_jobs(
    plans: Plans, runner: PlanRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans_module, "MOST_ROWS", {"rows": 299, "join": 0, "aggregate": 0})
    assert runner.run(task(KINDS["filter"]), TRAINS[0]) is None
    monkeypatch.undo()
    most = TRAINS[0]["a"].nbytes + TRAINS[0]["b"].nbytes
    monkeypatch.setattr(train_runs, "MOST_BYTES", most)
    many = "SELECT a.* FROM a LATERAL VIEW explode(sequence(1, 50)) t AS n"
    assert runner.run(task(many), TRAINS[0]) is None
    monkeypatch.setattr(plans_module, "MOST_BYTES", 1000)
    assert runner.run(task(KINDS["filter"]), TRAINS[0]) is None
    assert [*plans.reasons] == ["too many rows", "the result is too large", "too many bytes"]
