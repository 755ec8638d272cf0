"""Nonsense wherever something comes in from outside: only Daybreak's own clear errors may result.

pipelines    pipeline files, read, and where they can be read, checked on Spark;
records      lines of a JSON and of a CSV stream: well-formed rows arrive, the rest is kept aside;
requests     lines for the control socket of a running application, which goes on;
directories  run directories with a damaged file, opened as a start does, some by a real one.
"""

from __future__ import annotations

import json
import random
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from benchmarks.soaking import nonsense
from benchmarks.soaking.application import pipeline

from daybreak.model import Arrivals
from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.model.specs import IngestWay, SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.app import App
    from daybreak.spark.run import Run

#: Spark's part takes a hundred times longer, so it is tried less often.
CHECKED, STARTED = 20, 50
EXTRA = """
[app]
name = "all of it"
policy = "mbd"
max_window = "10 minutes"
[shedding]
keep = 0.1
by = "uniform"
[log]
max_bytes = 1000000
[simulation]
duration_s = 2.0
[streams.readings]
format = "generator"
arrivals = { process = "poisson", rate_per_s = 10.0, phases = [{ factor = 2.0, duration_s = 1.0 }] }
time = "at"
watermark = "2 seconds"
idle_timeout = "1 second"
retain = "1 minute"
[views.hot]
sql = "SELECT station, temperature, at FROM readings WHERE temperature > 20"
[queries.fire]
qos = [[0, 1.0], [1.0, 1.0], [2.0, 0.0]]
weight = 0.5
on_full = "skip"
sql = "SELECT station FROM hot WHERE temperature > 35"
sink = { format = "parquet", path = "out/fire" }
[queries.mean]
sql = "SELECT station, avg(temperature) AS t FROM readings GROUP BY station, window(at, '1 second')"
sink = { format = "csv", path = "out/mean" }
"""
Say = Callable[[str], None]


def fuzz(tries: int, seed: int, folder: Path, say: Say = lambda _line: None) -> dict[str, Any]:
    """So many tries of each kind."""
    from daybreak.spark.session import local_session

    began, found = time.monotonic(), dict[str, Counter[str]]()
    spark = local_session("fuzz", cores=2)
    kinds: dict[str, Callable[..., Counter[str]]] = {
        "pipelines": pipelines,
        "records": records,
        "requests": requests,
        "directories": directories,
    }
    for kind, part in kinds.items():
        (folder / kind).mkdir()
        found[kind] = part(tries, random.Random(f"{seed}/{kind}"), folder / kind, spark)
        say(f"{kind}: {dict(found[kind])}, {time.monotonic() - began:.0f} s")
    spark.stop()
    return {
        "tries": tries,
        "outcomes": {kind: dict(counts) for kind, counts in found.items()},
        "took_s": round(time.monotonic() - began, 1),
        "seed": seed,
        "wrong": [f"{kind}: {what}" for kind, counts in found.items() for what in wrong(counts)],
    }


def wrong(counts: Counter[str]) -> list[str]:
    return [what for what in counts if what.startswith("WRONG")]


def judged(call: Callable[[], object], about: str) -> str:
    """What came of it: it went well, it was refused clearly, or something is wrong."""
    try:
        call()
    except ConfigError:
        return "refused"
    except Exception as error:
        return f"WRONG {type(error).__name__}: {str(error)[:200]}, of {about}"
    return "went well"


