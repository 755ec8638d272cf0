"""Three runs on Spark whose decisions are replayed by the suite.

``python -m tests.recorded.make`` records them again, in place of those that are kept: after a
change that is meant to change decisions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from tests.until import until

from daybreak.engine.events import LogFull
from daybreak.model.pipeline import Pipeline
from daybreak.runtime.record import JOURNAL_FILE
from daybreak.runtime.snapshot import QueryRow
from daybreak.spark.app import App
from daybreak.spark.run import Run
from daybreak.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent

PIPELINE = """
[app]
policy = "POLICY"
[limits]
retry_s = 0.05
[shedding]
patience_s = 0.2
[classes]
alarm = 5
low = 1
[streams.readings]
format = "generator"
arrivals = { rate_per_s = 800 }
options = { limit = LIMIT }
time = "at"
[queries.hot]
class = "alarm"
sql = "SELECT reading FROM readings WHERE temperature > 20"
qos = [[0, 1], [0.5, 1], [2, 0]]
sink = { format = "memory" }
[queries.warm]
class = "alarm"
sql = "SELECT reading FROM readings WHERE temperature > 10"
sink = { format = "memory" }
[queries.cold]
class = "low"
sql = "SELECT reading FROM readings WHERE temperature < 5"
sink = { format = "memory" }
[queries.broken]
class = "low"
sql = "SELECT CAST(concat('x', reading) AS INT) AS n FROM readings"
sink = { format = "memory" }
[queries.counted]
class = "low"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"
sink = { format = "memory" }
"""


class Case(NamedTuple):
    """A run to record: its policy, how much arrives, express workers, and what operators do."""

    policy: str
    limit: int
    operate: Callable[[Run], None]
    express: int = 0
    busy: bool = False


def nothing(_run: Run) -> None:
    """Leaves a run to itself."""


def operated(run: Run) -> None:
    """Every command once, a full log, and a switch of the policy."""
    run.change_class_priority("low", 3)
    run.pause("warm")
    fill(run)
    run.register("more", "SELECT reading FROM readings WHERE temperature > 25", cls="alarm")
    run.resume("warm")
    run.set_weight("cold", 0.5)
    run.assign_class("hot", "low")
    run.set_policy("fcfs")
    run.drop("more")


def fill(run: Run) -> None:
    """Lets the log be full while a query of the lower class lags: it loses what waits for it."""
    run.pause("cold")

    def loses() -> bool:
        """Not while a job still has all that waits."""
        run.parts.scheduling.driver.ask(lambda: LogFull({"readings": (2**40, 0)})).result(60)
        return row_of(run, "cold").lost > 0

    until(loses)
    run.resume("cold")


def row_of(run: Run, query: str) -> QueryRow:
    return next(q for q in run.snapshot().queries if q.name == query)


#: Windows and a query that fails; the default policy on busy cores; operators and another policy.
CASES = {
    "windows": Case("stride", 12_000, nothing, express=1),
    "planned": Case("planned", 3200, nothing, busy=True),
    "operated": Case("planned", 1600, operated),
}


#: Takes what others leave of a core, so that tests that run beside it are not slowed down, and ends
#: with the process that started it, however that ends.
SPIN = (
    "import os; os.nice(19); started = os.getppid()\n"
    "while os.getppid() == started: sum(range(100_000))"
)


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process keeps a core busy meanwhile; a thread would keep the interpreter, too."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as process:
        try:
            yield
        finally:
            process.kill()


def perform(case: Case, spark: SparkSession, run_dir: Path) -> Run:
    """Runs a case until all that arrived is answered."""
    text = PIPELINE.replace("POLICY", case.policy).replace("LIMIT", str(case.limit))
    app = App.from_pipeline(Pipeline.parse(text), spark)
    with (
        busy_core() if case.busy else nullcontext(),
        app.run(
            run_dir=run_dir, workers=2, express=case.express, seed=7, on_failure="report"
        ) as run,
    ):
        case.operate(run)
        run.drain(120, flush=True)
    return run


def record(name: str, case: Case, spark: SparkSession) -> None:
    """Keeps the journal and the head of the record, which names what wrote it."""
    with TemporaryDirectory() as scratch:
        perform(case, spark, Path(scratch) / "run")
        kept, made = FOLDER / name, Path(scratch) / "run" / "record"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(made / JOURNAL_FILE, kept / JOURNAL_FILE)
        shutil.copy(made / "report.json", kept)


def main() -> None:
    spark = local_session("recorded runs", cores=2)
    for name in sys.argv[1:] or CASES:
        record(name, CASES[name], spark)
        print(name)


if __name__ == "__main__":
    main()
