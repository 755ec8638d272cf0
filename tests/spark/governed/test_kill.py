"""A governed program as a process: its exit code, and ``kill -9`` inside a granted micro-batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.soaking.quick_jvm import quick_jvm
from tests.until import until

from daybreak.runtime.report import RunReport
from daybreak.runtime.starts import load_run
from daybreak.simulation.whatif import Wanted, what_if

pytestmark = pytest.mark.spark

#: It knows nothing of Daybreak. ``hang`` makes its second micro-batch last until it is killed.
PROGRAM = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

folder, hang = Path(sys.argv[1]), sys.argv[2] == "hang"
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)

def write(batch, number):
    rows = sorted(row["id"] for row in batch.collect())
    if hang and number == 1:
        (folder / "inside").touch()
        time.sleep(600)
    (folder / f"out-{number}").write_text(repr(rows))

rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
query = (
    rows.dropDuplicates(["id"]).writeStream.queryName("distinct").foreachBatch(write)
    .option("checkpointLocation", str(folder / "checkpoint")).start()
)
query.processAllAvailable()
sys.exit(7)
"""


def start(folder: Path, how: str) -> subprocess.Popen[bytes]:
    with (folder / f"log-{how}").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable, "-m", "daybreak", "run-script", str(folder / "program.py"),
                "--classes", str(folder / "classes.toml"), "--log-level", "info",
                "--run-dir", str(folder / "run"),
                "--", str(folder), how,
            ],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "SPARK_SUBMIT_OPTS": quick_jvm()},
        )  # fmt: skip


def recorded(run: Path) -> int:
    """Rows that the record of its present start has as read."""
    is_there = (run / "record/report.json").exists()
    return RunReport.load(run / "record").overall().count if is_there else 0


def test_killed_inside_a_granted_micro_batch_it_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "classes.toml").write_text('[classes]\nalarm = 60\n[queries."d*"]\nclass = "alarm"')
    (tmp_path / "in").mkdir()
    for file in range(3):
        ids = [{"id": i} for i in range(file * 5, file * 5 + 10)]  # five of them in two files
        (tmp_path / f"in/{file}.json").write_text("\n".join(map(json.dumps, ids)))
    hung = start(tmp_path, "hang")
    until((tmp_path / "inside").exists, "its second micro-batch", within_s=180)
    until(lambda: recorded(tmp_path / "run") == 10, "the first part of its record")
    os.killpg(hung.pid, signal.SIGKILL)
    hung.wait()
    killed = what_if(tmp_path / "run", [Wanted("fcfs")])
    assert killed.outcomes[0].report.overall().count == 10, "its first micro-batch"
    assert not (tmp_path / "out-1").exists()
    done = start(tmp_path, "finish")
    log = tmp_path / "log-finish"
    assert done.wait(timeout=240) == 7, log.read_text()
    found = [eval(path.read_text()) for path in tmp_path.glob("out-*")]
    assert sorted(i for rows in found for i in rows) == list(range(20))
    assert "governed query=distinct: class alarm" in log.read_text()
    assert "1 queries were governed under planned, 0 ran free" in log.read_text()
    assert f"written: {tmp_path}/run/record, {tmp_path}/run/events.jsonl" in log.read_text()
    both = load_run(tmp_path / "run")
    assert (len(both.manifest["starts"]), both.overall().count) == (2, 30)