def pipelines(tries: int, chance: random.Random, folder: Path, spark: SparkSession) -> Counter[str]:
    from daybreak.spark.app import App

    sound, counts = (pipeline(10, 10), EXTRA), Counter[str]()
    readable: list[tuple[str, Pipeline]] = []

    def read() -> None:
        readable.append((text, Pipeline.parse(text)))

    for _ in range(tries):
        text = nonsense.text(chance.choice(sound), chance)
        counts[judged(read, repr(text))] += 1
    for text, declared in readable[:: max(1, len(readable) * CHECKED // tries)]:

        def check(declared: Pipeline = declared) -> None:
            App.from_pipeline(declared, spark).check().sinks(folder)

        counts[f"{judged(check, repr(text))} on Spark"] += 1
    return counts


def records(tries: int, chance: random.Random, folder: Path, spark: SparkSession) -> Counter[str]:
    from daybreak.spark.app import App

    for form in ("json", "csv"):
        (folder / form).mkdir()
    sound = {
        "json": [json.dumps({"n": n, "t": n / 2, "s": f"text {n}"}) for n in range(50)],
        "csv": [f"{n},{n / 2},text {n}" for n in range(50)],
    }
    app = App(spark, name="records", folder=folder)
    for form in sound:
        app.stream(form, format=form, schema="n INT, t DOUBLE, s STRING", path=form)
        app.query(f"of_{form}", sql=f"SELECT n FROM {form} WHERE n IS NOT NULL")
    with app.run("fcfs", run_dir=folder / "run", on_failure="report") as run:
        for part in range(0, tries, 500):
            for form, lines in sound.items():
                bad = nonsense.records(lines, 500, chance)
                new = folder / f"{form}.new"
                new.write_bytes(bad if part else b"\n".join([*(x.encode() for x in lines), bad]))
                new.rename(folder / form / f"{part}.{form}")
        run.drain()
        counts = Counter(
            {f"{form} kept aside": run.parts.inflow.dead_letters.count(form) for form in sound}
        )
        for query, why in run.failures.items():
            counts[f"WRONG {query} failed: {why}"] += 1
        for form in sound:
            found = run.rows(f"of_{form}")
            rows = set() if found is None else set(found["n"].to_pylist())
            counts[f"{form} rows"] = 0 if found is None else found.num_rows
            if not set(range(50)) <= rows:
                counts[f"WRONG {form}: well-formed records are missing"] += 1
    return counts


def requests(tries: int, chance: random.Random, folder: Path, spark: SparkSession) -> Counter[str]:
    from daybreak.spark.app import App
    from daybreak.spark.control.protocol import COMMANDS

    app = App(spark, name="requests", folder=folder)
    for cls in ("high", "low"):
        app.query_class(cls, 5)
    arrivals = Arrivals(rate_per_s=200)
    app.stream("readings", format="generator", options={"limit": 400}, arrivals=arrivals)
    for name in ("a", "b", "untouched"):
        app.query(name, sql="SELECT reading FROM readings", cls="high")
    commands = {name: [*c.needs, *c.may] for name, c in COMMANDS.items()}
    counts = Counter[str]()
    with app.run("fcfs", run_dir=folder / "run", on_failure="report") as run:
        for _ in range(tries):
            line = nonsense.request(commands, chance)
            counts[asked(run, line)] += 1
        run.drain()
        found = run.rows("untouched")
        if found is None or sorted(found["reading"].to_pylist()) != list(range(400)):
            counts["WRONG rows of a query that nobody named are missing"] += 1
    return counts


def asked(run: Run, line: bytes) -> str:
    """What the run answered to a line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(60.0)
        asker.connect(str(run.parts.control.server.path))
        asker.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            received = asker.recv(2**16)
            if not received:
                return f"WRONG no answer to {line[:200]!r}"
            answer += received
    told = json.loads(answer)
    if told["ok"]:
        return "went well"
    error = told["error"]
    if "please report it" in error["remedy"] or not all(error.values()):
        return f"WRONG {error['finding'][:200]}, of {line[:200]!r}"
    return "refused"


def directories(
    tries: int, chance: random.Random, folder: Path, spark: SparkSession
) -> Counter[str]:
    counts = Counter[str]()
    for _ in range(6):
        work(folder / "sound")
    started = folder / "started"
    answer_all(application(spark, started, folder / "in"), started / "run")
    for number in range(tries):
        real = number % STARTED == 0
        sound, copy = started if real else folder / "sound", folder / str(number)
        shutil.copytree(sound, copy)
        files = sorted(p for p in (copy / "run").rglob("*") if p.is_file() and p.name != "lock")
        victim = chance.choice(files)
        about = f"{nonsense.damage(victim, chance)} of {victim.relative_to(copy)}"
        if real:
            app = application(spark, copy, folder / "in")
            counts[f"{judged(partial(answer_all, app, copy / 'run'), about)} on Spark"] += 1
        else:
            counts[judged(partial(work, copy), about)] += 1
        shutil.rmtree(copy)
    return counts


def application(spark: SparkSession, folder: Path, source: Path, ingest: IngestWay = "auto") -> App:
    """A small application with a source of Spark's and a window; all of its input is there."""
    from daybreak.spark.app import App

    if not source.exists():
        source.mkdir()
        lines = [json.dumps({"n": n, "at": f"2026-01-01 00:00:{n % 60:02}"}) for n in range(100)]
        for part in range(3):
            (source / f"{part}.json").write_text("\n".join(lines))
    app = App(spark, name="damaged", folder=folder)
    app.stream(
        "s", format="json", schema="n INT, at TIMESTAMP", path=str(source), time="at",
        retain="1 hour", options={"maxFilesPerTrigger": 1}, ingest=ingest,
    )  # fmt: skip
    app.query("q", sql="SELECT n FROM s", sink={"format": "json", "path": "out"})
    app.query("w", sql="SELECT count(*) AS n FROM s GROUP BY window(at, '10 seconds')")
    return app


def answer_all(app: App, run_dir: Path) -> None:
    with app.run("fcfs", run_dir=run_dir, on_failure="report") as run:
        run.drain(timeout_s=120)


def work(folder: Path) -> None:
    """Opens a run directory as a start does, without Spark, and takes one step further."""
    from daybreak.engine.inbox import Inbox
    from daybreak.spark.log.commitlog import CommitLog
    from daybreak.spark.log.rows import CursorMove
    from daybreak.spark.log.rundir import RunDirectory
    from daybreak.spark.log.segments import SegmentStore
    from daybreak.spark.sinks.delivery import recover
    from daybreak.spark.sinks.make import make_sink

    with RunDirectory.open(folder / "run", "p") as rundir:
        log = CommitLog(rundir.state_db)
        try:
            store = SegmentStore(rundir, log, small_bytes=0)
            sinks = {"q": make_sink("q", SinkSpec(format="json", path="out"), folder, Path())}
            recover(log, sinks)
            log.register_query("q", "1", {"s": store.end("s")})
            table = pa.table({"n": pa.array(range(50), pa.int64())})
            end = store.end("s")
            store.append("s", "cp", end.seq, [end.seq], table, 1)
            old = log.cursors()["q", "s"]
            taken = Inbox.of(store.waiting("s", old)).take(70)
            rows, (_, new) = store.read(taken), store.passed(taken)["s"]
            job = log.new_job()
            staged = sinks["q"].stage(job, rows)
            files = log.commit(job, [CursorMove("q", "s", old, new)], staged)
            for file in files:
                sinks["q"].deliver(file)
        finally:
            log.close()
