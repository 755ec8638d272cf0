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


#: One by one, so that batches of several lengths show what starting one costs, and a file adds.
WARM_FILES, WARM_EVERY_S = 12, 3.0
#: Time for both sides to read all that was fed, before results are compared.
END_S = 240.0
#: The JVM still compiles after its work is done.
SETTLE_S = 15.0
CORES = 2


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
        self.spark: SparkSession = local_session("governed benchmark", CORES, conf)
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

    def settle(self) -> None:
        """Until there is nothing to do: micro-batches without data come after the last row."""
        end = time.time() + 60
        while self.governor is not None and time.time() < end:
            if not any(query.waiting for query in self.governor.snapshot().queries):
                break
            time.sleep(0.5)
        time.sleep(SETTLE_S)

    def idle_cores(self, seconds: float) -> float:
        before = self.cpu_s()
        time.sleep(seconds)
        return (self.cpu_s() - before) / seconds

    def responses(self, first: int, last: int) -> dict[str, Any]:
        """Latency and utility of rows first to last; unread ones have no worth."""
        log = np.loadtxt(self.folder / "feed.log", ndmin=2)
        rows = np.arange(first, last, max(1, (last - first) // 5000))
        created = log[np.searchsorted(log[:, 0], rows, side="right"), 1]
        self.positions()
        now = time.time()
        by_class: dict[str, dict[str, Any]] = {name: {} for name in CLASSES}
        for made, seen in zip(self.made, self.read, strict=True):
            ends = np.array([end for end, _ in seen] + [now])
            upto = np.array([n for _, n in seen] + [np.inf])
            at = np.searchsorted(upto, rows, side="right")
            by_class[made.cls][made.name] = ends[at] - created, at < len(seen)
        found = {name: _summary(name, queries) for name, queries in by_class.items()}
        weights = {name: CLASSES[name].priority * one["queries"] for name, one in found.items()}
        total = sum(weights[name] * one["utility"] for name, one in found.items())
        utility = round(total / sum(weights.values()), 4)
        return {"classes": found, "utility": utility, "critical_round_s": self.critical_round_s()}

    def critical_round_s(self) -> float:
        """How long one micro-batch of every critical query takes, two at a time.

        Nobody answers sooner than that after a file has come, even if nothing else runs.
        """
        total_ms = 0.0
        for made, query in zip(self.made, self.running, strict=True):
            if made.cls == "critical":
                last = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]][-10:]
                total_ms += float(np.mean([ms["triggerExecution"] for ms in last]))
        return round(total_ms / 1000 / CORES, 2)

    def results(self) -> dict[str, str]:
        """What each query has found, in a form that can be compared."""
        found = {}
        for made in self.made:
            rows = self.spark.table(made.name)
            columns = [f"`{column}`" for column in rows.columns]
            expr = f"concat(count(*), ' ', coalesce(sum(hash({', '.join(columns)})), 0))"
            found[made.name] = rows.selectExpr(expr).collect()[0][0]
        return found


def _summary(cls: str, queries: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Of a class: latencies of its rows and whether they were read, by query."""
    late = np.concatenate([one[0] for one in queries.values()])
    read = np.concatenate([one[1] for one in queries.values()])
    worth = np.where(read, CLASSES[cls].qos.utility((late * 1e9).astype(np.int64)), 0.0)
    p95_s = {name: float(np.percentile(one[0], 95)) for name, one in queries.items()}
    slowest = max(p95_s, key=p95_s.__getitem__)
    return {
        "p50_s": round(float(np.percentile(late, 50)), 3),
        "p95_s": round(float(np.percentile(late, 95)), 3),
        "utility": round(float(worth.mean()), 4),
        "unread": round(1 - float(read.mean()), 4),
        "queries": len(queries),
        "slowest": slowest,
        "slowest_p95_s": round(p95_s[slowest], 3),
    }


def run(plan: Mapping[str, Any]) -> None:
    """A backlog, idle, then each load in turn, of this side's capacity or another's."""
    with tempfile.TemporaryDirectory() as folder:
        side = Side(plan["side"] == "governed", plan["queries"], Path(folder))
        # What is compiled, and what the policy learns of costs.
        side.feed(WARM_FILES * FILE_ROWS, FILE_ROWS / WARM_EVERY_S).wait()
        side.drain(120)
        per_s = capacity(side, plan["backlog"])  # a warm-up, too, for both sides alike
        tell(backlog_per_s=per_s)
        side.settle()
        tell(idle_cores=side.idle_cores(plan["idle_s"]))
        base = plan["capacity_per_s"] or per_s
        for load in plan["loads"]:
            loaded(side, load, round(load * base, 1), plan)
        drained = side.drain(END_S)
        tell(results=side.results() if drained else {})
        if side.governor is not None:
            report = side.governor.stop()
            tell(grants=report.manifest["grants"], free=report.manifest["free"])
        for query in side.running:
            query.stop()
        side.spark.stop()


def loaded(side: Side, load: float, rate: float, plan: Mapping[str, Any]) -> None:
    """Rows at this rate, and how long they took."""
    first, cpu_s, began = side.fed, side.cpu_s(), time.time()
    side.feed(round(rate * plan["load_s"]), rate).wait()
    drained = side.drain(plan["drain_s"])
    cores = (side.cpu_s() - cpu_s) / (time.time() - began)
    # The first fifth is for what is compiled and learned on the way.
    about = side.responses(first + (side.fed - first) // 5, side.fed)
    tell(load=load, rate=rate, drained=drained, cores=round(cores, 2), **about)


def capacity(side: Side, backlog: int) -> float:
    """Rows per second at which this side reads a backlog: beyond that rate, one grows."""
    began = time.time()
    side.feed(backlog, 1e9).wait()
    side.drain(300)
    return round(backlog / (time.time() - began), 1)


def tell(**about: Any) -> None:
    print("RESULT " + json.dumps(about), flush=True)


if __name__ == "__main__":
    assert classes_of(50).count("critical") == 10
    run(json.loads(sys.argv[1]))
