"""Window queries as they run: restarts, failures, late rows, views, silence, retention."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.spark.windows.logs import (
    START,
    Log,
    S,
    bag,
    batch,
    declare,
    feed,
    sliding,
    tumbling_late,
)
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.jobs.adhoc import Kept, ad_hoc
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "SELECT window.end AS e, k, count(*) AS n, sum(v) AS s FROM a GROUP BY window(at, '{}'), k"
TUMBLING = COUNTS.format("10 seconds")
SLIDING = COUNTS.format("10 seconds', '4 seconds")


def delivered(folder: Path) -> Counter[str]:
    return bag([row for f in folder.glob("*.parquet") for row in pq.read_table(f).to_pylist()])


def test_after_failures_and_restarts_each_window_is_there_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Jobs that die before their commit, and results that are committed but not delivered."""
    log = Log.random(7)
    segments = [s for s in log.segments() if s[0] == "a"]
    thirds = len(segments) // 3

    def app() -> App:
        made = declare(spark)
        for name, sql in (("tumbling", TUMBLING), ("sliding", SLIDING)):
            made.query(name, sql=sql, sink={"format": "parquet", "path": str(tmp_path / name)})
        made.limits = Limits(retries=0)
        return made

    def broken(run: Run, part: int) -> None:
        """From now on every job fails: at its commit, or when it delivers."""
        if part == 0:
            run.parts.storage.log.__dict__["commit"] = _fail
        else:
            for sink in run.parts.accepted.catalog.sinks.values():
                sink.__dict__["deliver"] = _fail

    for part in range(3):
        with app().run("fcfs", run_dir=tmp_path / "run", on_failure="report") as run:
            mine = segments[part * thirds : (part + 1) * thirds if part < 2 else None]
            feed(run, mine[: len(mine) // 2])
            run.drain()
            if part < 2:
                broken(run, part)
            feed(run, mine[len(mine) // 2 :])
            run.drain(flush=part == 2)
        assert part == 2 or set(run.failures) <= {"tumbling", "sliding"}
    assert not run.failures
    in_time = {"a": log.in_time("a", tumbling_late(10 * S))}
    assert delivered(tmp_path / "tumbling") == batch(spark, TUMBLING, in_time)
    assert delivered(tmp_path / "sliding") == sliding(log.streams["a"], log, "a", 10 * S, 4 * S)


def _fail(*_arguments: Any) -> Any:
    raise OSError("killed here")


def test_without_an_end_only_closed_windows_come_and_late_rows_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log.random(3)
    app = declare(spark)
    app.query("q", sql=TUMBLING)
    app.query("gone", sql=TUMBLING)
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        run.drop("gone")  # nothing is late for it
        fed = feed(run, [s for s in log.segments() if s[0] == "a"])
        run.drain()
        until(lambda: run.parts.storage.store.segments("a")[0].seq > 0, "old segments are removed")
        kept = run.parts.storage.store.segments("a")
    reached = log.watermark("a", len(log.streams["a"]))
    every = batch(spark, TUMBLING, {"a": log.in_time("a", tumbling_late(10 * S))})
    found = run.rows("q")
    assert found is not None
    ends = {row["e"] for row in found.to_pylist()}
    assert max(ends).timestamp() == reached // S // 10 * 10
    assert not bag(found) - every
    open_rows = [row for row in every if max(ends).isoformat(" ") < row.split('"')[3]]
    assert sum(every.values()) - found.num_rows == len(open_rows)
    late = [r for rows in log.streams["a"] for r in rows]
    in_time = log.in_time("a", tumbling_late(10 * S))
    aside = pq.read_table(tmp_path / "run/late/q")
    assert sorted(aside["n"].to_pylist()) == sorted(
        {r["n"] for r in late} - {r["n"] for r in in_time}
    )
    assert run.report().manifest["late"] == {"q": aside.num_rows}
    # A window waits from the arrival of the segment that closed it.
    reached_by = [log.watermark("a", k + 1) // (10 * S) for k in range(len(fed))]
    closing = [
        s.arrival_ns for k, s in enumerate(fed) if k == 0 or reached_by[k] > reached_by[k - 1]
    ]
    outputs = run.report().outputs
    assert sorted(outputs.arrival_ns + run.parts.keeping.figures.start_ns) == closing
    assert (outputs.departure_ns > outputs.arrival_ns).all()
    # What open windows hold is kept, what closed ones held is gone.
    assert kept[0].seq > 0
    assert min(s.low_us for s in kept if s.low_us) <= max(s.high_us for s in kept if s.high_us)


def test_views_are_shared_and_windows_over_windows_lose_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log.random(11)
    app = declare(spark)
    app.view("even", sql="SELECT n, k, v, at FROM a WHERE v % 2 = 0")
    app.view(
        "sums",
        sql="SELECT window.end AS e, k, sum(v) AS s FROM even GROUP BY window(at, '5 seconds'), k",
        time="e",
    )
    app.query("rows", sql="SELECT n FROM even WHERE k = 1", cls="low")
    app.query("large", sql="SELECT e, k FROM sums WHERE s > 40", cls="low")
    twice = (
        "SELECT window.end AS e, max(s) AS m, count(*) AS n FROM {} "
        "GROUP BY window(e, '20 seconds')"
    )
    app.query("twice", sql=twice.format("sums"), cls="high")
    with app.run("stride", run_dir=tmp_path / "run") as run:
        network, engine = (
            run.parts.accepted.catalog.application.network,
            run.parts.scheduling.driver.engine,
        )
        view = network.query_index["view sums"]
        assert network.classes[engine.view.query_class[view]].name == "high", (
            "highest class it serves"
        )
        feed(run, [s for s in log.segments() if s[0] == "a"])
        run.drain(flush=True)
        run.assign_class("twice", "low")
        assert network.classes[engine.view.query_class[view]].name == "low"
    assert not run.failures
    late = tumbling_late(5 * S)
    even = "(SELECT * FROM a WHERE v % 2 = 0)"
    every = {"a": [row for rows in log.streams["a"] for row in rows]}
    in_time = {"a": log.in_time("a", late)}
    sums = f"SELECT window.end AS e, k, sum(v) AS s FROM {even} GROUP BY window(at, '5 seconds'), k"
    assert bag(run.rows("rows")) == batch(spark, f"SELECT n FROM {even} WHERE k = 1", every)
    assert bag(run.rows("large")) == batch(
        spark, f"SELECT e, k FROM ({sums}) WHERE s > 40", in_time
    )
    assert bag(run.rows("twice")) == batch(spark, twice.format(f"({sums})"), in_time)


def test_a_window_query_can_be_registered_while_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It sees the rows from the next segment on; what is late is still told by the whole log."""
    log = Log.random(13)
    segments = [s for s in log.segments() if s[0] == "a"]
    app = declare(spark)
    app.query("rows", sql="SELECT n FROM a", cls="low")
    with app.run("stride", run_dir=tmp_path / "run") as run:
        feed(run, segments[:2])
        run.drain()
        run.register("q", TUMBLING, cls="low", force=True)
        run.register("s", SLIDING, cls="low", force=True)
        feed(run, segments[2:])
        run.drain(flush=True)
        with pytest.raises(ConfigError, match="max_window"):
            run.register("long", COUNTS.format("2 hours"), cls="low")
    assert not run.failures
    before = {row["n"] for _, _, rows in segments[:2] for row in rows}
    in_time = [r for r in log.in_time("a", tumbling_late(10 * S)) if r["n"] not in before]
    assert bag(run.rows("q")) == batch(spark, TUMBLING, {"a": in_time})
    seen = [[row for row in rows if row["n"] not in before] for rows in log.streams["a"]]
    assert bag(run.rows("s")) == sliding(seen, log, "a", 10 * S, 4 * S)


def test_a_silent_stream_goes_on_with_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    app = App(spark, name="silent")
    options = {"rows": "by-hand", "limit": 0}
    app.stream("a", format="generator", options=options, time="at", idle_timeout="100 milliseconds")
    app.query(
        "q", sql="SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(at, '1 second')"
    )
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        feed(run, [("a", 0, [{"n": 1, "k": 1, "v": 1, "at": START}])])

        def closed() -> bool:
            run.healthy()
            return bool(run.rows("q").num_rows)

        until(closed, "its window closes")
        before = run.parts.storage.store.clock("a")
        assert before is not None
        feed(run, [("a", 1, [{"n": 2, "k": 1, "v": 1, "at": START + 1}])])
    assert run.parts.inflow.late.counts == {"q": 1}, (
        "what comes after the window was closed is late"
    )


def test_retained_segments_answer_ad_hoc_queries(spark: SparkSession, tmp_path: Path) -> None:
    log = Log.random(5, rows=40)
    app = App(spark, name="kept")
    for stream, retain in (("a", "1 hour"), ("b", None)):
        options = {"rows": "by-hand", "limit": 0}
        app.stream(stream, format="generator", options=options, time="at", retain=retain)
        app.query(f"all_{stream}", sql=f"SELECT * FROM {stream}")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        feed(run, log.segments())
        run.drain()
        run.parts.keeping.retention.remove_passed()
        assert len(run.parts.storage.store.segments("a")) == len(log.streams["a"])
        assert len(run.parts.storage.store.segments("b")) == 1, "what nobody needs is removed"
        schemas = run.parts.accepted.catalog.application.schemas
        sql = "SELECT count(*) AS n, sum(v) AS s FROM a"
        (row,) = ad_hoc(spark, Kept(tmp_path / "run"), schemas, sql).to_pylist()
    rows = [r for made in log.streams["a"] for r in made]
    assert row == {"n": len(rows), "s": sum(r["v"] for r in rows)}
    with pytest.raises(ConfigError, match="did you mean 'a'"):
        ad_hoc(spark, Kept(tmp_path / "run"), schemas, "SELECT * FROM aa")
    with pytest.raises(ConfigError, match="no run directory"):
        ad_hoc(spark, Kept(tmp_path), schemas, "SELECT * FROM a")


REFUSED = {
    "SELECT count(*) AS n FROM a GROUP BY window(at, '2 hours')": "120 panes.*max_window is 1 hour",
    "SELECT window.end AS e, percentile(v, 0.5) AS p FROM a "
    "GROUP BY window(at, '2 hours', '1 minute')": "reads each 120 times; max_window",
    "SELECT k, count(*) AS n FROM a GROUP BY window(at, '9 seconds', '3 seconds'), k": "overlap",
    "SELECT w.end AS e, first(v) AS v FROM (SELECT window(at, '1 second') AS w, v FROM a) "
    "GROUP BY w": "First.*order of rows",
    "SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(at, '1 month')": (
        "a length of '1 month'; months differ in length; give weeks, days or less"
    ),
    "SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(at, '1 day', '1 day', '1 year')": (  # noqa: E501
        "a start time of '1 year'"
    ),
    "SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(at, '5 seconds', '9 seconds')": (
        "slides by '9 seconds', more than its length '5 seconds'"
    ),
    "SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(v, '5 seconds')": (
        r"`window`.`end` cannot be resolved.*window\(...\) takes a TIMESTAMP"
    ),
    "SELECT x.n FROM a x FULL JOIN b y ON x.at = y.at": "joins streams 'a' and 'b'",
    "SELECT x.n FROM a x FULL JOIN b y ON x.k = y.k AND y.at BETWEEN x.at AND x.at + "
    "INTERVAL 5 SECONDS": "FULL OUTER JOIN by a band of times, which is not supported; join over",
    "SELECT window.end AS e, corr(v, n) AS c FROM a GROUP BY window(at, '1 second')": (
        "Corr, which is not supported here; use count, .*median"
    ),
    "SELECT *, row_number() OVER (PARTITION BY w ORDER BY v) AS r FROM "
    "(SELECT n, v, window(at, '1 second') AS w FROM a)": "rows that tie in its ORDER BY",
    "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)": "LEFT SEMI JOIN",
    "SELECT n FROM a WHERE k IN (SELECT k FROM b)": "LEFT SEMI JOIN",
    "SELECT n, (SELECT max(v) FROM b) AS m FROM a": "over static tables only, or join over windows",
    "SELECT x.n FROM a x JOIN b y ON y.at >= x.at": "joins streams 'a' and 'b'",
    "SELECT window.end AS e, count(*) AS n FROM a GROUP BY window(at, '1 second') "
    "UNION ALL SELECT at, v FROM a": "two queries",
    "SELECT window(at, '1 second') AS w FROM a EXCEPT SELECT window(at, '2 seconds') FROM b": (
        "different windows"
    ),
}


@pytest.mark.parametrize(("sql", "finding"), [*REFUSED.items()])
def test_refused_before_anything_starts(spark: SparkSession, sql: str, finding: str) -> None:
    app = declare(spark)
    app.query("q", sql=sql)
    with pytest.raises(ConfigError, match=finding) as caught:
        app.check()
    assert caught.value.remedy


def test_what_a_stream_declares_about_time_is_checked(spark: SparkSession) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"time": "att"}, "did you mean 'at'"),
        ({"time": "v"}, "of type int"),
        ({"time": "at", "watermark": "soon"}, "no duration"),
        ({"watermark": "1 second"}, "without a time"),
    ]
    for declared, finding in wrong:
        app = App(spark, name="wrong")
        app.stream("a", format="generator", options={"rows": "by-hand"}, **declared)
        app.query("q", sql="SELECT n FROM a")
        with pytest.raises(ConfigError, match=finding):
            app.check()
