"""One side of the comparison in a process of its own: FAIR pools, or governed. Prints JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.governing.workload import CLASSES, FILE_ROWS, Made, classes_of, queries, start
from pyspark.sql import SparkSession

from daybreak.spark.governed.governor import Governor
from daybreak.spark.session import jvm_pid, local_session

POOLS = """<?xml version="1.0"?><allocations>{}</allocations>"""
POOL = '<pool name="{}"><schedulingMode>FAIR</schedulingMode><weight>{:.0f}</weight></pool>'
#: As a careful user sets them, on both sides.
TUNED = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "20000",
}


#: Batches of several lengths show what starting one costs, and what a file adds.
WARM_FILES = (1, 1, 2, 4, 1, 3)
#: The JVM still compiles after its work is done.
SETTLE_S = 8.0


class Side:
    """A session, its queries and what they have read so far."""

    def __init__(self, governed: bool, count: int, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "in"
        self.source.mkdir()
        pools = folder / "pools.xml"
        each = (POOL.format(name, cls.priority) for name, cls in CLASSES.items())
        pools.write_text(POOLS.format("".join(each)))
        conf = {**TUNED, "spark.scheduler.allocation.file": str(pools)}
        self.spark: SparkSession = local_session("governed benchmark", 2, conf)
        self.governor: Governor | None = None
        if governed:
            classes = {name: cls.priority for name, cls in CLASSES.items()}
            self.governor = Governor(self.spark, "planned", classes)
            for name, cls in CLASSES.items():
                self.governor.assign(f"{name}_*", name, cls.qos)
        self.made: list[Made] = []
        self.running: list[Any] = []
        for made in queries(self.spark, self.source, count):
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", made.cls)
            self.made.append(made)
            self.running.append(start(made, folder / "out"))
        self.fed = 0
        #: Of each query: when its micro-batches ended, and the rows it had read by then.
        self.read: list[list[tuple[float, int]]] = [[] for _ in self.running]

    def feed(self, rows: int, rate: float) -> subprocess.Popen[bytes]:
        code = (
            "from pathlib import Path; from benchmarks.governing.workload import feed; "
            f"feed(Path({str(self.source)!r}), {self.fed}, {rows}, {rate})"
        )
        self.fed += rows
        return subprocess.Popen([sys.executable, "-c", code])

    def positions(self) -> list[int]:
        """How many rows each query has read."""
        found = []
        for i, (made, query) in enumerate(zip(self.made, self.running, strict=True)):
            batches: dict[int, tuple[float, int]] = {}
            for progress in query.recentProgress:
                if "addBatch" in progress["durationMs"]:
                    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
                    ended = began.timestamp() + progress["durationMs"]["triggerExecution"] / 1000
                    batches[progress["batchId"]] = ended, progress["numInputRows"]
            upto, seen = 0, []
            for ended, rows in batches.values():
                upto += rows
                seen.append((ended, upto // made.reads))
            self.read[i] = seen
            found.append(seen[-1][1] if seen else 0)
        return found

    def drain(self, within_s: float) -> bool:
        """Waits until all queries have read all; False if they have not by then."""
        end = time.time() + within_s
        while min(self.positions()) < self.fed:
            if time.time() > end:
                return False
            time.sleep(0.5)
        return True

    def cpu_s(self) -> float:
        """Of this process and of the JVM."""
        fields = Path(f"/proc/{jvm_pid(self.spark)}/stat").read_text().rsplit(")", 1)[1].split()
        own = resource.getrusage(resource.RUSAGE_SELF)
        return (int(fields[11]) + int(fields[12])) / 100 + own.ru_utime + own.ru_stime

    def idle_cores(self, seconds: float) -> float:
        before = self.cpu_s()
        time.sleep(seconds)
        return (self.cpu_s() - before) / seconds

    def responses(self, first: int, last: int) -> dict[str, Any]:
        """Latency and utility by class, of rows first to last; unread ones have no worth."""
        log = np.loadtxt(self.folder / "feed.log", ndmin=2)
        rows = np.arange(first, last, max(1, (last - first) // 5000))
        created = log[np.searchsorted(log[:, 0], rows, side="right"), 1]
        self.positions()
        now, found = time.time(), {}
        by_class: dict[str, list[Any]] = {name: [] for name in CLASSES}
        for made, seen in zip(self.made, self.read, strict=True):
            ends = np.array([end for end, _ in seen] + [now])
            upto = np.array([n for _, n in seen] + [np.inf])
            at = np.searchsorted(upto, rows, side="right")
            by_class[made.cls].append((ends[at] - created, at < len(seen)))
        for name, per_query in by_class.items():
            late = np.concatenate([one[0] for one in per_query])
            read = np.concatenate([one[1] for one in per_query])
            worth = np.where(read, CLASSES[name].qos.utility((late * 1e9).astype(np.int64)), 0.0)
            found[name] = {
                "p50_s": round(float(np.percentile(late, 50)), 3),
                "p95_s": round(float(np.percentile(late, 95)), 3),
                "utility": round(float(worth.mean()), 4),
                "unread": round(1 - float(read.mean()), 4),
                "queries": len(per_query),
            }
        total = sum(one["utility"] * one["queries"] for one in found.values())
        return {"classes": found, "utility": round(total / len(self.made), 4)}

    def results(self) -> dict[str, str]:
        """What each query has found, in a form that can be compared."""
        found = {}
        for made in self.made:
            rows = self.spark.table(made.name)
            columns = [f"`{column}`" for column in rows.columns]
            expr = f"concat(count(*), ' ', coalesce(sum(hash({', '.join(columns)})), 0))"
            found[made.name] = rows.selectExpr(expr).collect()[0][0]
        return found


def run(plan: Mapping[str, Any]) -> None:
    """Idle, then each load in turn; a rate of 0 measures capacity instead."""
    with tempfile.TemporaryDirectory() as folder:
        side = Side(plan["side"] == "governed", plan["queries"], Path(folder))
        for files in WARM_FILES:  # what is compiled, and what the policy learns of costs
            side.feed(files * FILE_ROWS, 1e9).wait()
            side.drain(120)
        if plan["side"] == "capacity":
            tell(capacity_per_s=capacity(side, plan["backlog"]))
        else:
            time.sleep(SETTLE_S)
            tell(idle_cores=side.idle_cores(plan["idle_s"]))
            for load, rate in plan["rates"].items():
                first = side.fed
                before = side.cpu_s(), time.time()
                side.feed(round(rate * plan["load_s"]), rate).wait()
                drained = side.drain(plan["drain_s"])
                cores = (side.cpu_s() - before[0]) / (time.time() - before[1])
                # The first fifth is for what is compiled and learned on the way.
                about = side.responses(first + (side.fed - first) // 5, side.fed)
                tell(load=load, rate=rate, drained=drained, cores=round(cores, 2), **about)
                if drained:
                    tell(results=side.results(), of=load)
        if side.governor is not None:
            report = side.governor.stop()
            tell(grants=report.manifest["grants"], free=report.manifest["free"])
        for query in side.running:
            query.stop()
        side.spark.stop()


def capacity(side: Side, backlog: int) -> float:
    """Rows per second at which FAIR pools read a backlog: beyond that rate, one grows."""
    began = time.time()
    side.feed(backlog, 1e9).wait()
    side.drain(180)
    return round(backlog / (time.time() - began), 1)


def tell(**about: Any) -> None:
    print("RESULT " + json.dumps(about), flush=True)


if __name__ == "__main__":
    assert classes_of(50).count("critical") == 10
    run(json.loads(sys.argv[1]))
