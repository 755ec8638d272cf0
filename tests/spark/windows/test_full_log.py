"""A full log and windows: whole windows are given up, and open ones hold nobody up."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.windows.logs import START, S, declare, feed
from tests.until import until

from daybreak.engine.compositing import MOST_WINDOWS
from daybreak.model import Arrivals
from daybreak.model.limits import Limits
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 2400
LIMITS = Limits(log_max_bytes=40_000)


@pytest.mark.parametrize("length", ["'200 milliseconds'", "'400 milliseconds', '200 milliseconds'"])
def test_a_query_over_windows_that_may_skip_loses_whole_windows(
    spark: SparkSession, tmp_path: Path, length: str
) -> None:
    app = App(spark, name="full")
    app.query_class("alarm", 10)
    app.query_class("archive", 1)
    app.stream(
        "readings",
        format="generator",
        options={"limit": ROWS},
        arrivals=Arrivals(rate_per_s=ROWS / 2),
        time="at",
    )
    app.query("all", sql="SELECT reading, at FROM readings", cls="alarm")
    sql = f"SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, {length})"
    app.query("counted", sql=sql, cls="archive")
    with app.run("fcfs", run_dir=tmp_path / "run", limits=LIMITS) as run:
        run.pause("counted")
        run.drain()
        deadline = time.monotonic() + 60
        while run.parts.keeping.retention.unread_bytes() > LIMITS.log_max_bytes:
            assert time.monotonic() < deadline, "the log stays full"
            run.wait(0.05)
        run.resume("counted")
        run.drain(flush=True)
        everything, windows = run.rows("all"), run.rows("counted")
        assert not [e for e in run.parts.storage.log.lost() if e["query"] == "counted"]
        lost = run.parts.storage.log.lost_windows()
        told = run.parts.storage.log.losses()
    assert everything is not None
    assert everything.num_rows == ROWS, "the alarms are not held up"
    assert {e["query"] for e in lost} == {"counted"}
    assert told == {"counted": {"full": sum(e["rows"] for e in lost)}}
    # The windows up to where the last range ends are missing, all others are whole.
    given_up_us = max(e["closed_us"] for e in lost)
    slide_us, per_window = 200_000, 2 if "," in length else 1
    ends: Counter[int] = Counter()
    for at in everything["at"].to_pylist():
        first = int(at.timestamp() * 1e6) // slide_us * slide_us + slide_us
        for later in range(per_window):
            ends[first + later * slide_us] += 1
    expected = {end: n for end, n in ends.items() if end > given_up_us}
    assert 0 < len(expected) < len(ends)
    assert windows is not None
    found = {round(w["e"].timestamp() * 1e6): w["n"] for w in windows.to_pylist()}
    assert found == expected
    assert windows.num_rows == len(expected), "none comes twice"


def test_open_windows_that_exceed_the_log_do_not_stop_the_sources(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They can only close if more comes, so waiting for room would be waiting for ever."""
    app = App(spark, name="open")
    app.stream(
        "readings",
        format="generator",
        options={"limit": ROWS},
        arrivals=Arrivals(rate_per_s=ROWS),
        time="at",
    )
    sql = "SELECT count(*) AS n FROM readings GROUP BY window(at, '10 minutes')"
    app.query("counted", sql=sql, on_full="block")
    with app.run("fcfs", run_dir=tmp_path / "run", limits=Limits(log_max_bytes=5_000)) as run:
        run.drain(timeout_s=60, flush=True)
        windows = run.rows("counted")
        assert run.parts.storage.log.losses() == {}
    assert windows is not None
    assert sum(windows["n"].to_pylist()) == ROWS


def test_a_log_that_is_a_little_too_full_costs_a_few_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As many as leave the log four fifths full, whether SQL or a function computes them."""
    from pyspark.sql import functions as F  # noqa: N812

    app = declare(spark, "a-little")
    windowed = "GROUP BY window(at, '10 seconds')"
    names = ["counted", "summed", *(f"more{i}" for i in range(MOST_WINDOWS))]
    for name in names[:1] + names[2:]:
        app.query(name, sql=f"SELECT window.end AS e, count(*) AS n FROM a {windowed}", cls="low")

    @app.query(cls="low")
    def summed(a: DataFrame) -> DataFrame:
        found = a.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("n"))
        return found.select(F.col("window.end").alias("e"), "n")

    app.query("top", sql="SELECT n FROM b", cls="high")  # else the windows' class is the highest
    rows, windows = 200, 40
    segments = [
        ("a", k, [
            {"n": n, "k": 0, "v": 0, "at": START + k * 10 * S + n * 1000} for n in range(rows)
        ])
        for k in range(windows + 1)
    ]  # fmt: skip
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        cells = [len(run.parts.scheduling.driver.engine.cell(b)) for b in range(len(names))]
        assert max(cells) == MOST_WINDOWS, "the code of one plan is limited"
        for name in names:
            run.pause(name)
        feed(run, segments)
        engine = run.parts.scheduling.driver.engine
        until(lambda: min(engine.view.waiting[: len(names)]) >= (windows - 1) * rows)
        held = run.parts.keeping.retention.unread_bytes()
    limits = Limits(log_max_bytes=round(held / 1.05))
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        until(lambda: run.parts.keeping.retention.unread_bytes() <= limits.log_max_bytes)
        lost = {name: sum(why.values()) for name, why in run.parts.storage.log.losses().items()}
    assert lost.keys() == set(names)
    assert len(set(lost.values())) == 1, lost
    share = lost["counted"] / (rows * windows)
    assert 0.05 < share < 0.35, f"{share:.0%} of what waited for a log 5 % too full"
