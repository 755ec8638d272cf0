"""A store belongs to one log, and a folder where nothing is mounted is not taken for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from daybreak.model import ConfigError
from daybreak.model.storage import check_log, check_store
from daybreak.spark.failures import LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.data_store import MARKER
from daybreak.spark.log.opening import open_log
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore


def opened(root: Path, store: Path) -> tuple[RunDirectory, CommitLog]:
    rundir = RunDirectory.open(root, "app", store=store)
    try:
        return rundir, open_log(None, rundir, None, 1.0, print)
    except BaseException:
        rundir.close()
        raise


def refused(root: Path, store: Path) -> str:
    with pytest.raises(ConfigError) as told:
        opened(root, store)
    return str(told.value)


def test_what_is_large_lies_in_the_store_and_the_rest_in_the_run_directory(tmp_path: Path) -> None:
    rundir, log = opened(tmp_path / "run", tmp_path / "store")
    segments = SegmentStore(rundir, log, small_bytes=0)
    table = pa.table({"n": [1, 2, 3]})
    segment = segments.append("r", "c", 0, {}, table, 1)
    assert segment is not None
    assert (tmp_path / "store/segments" / segment.file).is_file()
    assert rundir.checkpoint("r") == tmp_path / "store/checkpoints/r"
    assert rundir.staging == tmp_path / "store/staging"
    assert not (tmp_path / "run/segments").exists()
    log.close()
    rundir.close()


def test_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    store, run = tmp_path / "share/app", tmp_path / "run"
    assert "share is not there; mount it, or correct store in [app]" in refused(run, store)
    store.parent.mkdir()
    rundir, log = opened(run, store)
    log.register_query("q", "1", {"r": Cursor(0, 0)})
    log.close()
    rundir.close()
    away = store.rename(tmp_path / "away")
    assert f"has no {MARKER}, but {run}/state.db lists data" in refused(run, store)
    assert not store.exists(), "nothing is left where nothing was mounted"
    assert "holds the data of another log" in refused(tmp_path / "other", away)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/theirs.txt").touch()
    assert f"holds 'theirs.txt' and no {MARKER}" in refused(run, tmp_path / "full")
    (tmp_path / "file").touch()
    assert "cannot be used (Not a directory)" in refused(run, tmp_path / "file")


def test_nothing_is_written_to_a_store_that_vanished(tmp_path: Path) -> None:
    rundir, log = opened(tmp_path / "run", tmp_path / "store")
    segments = SegmentStore(rundir, log, small_bytes=0)
    away = (tmp_path / "store").rename(tmp_path / "away")
    assert "is out of reach" in (rundir.store.trouble() or "")
    with pytest.raises(LogUnavailable):
        segments.confirm()
    rundir.store.stop_waiting()
    with pytest.raises(LogUnavailable):
        segments.append("r", "c", 0, {}, pa.table({"n": [1]}), 1)
    assert not (tmp_path / "store").exists()
    away.rename(tmp_path / "store")
    segments.confirm()
    assert segments.append("r", "c", 0, {}, pa.table({"n": [1]}), 1) is not None
    log.close()
    rundir.close()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("sqlite:///x.db", "log has scheme 'sqlite'"),
        ("state.db", "log has no scheme"),
        ("postgresql://me:pa@ss@host/db", "a character that ends it"),
        ("postgresql://me:pa#ss@host/db", "a character that ends it"),
        ("postgresql://me:pa/ss@host/db", "a character that ends it"),
        ("postgresql://me:pa?ss@host/db", "a character that ends it"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(text: str, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding) as told:
        check_log(text, "p.toml:2: [app]")
    assert str(told.value).startswith("p.toml:2: [app]: ")
    assert "ss" not in str(told.value).replace("password", "").replace("address", "")


def test_a_store_is_a_folder(tmp_path: Path) -> None:
    assert check_store("file:///shared/a%20b", tmp_path, "p") == Path("/shared/a b")
    assert check_store("data", tmp_path, "p") == tmp_path / "data"
    for text in ("s3://bucket/app", "file://host/app", "file:"):
        with pytest.raises(ConfigError, match="store"):
            check_store(text, tmp_path, "p")
