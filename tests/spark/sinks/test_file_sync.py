"""Delivered files are made durable together, and only then does the log forget them."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path

import pytest
from tests.spark.sinks.staging import commit, make, visible

from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.sinks.file_sync import FileSyncer


def test_what_a_sink_has_taken_is_noted_before_it_is_durable(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, syncing, may_sync = make(tmp_path, "memory"), threading.Event(), threading.Event()

    def slow(_paths: object) -> None:
        syncing.set()
        assert may_sync.wait(30)

    monkeypatch.setattr("daybreak.spark.sinks.delivery.sync_files", slow)
    syncer = FileSyncer(log, {"fire": sink})
    files = [commit(log, sink) for _ in range(2)]
    for file in files:
        sink.deliver(file)
        syncer.add(file)
    assert syncing.wait(30)
    assert [file.place for file in log.undelivered()] == ["moved"] * 2
    assert syncer.held() == {file.id for file in files}, "nobody delivers them again meanwhile"
    may_sync.set()
    syncer.close()
    assert syncer.held() == frozenset()


def test_delivered_files_are_synced_together_and_the_log_forgets_them(
    tmp_path: Path, log: CommitLog
) -> None:
    sink = make(tmp_path, "parquet")
    syncer = FileSyncer(log, {"fire": sink})
    files = [commit(log, sink) for _ in range(3)]
    for file in files:
        sink.deliver(file)
        syncer.add(file)
    visible(tmp_path)[0].unlink()  # a reader was quick
    syncer.close()
    assert syncer.failure is None
    assert log.undelivered() == []


def test_a_disk_that_takes_nothing_is_told_and_nothing_is_forgotten(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make(tmp_path, "parquet")
    syncer = FileSyncer(log, {"fire": sink})
    file = commit(log, sink)
    sink.deliver(file)

    def broken(_paths: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("daybreak.spark.sinks.delivery.sync_files", broken)
    syncer.add(file)
    syncer.close()
    assert isinstance(syncer.failure, OSError)
    assert log.undelivered() == [file]


def test_a_disk_that_stays_full_does_not_hold_up_the_end(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make(tmp_path, "parquet")
    tried = threading.Event()

    def full(_paths: object) -> None:
        tried.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("daybreak.spark.sinks.delivery.sync_files", full)
    syncer = FileSyncer(log, {"fire": sink})
    file = commit(log, sink)
    sink.deliver(file)
    syncer.add(file)
    assert tried.wait(30)
    syncer.close()
    assert syncer.failure is None
    assert log.undelivered() == [file], "the next start delivers it"


def test_a_folder_that_a_reader_took_away_is_no_failure(tmp_path: Path, log: CommitLog) -> None:
    sink = make(tmp_path, "parquet")
    syncer = FileSyncer(log, {"fire": sink})
    file = commit(log, sink)
    sink.deliver(file)
    shutil.rmtree(tmp_path / "out")
    syncer.add(file)
    syncer.close()
    assert syncer.failure is None
    assert log.undelivered() == []
