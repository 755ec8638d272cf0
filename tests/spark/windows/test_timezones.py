"""Event times with and without a time zone, in time zones of all kinds, against a batch."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from tests.spark.windows.logs import bag

from daybreak.model import ConfigError
from daybreak.spark.app import App
from daybreak.spark.ingest import generator
from daybreak.spark.session import timezone_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Streams a and b have instants, p and q local times.
STREAMS = {"a": "TIMESTAMP", "b": "TIMESTAMP", "p": "TIMESTAMP_NTZ", "q": "TIMESTAMP_NTZ"}
KINDS = {"TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us")}
ZONES = {
    "UTC": "2026-01-01 12:00:00",
    "Asia/Tokyo": "2026-01-01 12:00:00",
    "America/New_York": "2026-03-08 01:00:00",  # clocks go forward at 2
    "Europe/Berlin": "2026-10-25 01:00:00",  # clocks go back at 3
}
FAR = "INTERVAL '0 00:20:00' DAY TO SECOND"
QUERIES = {
    "rows": "SELECT n, hour(at) AS h, CAST(at AS STRING) AS s, date_trunc('DAY', at) AS d, "
    "CAST(at AS TIMESTAMP_NTZ) AS l FROM a WHERE at > '2026-01-01 00:00:00'",
    "local_rows": "SELECT n, CAST(at AS TIMESTAMP) AS t, unix_micros(CAST(at AS TIMESTAMP)) AS u "
    "FROM p WHERE at <> TIMESTAMP '2020-01-01 00:00:00'",
    "hours": "SELECT window.start AS s, hour(at) AS h, count(*) AS c, sum(n) AS t FROM a "
    "GROUP BY window(at, '1 hour'), hour(at)",
    "local_hours": "SELECT window.start AS s, hour(at) AS h, count(*) AS c, sum(n) AS t FROM p "
    "GROUP BY window(at, '1 hour'), hour(at)",
    "sliding": "SELECT window.end AS e, k, count(*) AS c FROM a "
    "GROUP BY window(at, '1 hour', '20 minutes'), k",
    "local_sliding": "SELECT window.end AS e, k, count(*) AS c FROM p "
    "GROUP BY window(at, '1 hour', '20 minutes'), k",
    "days": "SELECT window.start AS s, count(*) AS c FROM a GROUP BY window(at, '1 day')",
    "local_days": "SELECT window.start AS s, count(*) AS c FROM p GROUP BY window(at, '1 day')",
    "band": f"SELECT x.n, y.n AS m FROM a x JOIN b y ON x.k = y.k "
    f"AND y.at BETWEEN x.at - {FAR} AND x.at + {FAR}",
    "local_band": f"SELECT x.n, y.n AS m FROM p x JOIN q y ON x.k = y.k "
    f"AND y.at BETWEEN x.at - {FAR} AND x.at + {FAR}",
    "next_day": "SELECT x.n, y.n AS m FROM a x JOIN b y ON y.at >= x.at + INTERVAL '1' DAY "
    "AND y.at <= x.at + INTERVAL '1 00:10:00' DAY TO SECOND",
    "local_next_day": "SELECT x.n, y.n AS m FROM p x LEFT JOIN q y ON "
    "y.at >= x.at + INTERVAL '1' DAY AND y.at <= x.at + INTERVAL '1 00:10:00' DAY TO SECOND",
    "by_window": "SELECT x.n, y.n AS m FROM (SELECT *, window(at, '30 minutes') AS w FROM a) x "
    "JOIN (SELECT *, window(at, '30 minutes') AS w FROM b) y ON x.w = y.w AND x.k = y.k",
    "local_by_window": "SELECT x.n, y.n AS m FROM (SELECT *, window(at, '90 minutes') AS w FROM p) "
    "x JOIN (SELECT *, window(at, '90 minutes') AS w FROM q) y ON x.w = y.w AND x.k = y.k",
    "from_texts": "SELECT n, at, CAST(at AS STRING) AS s FROM texts",
    "text_hours": "SELECT window.start AS s, count(*) AS c FROM texts "
    "GROUP BY window(at, '1 hour')",
}


def rows(stream: str, zone: str) -> pa.Table:
    """A row every ten minutes of four hours, and from 22 to 27 hours after their begin."""
    begin = datetime.fromisoformat(ZONES[zone])
    if STREAMS[stream] == "TIMESTAMP":  # every instant, also those that local time has twice
        begin = begin.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    shift = 3 if stream in "bq" else 0
    minutes = [*range(0, 240, 10), *range(22 * 60, 27 * 60, 10)]
    at = [begin + timedelta(minutes=m + shift) for m in minutes]
    return pa.table(
        {
            "n": pa.array(range(len(at)), pa.int32()),
            "k": pa.array([i % 2 for i in range(len(at))], pa.int32()),
            "at": pa.array(at, KINDS[STREAMS[stream]]),
        }
    )


def declare(spark: SparkSession, folder: Path, zone: str) -> App:
    app = App(spark, name="zones", timezone=zone, max_window="3 days")
    kinds = cast("dict[str, generator.Rows]", generator.KINDS)
    for stream, kind in STREAMS.items():
        kinds[kind] = generator.Rows(f"n INT, k INT, at {kind}", lambda *_: pa.table({}))
        options = {"rows": kind, "limit": 0}
        app.stream(stream, format="generator", options=options, time="at", watermark="1 minute")
    schema = "n INT, at TIMESTAMP"
    app.stream(
        "texts", format="json", schema=schema, path=str(folder), time="at", watermark="1 day"
    )
    return app


def texts(folder: Path, zone: str) -> Path:
    """Local times as JSON, without a time zone."""
    folder.mkdir()
    stamps = rows("p", zone)["at"].to_pylist()
    lines = [json.dumps({"n": n, "at": f"{at:%Y-%m-%dT%H:%M:%S}"}) for n, at in enumerate(stamps)]
    (folder / "1.json").write_text("\n".join(lines))
    return folder


def batch(spark: SparkSession, folder: Path, zone: str) -> dict[str, Counter[str]]:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    for stream, kind in STREAMS.items():
        data: Any = rows(stream, zone)
        session.createDataFrame(data, f"n INT, k INT, at {kind}").createOrReplaceTempView(stream)
    session.read.schema("n INT, at TIMESTAMP").json(str(folder)).createOrReplaceTempView("texts")
    utc = {name: session.sql(sql).toArrow() for name, sql in QUERIES.items()}
    return {name: bag(in_utc(table)) for name, table in utc.items()}


def in_utc(table: pa.Table) -> pa.Table:
    """The same instants, as Daybreak gives them."""
    utc = [
        f.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(f.type) and f.type.tz is not None
        else f
        for f in table.schema
    ]
    return table.cast(pa.schema(utc))


LONG = [pytest.param(zone, marks=pytest.mark.soak) for zone in ("UTC", "Asia/Tokyo")]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", *LONG])
def test_in_every_time_zone_the_rows_are_those_of_the_batch(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    """With and without a time zone, on days with 23, 24 and 25 hours."""
    folder = texts(tmp_path / "in", zone)
    app = declare(spark, folder, zone)
    for name, sql in QUERIES.items():
        app.query(name, sql=sql)
    with app.run("stride", run_dir=tmp_path / "run") as run:
        # Cut where a band that took days for 24 hours would close, and where it would begin.
        for k, (first, last) in enumerate(pairwise([0, 20, 39, 54])):
            for stream in STREAMS:
                part = rows(stream, zone).slice(first, last - first)
                found = run.parts.storage.store.append(
                    stream, "by-hand", k, [0, 0], part, time.time_ns()
                )
                assert found is not None
                run.parts.scheduling.arrivals.on_segment(found)
            run.drain(flush=last == 54)
    assert run.failures == {}
    expected = batch(spark, folder, zone)
    for name in QUERIES:
        assert bag(run.rows(name)) == expected[name], name
        assert expected[name], name
    assert run.report().manifest["timezone"] == zone
    assert timezone_of(spark) == "UTC", "the user's session is as it was"
    elsewhere = declare(spark, folder, "Asia/Kolkata")
    elsewhere.query("rows", sql=QUERIES["rows"])
    with pytest.raises(ConfigError, match=f'made in time zone {zone!r}.*timezone = "{zone}"'):
        elsewhere.run("stride", run_dir=tmp_path / "run")


MIXED = {
    f"SELECT x.n FROM a x JOIN p y ON y.at BETWEEN x.at - {FAR} AND x.at + {FAR}": "joins",
    f"SELECT x.n FROM a x JOIN p y ON y.at BETWEEN CAST(x.at AS TIMESTAMP_NTZ) - {FAR} "
    f"AND CAST(x.at AS TIMESTAMP_NTZ) + {FAR}": "joins",
    "SELECT x.n FROM a x JOIN p y ON window(x.at, '1 hour') = window(y.at, '1 hour')": "joins",
    "SELECT x.n FROM (SELECT n, window(at, '1 hour').end AS e FROM a) x JOIN "
    "(SELECT n, window(at, '1 hour').end AS e FROM p) y ON x.e = y.e": "joins",
    "SELECT window.end AS e, count(*) AS c FROM (SELECT at FROM a UNION ALL SELECT at FROM p) "
    "GROUP BY window(at, '1 hour')": "unites",
}
CAST = {
    "SELECT window.end AS e, count(*) AS c FROM (SELECT CAST(at AS TIMESTAMP) AS at FROM p) "
    "GROUP BY window(at, '1 hour')": "no stream's event time",
    "SELECT window.end AS e, count(*) AS c FROM a "
    "GROUP BY window(CAST(at AS TIMESTAMP_NTZ), '1 hour')": "no stream's event time",
    f"SELECT x.n FROM p x JOIN q y ON y.at BETWEEN CAST(x.at AS TIMESTAMP) - {FAR} "
    f"AND CAST(x.at AS TIMESTAMP) + {FAR}": "joins streams 'p' and 'q'",
}


@pytest.mark.parametrize(("sql", "finding"), [*MIXED.items(), *CAST.items()])
def test_instants_and_local_times_are_not_compared(
    spark: SparkSession, tmp_path: Path, sql: str, finding: str
) -> None:
    app = declare(spark, texts(tmp_path / "in", "Asia/Tokyo"), "Asia/Tokyo")
    app.query("q", sql=sql)
    with pytest.raises(ConfigError, match=finding) as caught:
        app.check()
    if sql in MIXED:
        assert "'a', whose event time is a TIMESTAMP, and stream 'p'" in caught.value.finding
        assert "as TIMESTAMP in the schemas" in caught.value.remedy


def test_a_cast_to_the_type_a_time_has_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    app = declare(spark, texts(tmp_path / "in", "Asia/Tokyo"), "Asia/Tokyo")
    grouped = (
        "SELECT window.end AS e, count(*) AS c FROM {} GROUP BY window(CAST(at AS {}), '1 hour')"
    )
    app.query("instants", sql=grouped.format("a", "TIMESTAMP"))
    app.query("local", sql=grouped.format("p", "TIMESTAMP_NTZ"))
    assert {q.kind for q in app.check().checked.values()} == {"window"}


def test_a_time_zone_that_nobody_knows_is_refused(spark: SparkSession) -> None:
    app = App(spark, name="zones", timezone="Europe/Berln")
    app.stream("readings", format="generator")
    app.query("q", sql="SELECT reading FROM readings")
    with pytest.raises(
        ConfigError, match=r"timezone 'Europe/Berln' .*did you mean 'Europe/Berlin'"
    ):
        app.check()
