"""Every sink: staged out of sight, delivered once."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.spark.sinks.staging import READERS, TABLE, commit, make, visible

from daybreak.model import EngineBug
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.calls import CallbackSink, SinkTimeout
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.delivery import recover
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.sink import Sink


@pytest.mark.parametrize("format", sorted(READERS))
def test_a_file_appears_only_by_delivery_and_only_once(
    tmp_path: Path,
    log: CommitLog,
    format: str,  # noqa: A002
) -> None:
    sink = make(tmp_path, format)
    assert sink.exactly_once
    file = commit(log, sink)
    assert file.path.parent == tmp_path / "out" / "fire" / "_staging"
    assert (visible(tmp_path), list(sink.staged())) == ([], []), "the log alone has it"
    assert sink.deliver(file)
    assert visible(tmp_path) == [tmp_path / "out" / "fire" / f"{file.job}-fire.{format}"]
    assert READERS[format](visible(tmp_path)[0]).equals(TABLE)
    assert list(sink.staged()) == []
    assert sink.deliver(file), "the same content at the same place"
    assert len(visible(tmp_path)) == 1


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "console", "memory", "python"])
def test_no_rows_no_file(tmp_path: Path, format: str) -> None:  # noqa: A002
    sink = make(tmp_path, format)
    assert not sink.stage("j", TABLE.slice(0, 0))
    assert list(sink.staged()) == []


def test_a_job_id_used_twice_is_noticed_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a file that the log does not hold; of others the log itself refuses a second commit."""
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    sink = make(tmp_path, "parquet")
    for number, table in enumerate((TABLE, TABLE.slice(1))):
        [staged] = sink.stage("j", table)
        file = CommittedFile(number, "j", "fire", staged.path, staged.rows)
        if number == 0:
            assert sink.deliver(file)
        else:
            with pytest.raises(EngineBug, match="job id j was used twice"):
                sink.deliver(file)
    assert pq.read_table(visible(tmp_path)[0], partitioning=None).equals(TABLE)


@pytest.mark.parametrize("by", [(), ("t",)], ids=["flat", "partitioned"])
def test_a_file_appears_whole_wherever_its_delivery_was_cut_short(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch, by: tuple[str, ...]
) -> None:
    """A kill, or a driver that is suspended while another one takes over."""
    sink = make_partitioned(tmp_path, by)
    job = log.new_job()
    files = log.commit(job, [], sink.stage(job, TABLE))
    rename = os.rename

    def killed(_source: str, _target: Path) -> None:
        raise KeyboardInterrupt

    for file in files:
        monkeypatch.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.deliver(file)
        monkeypatch.setattr(os, "rename", rename)
    assert len(list(sink.staged())) == len(files), "what was written lies where no reader looks"
    assert not [p for p in (tmp_path / "out").rglob("*.parquet") if "_staging" not in p.parts]
    assert recover(log, {"fire": sink}).delivered == files
    assert list(sink.staged()) == []
    found = ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table()
    assert sorted(found["station"].to_pylist(), key=str) == ["", None, "a"]


