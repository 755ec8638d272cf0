"""A sink gets the results of a query in order, whatever it refuses: numbers tell what it has."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from daybreak.model.limits import Limits
from daybreak.policies.base import BasePolicy, Plan, Step
from daybreak.spark.app import App
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.sinks.calls import DestinationSink
from daybreak.spark.sinks.delivery import recover
from daybreak.spark.sinks.destination import DeclaredSink, DeliveryId, Destination

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 4


class Stepwise(BasePolicy):
    """Several jobs of one query in one order, one row each."""

    name = "stepwise"
    summary = "for this test"

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        view = self.view
        for box, waiting in enumerate(view.pending):
            if waiting and not view.running[box]:
                return Plan(tuple(Step(box, limit=1) for _ in range(min(STEPS, waiting))))
        return None


def test_nothing_overtakes_a_result_that_was_refused(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[str, list[int]]] = []
    guard = threading.Lock()

    def picky(rows: pa.Table, key: str) -> None:
        with guard:
            calls.append((key, rows["n"].to_pylist()))
            if len(calls) in (1, 3, 6):
                raise OSError("not now")

    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = "".join(f'{{"n": {n}}}\n' for n in range(6 * number, 6 * number + 6))
        (tmp_path / f"in/{number}.json").write_text(lines)
    app = App(spark, folder=tmp_path, name="order")
    app.stream("s", format="json", path="in", schema="n INT", options={"maxFilesPerTrigger": 1})
    app.query("q", sql="SELECT n FROM s", sink=picky)
    app.limits = Limits(retry_s=0.01, retries=100)
    with app.run(Stepwise(), run_dir=tmp_path / "run", workers=2) as run:
        run.drain()
    taken = {key: rows for key, rows in calls}  # noqa: C416  # the last call of each key counts
    assert sorted(n for rows in taken.values() for n in rows) == list(range(18))
    jobs = [key for key, _ in calls]
    assert jobs == sorted(jobs), "a later job was delivered before an earlier one"
    assert len(jobs) == len(taken) + 3


class Picky(Destination):
    """Refuses the first delivery once, and takes any other."""

    def __init__(self) -> None:
        super().__init__(DeclaredSink(query="q"))
        self.refused = False
        self.written: list[int] = []

    def write(self, rows: pa.Table, delivery: DeliveryId) -> None:
        if not self.refused:
            self.refused = True
            raise OSError("not now")
        self.written += rows["n"].to_pylist()


def test_a_start_delivers_nothing_after_a_result_that_is_refused(tmp_path: Path) -> None:
    log, place = CommitLog(tmp_path / "state.db"), Picky()
    sink = DestinationSink("q", tmp_path / "staging", place, 30.0)
    for number in range(3):
        job = log.new_job()
        log.commit(job, [], sink.stage(job, pa.table({"n": [number]})))
    assert list(recover(log, {"q": sink}).refused) == ["q"]
    assert place.written == [], "the others wait for the first one"
    assert len(recover(log, {"q": sink}).delivered) == 3
    assert place.written == [0, 1, 2]
    log.close()
