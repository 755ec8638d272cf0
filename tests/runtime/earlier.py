"""A run directory as an earlier version left it, and how to keep one more.

``python -m tests.runtime.earlier`` packs one of the present version into ``tests/runtime/data``,
as ``layout-N-record-M.tar.gz``. Do so before either number changes, and leave those that are
there: users have such directories.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from daybreak.model import Arrivals
from daybreak.runtime.report import FORMAT
from daybreak.spark.log.rundir import LAYOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.app import App

DATA = Path(__file__).parent / "data"
PACKED = sorted(DATA.glob("layout-*-record-*.tar.gz"))
#: Rows that its starts ingested.
ROWS = 40
#: What belongs to one process alone.
_TRANSIENT = ("lock", "scratch", "control.sock")


def application(spark: SparkSession, folder: Path, rows: int) -> App:
    """A filter, windows over panes, and a query that is paused and has rows to read."""
    from daybreak.spark.app import App

    app = App(spark, name="earlier", folder=folder)
    app.query_class("high", 5)
    app.query_class("low", 1)
    app.stream(
        "readings",
        format="generator",
        options={"limit": rows},
        arrivals=Arrivals(rate_per_s=400),
        time="at",
    )
    app.query("all", sql="SELECT reading FROM readings", cls="high")
    app.query("even", sql="SELECT reading FROM readings WHERE reading % 2 = 0", cls="low")
    counts = (
        "SELECT window.end AS till, count(*) AS n FROM readings "
        "GROUP BY window(at, '20 minutes', '10 minutes')"
    )
    app.query("counts", sql=counts, cls="low")
    return app


def unpacked(packed: Path, folder: Path) -> Path:
    """The run directory, where tests may change it."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / "run"


def make(spark: SparkSession, folder: Path) -> Path:
    """Two starts, which leave unread rows and windows that are still open."""
    run_dir = folder / "run"
    with application(spark, folder, ROWS // 2).run("stride", run_dir=run_dir) as run:
        run.pause("even")
        run.drain(timeout_s=60)
    with application(spark, folder, ROWS).run("stride", run_dir=run_dir) as run:
        run.drain(timeout_s=60)
    for name in _TRANSIENT:
        path = run_dir / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return run_dir


def main() -> None:
    from daybreak.spark.session import local_session

    with tempfile.TemporaryDirectory() as folder:
        run_dir = make(local_session("earlier", cores=2), Path(folder))
        DATA.mkdir(exist_ok=True)
        target = DATA / f"layout-{LAYOUT}-record-{FORMAT}.tar.gz"
        with tarfile.open(target, "w:gz") as archive:
            archive.add(run_dir, "run")


if __name__ == "__main__":
    main()
