"""A real standalone cluster on this machine: a master, two workers, one killed in the middle.

::

    python benchmarks/cluster_test.py [--rows 3000] [--json]

The same application runs on ``local[2]`` and on ``spark://...``; while it runs on the cluster one
of the two workers, with its executor, is ended by SIGKILL. The rows must be the same. Only
processes that were started here are ended, by their own process group.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

#: What reads rows on executors and calls Python there: nothing the driver can do by itself.
SQL = {
    "slow": "SELECT reading, tenfold(CAST(temperature AS INT)) AS t FROM readings WHERE wind > 10",
    "warm": "SELECT reading, temperature FROM readings WHERE temperature > 20",
    "everything": "SELECT reading, station, temperature, wind FROM readings",
}


def spark_class() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """A master and workers, each a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0",
        )  # fmt: skip
        self.workers = [
            self._start(
                f"worker{n}", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
                "--webui-port", "0", "--cores", "1", "--memory", "1g",
                "--work-dir", str(folder / f"work{n}"), self.url,
            )
            for n in range(2)
        ]  # fmt: skip
        self._await("master", "Registering worker 127.0.0.1:", 2)

    def kill_worker(self) -> None:
        """The first worker and the executor it started."""
        os.killpg(self.workers[0].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait(timeout=30)

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m"}
        environment["PYSPARK_PYTHON"] = sys.executable
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(spark_class()), *command],
                stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _await(self, name: str, text: str, times: int, within_s: float = 120.0) -> None:
        deadline = time.monotonic() + within_s
        log = self.folder / f"{name}.log"
        while log.read_text(errors="replace").count(text) < times:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready: see {log}")
            time.sleep(0.2)


def run_once(master: str, rows: int, folder: Path, kill: Any = None) -> dict[str, Counter[str]]:
    """The application on one master; ``kill`` is called when a third of the rows is there."""
    from pyspark.sql.types import IntegerType

    from daybreak.model import Arrivals
    from daybreak.model.limits import Limits
    from daybreak.spark.app import App
    from daybreak.spark.session import local_session

    conf = {"spark.master": master, "spark.executor.memory": "512m"}
    spark = local_session("cluster-test", extra_conf=conf)

    def tenfold(value: int) -> int:
        return value * 10

    spark.udf.register("tenfold", tenfold, IntegerType())
    app = App(spark, folder=folder, name="cluster", limits=Limits(retries=10))
    arrivals = Arrivals(rate_per_s=rows / 30)
    app.stream("readings", format="generator", options={"limit": rows}, arrivals=arrivals)
    for name, sql in SQL.items():
        app.query(name, sql=sql, sink={"format": "parquet", "path": f"out/{name}"})
    with app.run("stride", run_dir=folder / "run") as run:
        while kill is not None and run.parts.keeping.figures.view.tuples_in[0] < rows // 3:
            run.wait(0.2)
        if kill is not None:
            kill()
        run.drain()
    failures = run.failures
    spark.stop()
    if failures:
        raise RuntimeError(f"parked: {failures}")
    return {name: bag(folder / "out" / name) for name in SQL}


def bag(folder: Path) -> Counter[str]:
    rows = pq.read_table(folder, partitioning=None).to_pylist()
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="daybreak-cluster-"))
    cluster = Cluster(folder)
    try:
        print(f"{cluster.url}, logs in {folder}", file=sys.stderr, flush=True)
        on_cluster = run_once(cluster.url, given.rows, folder / "a", cluster.kill_worker)
        killed = cluster.workers[0].wait(timeout=30)
    finally:
        cluster.stop()
    local = run_once("local[2]", given.rows, folder / "b")
    outcome = {
        "rows": {name: sum(found.values()) for name, found in on_cluster.items()},
        "killed_worker": killed,
        "same": on_cluster == local,
    }
    if given.json:
        print(json.dumps(outcome, indent=2))
    else:
        print(f"one worker killed ({killed}); rows {outcome['rows']}; same: {outcome['same']}")
    if outcome["same"]:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if outcome["same"] and killed == -signal.SIGKILL else 1


if __name__ == "__main__":
    sys.exit(main())
