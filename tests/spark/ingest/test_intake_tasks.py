"""Direct reads as tasks: they can be interrupted, and leave nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.ingest.both_sources import found, frame_of
from tests.spark.ingest.python_sources import register
from tests.until import until

from daybreak.spark.ingest.direct.intake import (
    Intake,
    IntakeFailed,
    IntakeInterrupted,
    _memory,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READS = 100


@pytest.mark.slow
def test_a_read_is_interrupted_from_another_thread(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    started = tmp_path / "started"
    options = {"rows": "4", "commits": str(tmp_path / "commits"), "endless": str(started)}
    frame = spark.readStream.format("numbers_ranged").options(**options).load()
    intake = Intake(spark, frame, tmp_path / "source")
    intake.interrupt()  # nothing is read: the next read is not the one that is meant

    def interrupt() -> None:
        until(started.exists)
        intake.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(IntakeInterrupted):
        intake.read_range('{"n": 0}', '{"n": 4}', most_bytes=1 << 40)
    thread.join()
    intake.stop()


class Held:
    """What tasks hold in the JVM, and what must not grow with their number."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        java = self._jvm.java.lang

        def field(owner: str, name: str, of: Any) -> Any:
            got = java.Class.forName(owner).getDeclaredField(name)
            got.setAccessible(True)
            return got.get(of)

        env = "org.apache.spark.SparkEnv"
        spark_env = field(f"{env}$", "env", field(f"{env}$", "MODULE$", None))
        self._memory = field(env, "_memoryManager", spark_env)
        manager = field(env, "blockManager", spark_env)
        self._blocks = field("org.apache.spark.storage.BlockManager", "blockInfoManager", manager)
        arrow = getattr(self._jvm, "org.apache.spark.sql.util.ArrowUtils$")
        self._arrow = getattr(arrow, "MODULE$").rootAllocator()
        self._pid = java.ProcessHandle.current().pid()

    def now(self) -> dict[str, int]:
        self._jvm.java.lang.System.gc()
        return {
            # Of all blocks and of the locks of all tasks, those of Spark's own among them.
            "blocks and locks": int(self._blocks.getNumberOfMapEntries()),
            "execution memory": int(self._memory.executionMemoryUsed()),
            "Arrow": int(self._arrow.getAllocatedMemory()),
            "open files": len(list(Path(f"/proc/{self._pid}/fd").iterdir())),
            "threads": len(list(Path(f"/proc/{self._pid}/task").iterdir())),
            "files in memory": len(list(_memory().path.iterdir())),
        }

    def heap_mb(self) -> float:
        self._jvm.java.lang.System.gc()
        runtime = self._jvm.java.lang.Runtime.getRuntime()
        return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


@pytest.mark.slow
def test_hundreds_of_reads_leave_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Of files, of files that fail, of a reader in Python that keeps rows as blocks, of rates."""
    register(spark)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"i": 1}\n{"i": "x"}\n' * 50)
    spark.range(100).selectExpr("id AS i").coalesce(1).write.parquet(str(tmp_path / "p"))
    next((tmp_path / "p").glob("part-*")).rename(folder / "b.parquet")
    (folder / "c.parquet").write_text("PAR1 and no more")
    json_files = Intake(spark, frame_of(spark, folder, "json", "i INT", {}), tmp_path / "j")
    parquet = Intake(spark, frame_of(spark, folder, "parquet", "i LONG", {}), tmp_path / "q")
    rates = Intake(spark, spark.readStream.format("rate").load(), tmp_path / "r")
    options = {"rows": str(10 * READS), "commits": str(tmp_path / "commits")}
    simple = spark.readStream.format("numbers_simple").options(**options).load()
    python = Intake(spark, simple, tmp_path / "s")
    at = python.initial()

    def read(number: int) -> None:
        nonlocal at
        assert json_files.read_files(found(folder, "a*")).num_rows == 100
        assert parquet.read_files(found(folder, "b*")).num_rows == 100
        with pytest.raises(IntakeFailed):
            parquet.read_files(found(folder, "c*"))
        assert rates.read_range(str(number), str(number + 1)).num_rows == 1
        if number % 10 == 0:  # its worker takes long
            end = python.latest(at)
            assert end is not None
            assert python.read_range(at, end).num_rows == 4
            python.commit(end)
            at = end

    held = Held(spark)
    for number in range(20):
        read(number)
    before, heap_mb = held.now(), held.heap_mb()
    for number in range(20, 20 + READS):
        read(number)
    until(lambda: _grown(before, held.now()) == {}, "nothing that has grown")
    assert held.heap_mb() < heap_mb + 30
    for intake in (json_files, parquet, rates, python):
        intake.stop()


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """What has grown by more than a tenth of the reads: threads and files of pools come and go."""
    slack = {"open files": READS // 10, "threads": READS // 10}
    return {k: v for k, v in now.items() if v > before[k] + slack.get(k, 0)}
