"""Queries and streams of any name: they run, or they are refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.model import Arrivals, ConfigError
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = [
    "it's", 'a "name"', "a.b", "a/b", "a\\b", "..", ".", "ünï 😀", "SELECT", "a;b", "-- x", "a`b",
    " lead", "two\nlines", "%41", "A", "a", "#1", "view x", "__mask0", "null", "x" * 120,
]  # fmt: skip
#: Names that were ours once, or look like it.
INSIDE = ["#closed", "q#panes", "__paned", "__partials", "__anchors_readings", "rows"]
COUNTED = (
    "SELECT window.end AS e, count(*) AS n FROM {} GROUP BY window(at, '4 minutes', '2 minutes')"
)
ROWS = 30


def test_a_query_of_any_name_gives_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Filters, and aggregates with partials of their own, to files under the query's name."""
    app = App(spark, name="names", folder=tmp_path)
    arrivals = Arrivals(rate_per_s=1000)
    app.stream(
        "readings",
        format="generator",
        options={"limit": ROWS},
        arrivals=arrivals,
        time="at",
        watermark="1 hour",
    )
    for number, name in enumerate(NAMES):
        sql = COUNTED.format("readings") if number % 2 else "SELECT reading FROM readings"
        app.query(name, sql=sql)
    with app.run("stride", run_dir=tmp_path / "run") as run:
        run.drain(flush=True)
    assert run.failures == {}
    for number, name in enumerate(NAMES):
        found = run.rows(name)
        assert found is not None, name
        rows = sum(found["n"].to_pylist()) // 2 if number % 2 else found.num_rows
        assert rows == ROWS, name


def test_no_name_of_a_stream_collides_with_ours(spark: SparkSession) -> None:
    """What runs under such names is in ``test_positions``."""
    app = App(spark, name="names")
    for name in INSIDE:
        app.stream(name, format="generator", time="at")
        app.query(f"of {name}", sql=COUNTED.format(f"`{name}`"))
    assert len(app.check().checked) == len(INSIDE)
    app.stream("\x1fanchors of rows", format="generator")
    with pytest.raises(ConfigError, match="has a control character in its name"):
        app.check()


def test_a_stream_cannot_have_a_column_that_is_used_inside(
    spark: SparkSession, tmp_path: Path
) -> None:
    for schema, finding in (
        ("n INT, _Arrival_NS BIGINT", "_arrival_ns, which is ours"),
        ("n INT, i STRUCT<m: INTERVAL YEAR TO MONTH>", "'i'.*a segment cannot hold.*STRING"),
        ("n INT, v ARRAY<VARIANT>", "'v'.*a segment cannot hold.*STRING"),
    ):
        app = App(spark, name="columns")
        app.stream("s", format="json", schema=schema, path=str(tmp_path))
        app.query("q", sql="SELECT n FROM s")
        with pytest.raises(ConfigError, match=finding):
            app.check()
