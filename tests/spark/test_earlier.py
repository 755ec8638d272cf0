"""A run directory that an earlier version left is continued on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.runtime.earlier import PACKED, ROWS, application, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("packed", PACKED, ids=[p.name.removesuffix(".tar.gz") for p in PACKED])
def test_an_earlier_run_continues_where_it_stopped(
    packed: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Rows that waited, partial aggregates and rows that come now: each counts once."""
    earlier, more = unpacked(packed, tmp_path), ROWS + 10
    with application(spark, tmp_path, more).run("stride", run_dir=earlier) as run:
        run.resume("even")
        run.drain(timeout_s=60, flush=True)
        assert run.rows("all")["reading"].to_pylist() == list(range(ROWS, more))
        assert sorted(run.rows("even")["reading"].to_pylist()) == list(range(0, more, 2))
        # Every row is in two windows, which overlap by half.
        assert sum(run.rows("counts")["n"].to_pylist()) == 2 * more
