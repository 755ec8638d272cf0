"""What an open dashboard costs the process that serves it, beside the same run without one.

    python benchmarks/dashboard_cost.py [--queries 250] [--rounds 3] [--json]

One run on Spark; stretches without and with an open page take turns. Counted is the CPU time of the
server's own threads, exactly, and that of the whole driver process, which also varies by itself.
The page is a plain reader of the event stream in another process: what a browser spends on drawing
is not the driver's. The goal is less than 3 % of a core at 250 queries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daybreak.dashboard.server import Dashboard
from daybreak.model import Arrivals
from daybreak.spark.app import App
from daybreak.spark.run import Run
from daybreak.spark.session import local_session

GOAL = 0.03
OURS = ("daybreak-dashboard", "daybreak-look", "daybreak-command")
READER = (
    "import sys, urllib.request\n"
    "for line in urllib.request.urlopen(sys.argv[1] + 'events'):\n"
    "    pass\n"
)


def declare(queries: int, rate_per_s: float) -> App:
    app = App(local_session("dashboard cost", cores=2), name="cost")
    app.query_class("critical", 60, qos=[[0, 1.0], [0.5, 1.0], [2.0, 0.0]])
    app.query_class("normal", 30, qos=[[0, 1.0], [2.0, 1.0], [8.0, 0.0]])
    app.query_class("archive", 10)
    app.stream(
        "readings", format="generator", options={"rows": "stations", "seed": 1},
        arrivals=Arrivals(rate_per_s=rate_per_s),
    )  # fmt: skip
    for q in range(queries):
        cls = ("critical", "normal", "archive")[q % 3]
        sql = f"SELECT station, temperature FROM readings WHERE district = {q % 12} AND wind > {q}"
        app.query(f"q{q}", sql=sql, cls=cls)
    return app


def own_cpu_s() -> float:
    """CPU time so far of the threads that serve the page."""
    ticks = 0
    for thread in threading.enumerate():
        if thread.name.startswith(OURS) and thread.native_id is not None:
            stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
            user, system = stat.rsplit(")", 1)[1].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def page(served: Dashboard) -> Iterator[None]:
    reader = subprocess.Popen([sys.executable, "-c", READER, served.url])
    try:
        while served.site.hub.pages == 0:
            time.sleep(0.02)
        yield
    finally:
        reader.kill()
        reader.wait()


def stretch(run: Run, seconds: float) -> dict[str, float]:
    """Shares of a core over some seconds."""
    began, own, whole = time.monotonic(), own_cpu_s(), time.process_time()
    run.wait(seconds)
    took = time.monotonic() - began
    return {
        "own": (own_cpu_s() - own) / took,
        "process": (time.process_time() - whole) / took,
    }


def measure(run: Run, served: Dashboard, rounds: int, seconds: float) -> dict[str, Any]:
    without, with_page = [], []
    for _ in range(rounds):
        without.append(stretch(run, seconds))
        with page(served):
            with_page.append(stretch(run, seconds))

    def mean(of: list[dict[str, float]], key: str) -> float:
        return round(sum(s[key] for s in of) / len(of), 5)

    return {
        "queries": len(run.parts.accepted.catalog.application.checked),
        "rounds": rounds,
        "seconds": seconds,
        "jobs": len(run.parts.keeping.figures.history.jobs),
        "server_threads_closed": mean(without, "own"),
        "server_threads_open": mean(with_page, "own"),
        "process_closed": mean(without, "process"),
        "process_open": mean(with_page, "process"),
        "goal": GOAL,
        "met": mean(with_page, "own") < GOAL,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=250)
    parser.add_argument("--rate", type=float, default=200.0, help="readings per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each stretch")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    app = declare(args.queries, args.rate)
    with (
        tempfile.TemporaryDirectory() as folder,
        app.run("stride", run_dir=Path(folder) / "run") as run,
        Dashboard(run.handle) as served,
    ):
        run.wait(10)  # Spark compiles
        found = measure(run, served, args.rounds, args.seconds)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        print(
            f"{found['queries']} queries: the server's threads take "
            f"{found['server_threads_open']:.2%} of a core with a page open, "
            f"{found['server_threads_closed']:.2%} without; the whole driver process "
            f"{found['process_open']:.0%} and {found['process_closed']:.0%}. "
            f"Goal {GOAL:.0%}: {'met' if found['met'] else 'missed'}"
        )
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
