"""Windows, panes and views that a start leaves out continue where they were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.windows.logs import Log, S, bag, batch, declare, feed, sliding, tumbling_late

from daybreak.spark.app import App
from daybreak.spark.sql.forms import PanedAggregate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "SELECT window.end AS e, k, count(*) AS n, sum(v) AS s FROM a GROUP BY window(at, '{}'), k"
QUERIES = {
    "tumbling": COUNTS.format("10 seconds"),
    "panes": COUNTS.format("10 seconds', '2 seconds"),
    "over": "SELECT n FROM large",
    "filter": "SELECT n FROM a",
}


def test_windows_panes_and_views_that_were_left_out_miss_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log.random(11)
    segments = [s for s in log.segments() if s[0] == "a"]
    third = len(segments) // 3
    parts = [segments[:third], segments[third : 2 * third], segments[2 * third :]]

    def app(*names: str) -> App:
        made = declare(spark)
        if "over" in names:
            made.view("large", sql="SELECT n FROM a WHERE v > 10")
        for name in names:
            made.query(name, sql=QUERIES[name], cls="low")
        return made

    assert isinstance(app(*QUERIES).check().checked["panes"].form, PanedAggregate)
    found: dict[str, Counter[str]] = {name: Counter() for name in QUERIES}
    for part, names in zip(parts, (QUERIES, ["filter"], QUERIES), strict=True):
        with app(*names).run("fcfs", run_dir=tmp_path / "run") as run:
            feed(run, part)
            run.drain(flush=part is parts[2])
            for name in names:
                found[name] += bag(run.rows(name))
            if "over" not in names:
                assert run.parts.control.status.undeclared.until.keys() == {
                    "over",
                    "panes",
                    "tumbling",
                    "view large",
                }
        assert not run.failures

    rows = [row for made in log.streams["a"] for row in made]
    assert found["filter"] == bag([{"n": row["n"]} for row in rows])
    assert found["over"] == bag([{"n": row["n"]} for row in rows if row["v"] > 10])
    in_time = log.in_time("a", tumbling_late(10 * S))
    assert found["tumbling"] == batch(spark, QUERIES["tumbling"], {"a": in_time})
    assert found["panes"] == sliding(log.streams["a"], log, "a", 10 * S, 2 * S)
