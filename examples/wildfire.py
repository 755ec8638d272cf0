"""Wildfire watch: about fifty continuous queries of unequal importance in one Spark application.

Weather stations in twelve districts report temperature, humidity and wind. Twelve fire alarms
must answer within a second, twenty-four district watches within a few, and an archive keeps
everything, signed for each of those who may ask for it, whenever. Over windows of event time:
neighbouring stations that are hot together, and district averages, computed once for the archive
and for those who watch the heat. A burst comes in the middle. The same burst is met twice: by a
policy that knows the classes, and by round-robin, which does not.

    python examples/wildfire.py [--policy planned] [--seconds 20] [--out runs/wildfire]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from itertools import product
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import daybreak
from daybreak.cli.console import console
from daybreak.cli.watch import Watch
from daybreak.model import Arrivals, ConfigError, Phase
from daybreak.report.classes import treatment_table
from daybreak.report.run import class_table, comparison_table, plot_runs
from daybreak.report.text import table
from daybreak.runtime.report import RunReport
from daybreak.spark.sinks.sink import Callback

DISTRICTS = range(12)
#: McArthur's forest fire danger index, for a drought factor of 7.
DANGER = "2 * exp(-0.45 + 0.987 * ln(7) - 0.0345 * humidity + 0.0338 * temperature + 0.0234 * wind)"
#: Who is sent the archive, each reading signed with a key of their own.
KEEPERS = ("state", "insurers", "research")
SEAL = "sha2(concat('{keeper}', to_json(struct(*))), 256)"
#: Readings by which the machine's capacity is measured, and how often at most.
WARM, FEW, MANY, TRIES = 5_000, 100_000, 1_000_000, 6
#: Share of that capacity that readings need before and after the burst, and during it.
CALM, BURST = 0.35, 2.0


def application(
    spark: SparkSession,
    arrivals: Arrivals,
    limit: int | None = None,
    on_fire: Callback | None = None,
) -> daybreak.App:
    """What arrives, what is asked of it, and how much each answer matters."""
    app = daybreak.App(spark, name="wildfire")
    app.query_class("alarm", 60, qos=[[0, 1.0], [0.5, 1.0], [1.5, 0.0]])
    app.query_class("watch", 30, qos=[[0, 1.0], [2.0, 1.0], [5.0, 0.0]])
    app.query_class("archive", 10, qos=[[0, 1.0], [10.0, 1.0], [30.0, 0.0]])
    options = {"rows": "stations", "seed": 1} | ({"limit": limit} if limit else {})
    app.stream(
        "readings", format="generator", options=options, arrivals=arrivals, time="at",
        idle_timeout="1 second",
    )  # fmt: skip
    for d in DISTRICTS:
        app.query(
            f"fire-{d}",
            sql=f"SELECT station, temperature, humidity, wind, at FROM readings "
            f"WHERE district = {d} AND temperature > 40 AND humidity < 20",
            cls="alarm",
            sink=on_fire,
        )
        app.query(
            f"danger-{d}",
            sql=f"SELECT station, {DANGER} AS danger, at FROM readings "
            f"WHERE district = {d} AND {DANGER} > 12",
            cls="watch",
        )
        app.query(
            f"windy-{d}",
            sql=f"SELECT station, wind * 1.852D AS kmh, at FROM readings "
            f"WHERE district = {d} AND wind > 60",
            cls="watch",
        )
    windowed(app, on_fire)
    seasons = (("frost", -50, 0), ("mild", 0, 25), ("hot", 25, 100))
    for (season, low, high), keeper in product(seasons, KEEPERS):
        app.query(
            f"archive-{season}-{keeper}",
            sql=f"SELECT *, {SEAL.format(keeper=keeper)} AS seal FROM readings "
            f"WHERE temperature >= {low} AND temperature < {high}",
            cls="archive",
        )
    return app


def windowed(app: daybreak.App, on_fire: Callback | None) -> None:
    """Queries over windows: a join of neighbours, and two levels of views with their readers."""
    app.query(
        "neighbours",
        sql="SELECT x.station, y.station AS neighbour, x.temperature, x.at FROM readings x "
        "JOIN readings y ON x.district = y.district AND y.station = x.station + 1 "
        "AND x.temperature > 40 AND y.temperature > 40 "
        "AND window(x.at, '1 second') = window(y.at, '1 second')",
        cls="alarm",
        sink=on_fire,
    )
    app.view(
        "averages",
        sql="SELECT window.end AS until, district, avg(temperature) AS mean, count(*) AS readings "
        "FROM readings GROUP BY window(at, '2 seconds'), district",
    )
    app.view("warm", sql="SELECT until, district, mean FROM averages WHERE mean > 20")
    app.query("averages-kept", sql="SELECT * FROM averages", cls="archive")
    app.query("heat", sql="SELECT district, mean FROM warm WHERE mean > 25", cls="watch")
    app.query("warm-kept", sql="SELECT * FROM warm", cls="archive")


def calibrate(spark: SparkSession, out: Path) -> float:
    """Readings per second that keep the machine busy, ingest and every query together.

    From the time that many readings take over that of few: what a run spends once, whatever
    arrives, is not in it. Java compiles what runs often while it runs, so it is measured until it
    no longer becomes faster.
    """

    def seconds(rows: int) -> float:
        app = application(spark, Arrivals(rate_per_s=1e6), limit=rows)
        with app.run("round-robin", run_dir=out / "calibration") as run:
            began = time.monotonic()
            run.drain()
            took_s = time.monotonic() - began
        shutil.rmtree(out / "calibration")
        return took_s

    found = faster = 0.0
    seconds(WARM)
    few_s = seconds(FEW)
    for _ in range(TRIES):
        many_s = seconds(MANY)
        faster = (MANY - FEW) / max(many_s - few_s, many_s / 2)
        if faster < 1.1 * found:
            break
        found, few_s = faster, min(few_s, seconds(FEW))
    return max(found, faster)


def watch(
    app: daybreak.App, policy: str, seconds: float, folder: Path, fires: list[str]
) -> tuple[RunReport, bool]:
    """One run with a live view; half-way through, an operator raises the watches."""
    with app.run(policy, run_dir=folder) as run:
        view = Watch(run, f"wildfire under {policy}")
        told, raised = -5.0, False

        def each(elapsed: float) -> None:
            nonlocal told, raised
            if fires and elapsed - told >= 5:  # one of them now and then, as it happens
                view.note(fires[-1])
                told = elapsed
            if not raised and elapsed > seconds * 0.7:
                raised = True
                run.change_class_priority("watch", 50)
                view.note(f"{elapsed:.0f} s: class watch raised from 30 to 50 while it runs")

        finished = view.until(lambda elapsed: elapsed >= seconds, each)
    return run.report(), finished


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", default="planned", help="the policy to set beside round-robin")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each of two runs")
    parser.add_argument("--out", type=Path, default=Path("runs/wildfire"), help="where files go")
    args = parser.parse_args()
    to = console()
    to.print("starting Spark, measuring what this machine can do (up to a minute) ...")
    spark = daybreak.App.local("wildfire").spark
    shutil.rmtree(args.out, ignore_errors=True)
    capacity = calibrate(spark, args.out)
    calm, burst = args.seconds * 0.35, args.seconds * 0.25
    arrivals = Arrivals(
        rate_per_s=capacity,
        phases=(
            Phase(CALM, duration_s=calm), Phase(BURST, duration_s=burst),
            Phase(CALM, duration_s=args.seconds),
        ),
    )  # fmt: skip
    to.print(
        f"49 queries; {capacity * CALM:,.0f} readings/s, from {calm:.0f} s to "
        f"{calm + burst:.0f} s {capacity * BURST:,.0f} readings/s: more than they can take"
    )
    reports: dict[str, RunReport] = {}
    for policy in (args.policy, "round-robin"):
        fires: list[str] = []

        def on_fire(rows: pa.Table, _key: str, fires: list[str] = fires) -> None:
            for row in rows.to_pylist():
                late = time.time() - row["at"].timestamp()
                fires.append(
                    f"FIRE at station {row['station']}: {row['temperature']} degrees, told "
                    f"{late:.2f} s after the reading"
                )

        app = application(spark, arrivals, on_fire=on_fire)
        reports[policy], finished = watch(app, policy, args.seconds, args.out / policy, fires)
        if not finished:
            break
    for policy, report in reports.items():
        to.print(table(class_table(report), title=f"under {policy}"))
        to.print(table(treatment_table(report)))
    to.print(table(comparison_table(reports), title="the same burst under each"))
    for policy in reports:
        to.print(f"report: {args.out / policy / 'record'}")
    to.print(f"picture: {plot_runs(reports, args.out / 'comparison.png')}")
    to.print(
        f"next: daybreak whatif {args.out / args.policy} --policy fcfs\n"
        "      daybreak init my-project; daybreak policies; docs/tutorial.md"
    )
    spark.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.exit(f"error: {error}")
