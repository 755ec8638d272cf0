"""A policy that never comes to a decision: it is named, and the run ends all the same."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.windows.logs import Log, declare, feed
from tests.until import until

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Decision
from daybreak.spark.loop import driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Stuck(BasePolicy):
    """Thinks for ever once something waits."""

    name = "stuck"

    def __init__(self) -> None:
        super().__init__()
        self.thinks, self.released = threading.Event(), threading.Event()

    def decide(self, now_ns: int, worker: int) -> Decision:
        if any(self.view.pending):
            self.thinks.set()
            self.released.wait()
        return None


def test_drain_names_a_policy_that_does_not_decide_and_stop_returns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stuck, others = declare(spark, "stuck"), Stuck(), set(threading.enumerate())
    app.query("q", sql="SELECT n FROM a")
    run = app.run(stuck, run_dir=tmp_path / "run")
    feed(run, Log.random(1).segments()[:2])
    until(stuck.thinks.is_set)
    with pytest.raises(ConfigError, match=r"still has work after 1 s: the scheduler \(policy"):
        run.drain(timeout_s=1)
    monkeypatch.setattr(driver, "STUCK_S", 0.5)
    run.stop()
    with pytest.raises(ConfigError, match="policy 'stuck' has come to no decision"):
        run.healthy()
    stuck.released.set()  # it comes back to a run that has ended, and changes nothing
    mine = set(threading.enumerate()) - others
    until(lambda: not any(t.name == "daybreak-loop" and t.is_alive() for t in mine))


class Idle(BasePolicy):
    name = "idle"

    def decide(self, now_ns: int, worker: int) -> Decision:
        return None


def test_drain_says_what_waits(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark, "idle")
    for name in ("p", "q"):
        app.query(name, sql="SELECT n FROM a")
    with app.run(Idle(), run_dir=tmp_path / "run") as run:
        rows = Log.random(1).segments()[:2]
        taken = sum(len(r) for stream, _, r in rows if stream == "a")
        feed(run, rows)
        with pytest.raises(ConfigError, match=rf"rows wait for p \({taken} rows\), q \("):
            run.drain(timeout_s=0.5)
