"""Every sink: staged out of sight, delivered once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.sinks.staging import READERS, TABLE, commit, make, visible

from daybreak.model import EngineBug
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.calls import CallbackSink, SinkTimeout
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.memory import MemorySink


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
    assert (visible(tmp_path), list(sink.staged())) == ([], [file.path])
    assert sink.deliver(file)
    assert visible(tmp_path) == [tmp_path / "out" / "fire" / f"{file.job}-fire.{format}"]
    assert READERS[format](visible(tmp_path)[0]).equals(TABLE)
    assert list(sink.staged()) == []
    assert not sink.deliver(file)
    assert len(visible(tmp_path)) == 1


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "console", "memory", "python"])
def test_no_rows_no_file(tmp_path: Path, format: str) -> None:  # noqa: A002
    sink = make(tmp_path, format)
    assert not sink.stage("j", TABLE.slice(0, 0))
    assert list(sink.staged()) == []


def test_a_job_id_used_twice_is_noticed_not_overwritten(tmp_path: Path) -> None:
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


def test_memory_keeps_rows_in_order_of_delivery(tmp_path: Path, log: CommitLog) -> None:
    sink = make(tmp_path, "memory")
    assert isinstance(sink, MemorySink)
    assert sink.table() is None
    first, second = commit(log, sink, TABLE.slice(0, 1)), commit(log, sink, TABLE.slice(1))
    for file in (first, second, first):
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
    assert not sink.deliver(file)
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
    pq.write_table(TABLE, old)
    file.path.unlink()
    assert sink.deliver(replace(file, path=old))
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