def test_a_full_disk_leaves_no_part_of_a_file(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make(tmp_path, "parquet")
    file = commit(log, sink)
    write, room = os.write, [10]

    def short(handle: int, content: memoryview) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(handle, content[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space left"):
        sink.deliver(file)
    assert list(sink.staged()) == []
    room[0] = 10**6
    assert sink.deliver(file)
    assert READERS["parquet"](visible(tmp_path)[0]).equals(TABLE)


def test_a_driver_that_was_replaced_does_not_deliver_again_what_was_swept(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended before the rename; the other one delivers the file, and a reader takes it."""
    sink = make(tmp_path, "parquet")
    file = commit(log, sink)
    rename = os.rename

    def suspended(source: str, target: Path) -> None:
        monkeypatch.setattr(os, "rename", rename)
        assert recover(log, {"fire": make(tmp_path, "parquet")}).delivered == [file]
        visible(tmp_path)[0].unlink()
        rename(source, target)

    monkeypatch.setattr(os, "rename", suspended)
    with pytest.raises(FileNotFoundError):
        sink.deliver(file)
    assert visible(tmp_path) == []


def make_partitioned(tmp_path: Path, by: tuple[str, ...]) -> Sink:
    spec = SinkSpec(format="parquet", path="out", partition_by=by)
    return make_sink("fire", spec, tmp_path, tmp_path / "staging")


def test_memory_keeps_rows_in_order_of_delivery(tmp_path: Path, log: CommitLog) -> None:
    sink = make(tmp_path, "memory")
    assert isinstance(sink, MemorySink)
    assert sink.table() is None
    first, second = commit(log, sink, TABLE.slice(0, 1)), commit(log, sink, TABLE.slice(1))
    for file in (first, second):
        sink.deliver(file)
    found = sink.table()
    assert found is not None
    assert found.equals(TABLE)


def test_a_callback_is_given_rows_and_a_key_and_again_if_it_failed(
    tmp_path: Path, log: CommitLog
) -> None:
    calls: list[tuple[pa.Table, str]] = []

    def unreliable(table: pa.Table, key: str) -> None:
        calls.append((table, key))
        if len(calls) == 1:
            raise OSError("the receiver is down")

    sink = make_sink(
        "fire", SinkSpec(format="python"), tmp_path, tmp_path / "staging", callback=unreliable
    )
    assert not sink.exactly_once
    file = commit(log, sink)
    with pytest.raises(OSError, match="down"):
        sink.deliver(file)
    assert sink.deliver(file)
    assert [key for _, key in calls] == [f"{file.job}/fire"] * 2
    assert all(table.equals(TABLE) for table, _ in calls)


def test_a_callback_that_hangs_is_left_behind_and_not_called_again_before_it_returns(
    tmp_path: Path, log: CommitLog
) -> None:
    may_end, calls = threading.Event(), list[str]()

    def hangs(_table: pa.Table, key: str) -> None:
        calls.append(key)
        assert may_end.wait(30)

    stuck = CallbackSink("fire", tmp_path / "staging", hangs, limit_s=0.05)
    well = CallbackSink("smoke", tmp_path / "staging", lambda _, key: calls.append(key), 30.0)
    file = commit(log, stuck)
    with pytest.raises(SinkTimeout, match="longer than"):
        stuck.deliver(file)
    with pytest.raises(SinkTimeout, match="not returned"):
        stuck.deliver(file)
    other = commit(log, well)
    assert well.deliver(other), "the thread that delivers has another one to call functions with"
    may_end.set()
    assert calls == [f"{file.job}/fire", f"{other.job}/smoke"]


def test_a_result_staged_as_parquet_is_still_delivered(tmp_path: Path, log: CommitLog) -> None:
    """Earlier run directories may hold such files."""
    sink = make(tmp_path, "memory")
    file = commit(log, sink)
    old = file.path.with_suffix(".parquet")
    old.parent.mkdir(parents=True)
    pq.write_table(TABLE, old)
    assert sink.deliver(replace(file, path=old, content=None))
    assert isinstance(sink, MemorySink)
    found = sink.table()
    assert found is not None
    assert found.equals(TABLE)
    assert not old.exists()


def test_the_console_shows_rows_up_to_a_limit(tmp_path: Path, log: CommitLog) -> None:
    lines: list[str] = []
    sink = ConsoleSink("fire", tmp_path / "staging", most=2, show=lines.append)
    sink.deliver(commit(log, sink))
    assert lines == [
        "fire: station=a t=41",
        "fire: station=null t=38",
        "fire: ... and 1 more rows",
    ]


def test_large_results_are_durable_files_and_not_in_the_log(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    sink = make(tmp_path, "parquet")
    file = commit(log, sink)
    assert file.content is None
    assert sink.deliver(file)
    assert READERS["parquet"](visible(tmp_path)[0]).equals(TABLE)


@pytest.mark.parametrize(("rows", "encoded"), [(999, False), (1000, True)])
def test_small_parquet_files_spare_the_dictionary(
    tmp_path: Path, log: CommitLog, rows: int, encoded: bool
) -> None:
    sink = make(tmp_path, "parquet")
    table = pa.table({"station": ["a"] * rows, "t": pa.array([1] * rows, pa.int32())})
    sink.deliver(commit(log, sink, table))
    found = pq.ParquetFile(visible(tmp_path)[0])
    column = found.metadata.row_group(0).column(0)
    assert column.has_dictionary_page == encoded
    assert found.read().equals(table)
