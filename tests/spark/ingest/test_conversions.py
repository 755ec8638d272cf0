"""A stream goes from a StreamingQuery to direct reads and back: nothing lost, nothing twice.

Killed in between, it goes on in either way.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.dataset as ds
import pytest
from tests.spark.ingest.direct_app import answered, application, arrive
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.ingest.direct import checkpoints
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.segments import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Way = Literal["direct", "spark"]


class Killed(BaseException):
    """Stands for the end of the process."""


def run(spark: SparkSession, folder: Path, way: Way, **declared: Any) -> None:
    """A start, until all that is there is answered."""
    app = application(spark, folder, ingest=way, **declared)
    with app.run("fcfs", run_dir=folder / "run", limits=Limits(retries=0)) as started:
        started.drain()
        checkpoint = folder / "run/checkpoints/r"
        position = started.parts.storage.log.position("r")
        assert (checkpoint / "metadata").exists() == (way == "spark")
        assert (position is not None) == (way == "direct")


def batches(folder: Path) -> list[int]:
    """The batches whose segments are kept."""
    log = CommitLog(folder / "run/state.db")
    found = [segment.batch_id for segment in log.segments("r")]
    log.close()
    return found


def test_files_are_read_once_over_every_change_of_way(spark: SparkSession, tmp_path: Path) -> None:
    ways: list[Way] = ["spark", "spark", "direct", "direct", "spark", "direct", "spark"]
    last = []
    for number, way in enumerate(ways):
        arrive(tmp_path, f"{number} %41 é日 a=1+b&c,d;e@f!'(x)", 2 * number, 2 * number + 1)
        run(spark, tmp_path, way)
        last += batches(tmp_path)[-1:]
    assert answered(tmp_path) == list(range(2 * len(ways)))
    assert last == sorted(set(last)), "no batch has the number of another"


def test_a_stream_without_rows_changes_its_way_too(spark: SparkSession, tmp_path: Path) -> None:
    ways: list[Way] = ["spark", "direct", "spark", "direct"]
    for way in ways:
        run(spark, tmp_path, way)
    arrive(tmp_path, "a", 1)
    run(spark, tmp_path, "spark")
    assert answered(tmp_path) == [1]


@pytest.mark.parametrize("then", ["direct", "spark"])
@pytest.mark.parametrize(
    ("first", "where"),
    [
        ("spark", (CommitLog, "begin_position")),
        ("spark", (checkpoints, "_set_aside")),
        ("direct", (CommitLog, "end_position")),
        ("direct", (checkpoints, "move_durably")),
        ("direct", (checkpoints, "sync_files")),
    ],
)
def test_a_kill_amid_a_change_leaves_what_either_way_can_finish(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Way, then: Way,
    where: tuple[Any, str],
) -> None:  # fmt: skip
    for number in range(3):
        arrive(tmp_path, str(number), number)
        run(spark, tmp_path, first)

    def kill(*_given: Any) -> None:
        raise Killed

    other: Way = "spark" if first == "direct" else "direct"
    with monkeypatch.context() as killing:
        killing.setattr(*where, kill)
        with pytest.raises(Killed):
            run(spark, tmp_path, other)
    arrive(tmp_path, "3", 3)
    ways: list[Way] = [then, "direct", "spark"]
    for way in ways:
        run(spark, tmp_path, way)
    assert answered(tmp_path) == [0, 1, 2, 3]


def test_a_batch_whose_rows_are_in_the_log_is_done(spark: SparkSession, tmp_path: Path) -> None:
    """Killed before Spark has written that it is."""
    for number in range(2):
        arrive(tmp_path, str(number), number)
        run(spark, tmp_path, "spark")
    checkpoint = tmp_path / "run/checkpoints/r"
    newest = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    run(spark, tmp_path, "direct")
    assert answered(tmp_path) == [0, 1]


def test_a_batch_that_was_only_planned_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path, "0", 0)
    run(spark, tmp_path, "spark")
    arrive(tmp_path, "1", 1)

    def fails(*_given: Any, **_named: Any) -> None:
        raise ValueError("killed")

    with monkeypatch.context() as failing:
        failing.setattr(SegmentStore, "append", fails)
        with pytest.raises(ConfigError, match="killed"):
            run(spark, tmp_path, "spark")
    offsets = {path.name for path in (tmp_path / "run/checkpoints/r/offsets").glob("[0-9]*")}
    assert {"0", "1"} <= offsets
    run(spark, tmp_path, "direct")
    assert answered(tmp_path) == [0, 1]


def test_malformed_records_are_kept_once_over_changes_of_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    ways: list[Way] = ["spark", "direct", "direct", "spark"]
    for number, way in enumerate(ways):
        application(spark, tmp_path)
        (tmp_path / f"in/{number}.json").write_text(f'{{"n": {number}}}\nbad {number}\n')
        run(spark, tmp_path, way)
    kept = ds.dataset(tmp_path / "run/dead/r").to_table()["record"].to_pylist()
    assert sorted(kept) == ["bad 0", "bad 1", "bad 2", "bad 3"]
    assert answered(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("format", ["rate", "rate-micro-batch"])
def test_offsets_go_on_where_they_were(
    spark: SparkSession, tmp_path: Path, format: str  # noqa: A002
) -> None:  # fmt: skip
    options = {"rowsPerSecond": 5} if format == "rate" else {"rowsPerBatch": 5}
    ways: list[Way] = ["spark", "direct", "spark", "direct"]
    ends = [0]
    for way in ways:
        app = App(spark, name="offsets", folder=tmp_path)
        app.stream("r", format=format, options=options, ingest=way)
        app.query("all", sql="SELECT value AS n FROM r", sink={"format": "json", "path": "out"})
        with app.run("fcfs", run_dir=tmp_path / "run", limits=Limits(retries=0)):
            until(lambda: len(answered(tmp_path)) > ends[-1], "rows come")
        ends.append(len(answered(tmp_path)))
    assert answered(tmp_path) == list(range(ends[-1]))


def test_another_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path, "0", 0)
    run(spark, tmp_path, "direct")
    (tmp_path / "other").mkdir()
    for declared in ({"path": "other"}, {"format": "csv"}):
        with pytest.raises(ConfigError, match=r"was read from 'json .*in' so far"):
            run(spark, tmp_path, "direct", **declared)
    run(spark, tmp_path, "direct")


def test_a_checkpoint_from_elsewhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path, "0", 0)
    run(spark, tmp_path, "direct")
    checkpoint = tmp_path / "run/checkpoints/r"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": "another"}))
    ways: list[Way] = ["direct", "spark"]
    for way in ways:
        with pytest.raises(ConfigError, match=r"is another checkpoint \(another\); move it away"):
            run(spark, tmp_path, way)


@pytest.mark.parametrize("way", ["direct", "auto"])
def test_a_checkpoint_that_is_gone_is_refused(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    arrive(tmp_path, "0", 0)
    run(spark, tmp_path, "spark")
    shutil.rmtree(tmp_path / "run/checkpoints/r")
    with pytest.raises(ConfigError, match="which was deleted or replaced"):
        run(spark, tmp_path, way)


@pytest.mark.parametrize(
    ("path", "options"),
    [("in", {"recursiveFileLookup": "true"}), ("file://{}/in/*/x*", {}), ("file://{}/in/sub", {})],
    ids=["recursive", "pattern", "uri"],
)
def test_files_beyond_one_folder_are_read_once_over_changes_of_way(
    spark: SparkSession, tmp_path: Path, path: str, options: dict[str, str]
) -> None:
    (tmp_path / "in/sub").mkdir(parents=True)
    ways: list[Way] = ["direct", "spark", "direct"]
    for number, way in enumerate(ways):
        made = arrive(tmp_path, f"x {number} é=1", number)
        made.rename(tmp_path / "in/sub" / made.name)
        run(spark, tmp_path, way, path=path.format(tmp_path), options=options)
    assert answered(tmp_path) == list(range(len(ways)))
