"""Every sink: staged out of sight, delivered once, recovered by what the log says."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from daybreak.model import ConfigError, EngineBug
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.calls import CallbackSink, SinkTimeout
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.delivery import ResultMissing, bring, recover
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sinks.text_formats import write_csv, write_json_lines

TABLE = pa.table({"station": ["a", None, ""], "t": pa.array([41, 38, None], pa.int32())})
READERS: dict[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "json": lambda path: pa.Table.from_pylist(
        [json.loads(line) for line in path.read_text().splitlines()], schema=TABLE.schema
    ),
    "csv": lambda path: pa_csv.read_csv(
        path,
        convert_options=pa_csv.ConvertOptions(
            column_types=TABLE.schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    ),
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    opened = CommitLog(tmp_path / "state.db")
    yield opened
    opened.close()


def make(tmp_path: Path, format: str, query: str = "fire", **options: str) -> Sink:  # noqa: A002
    path = f"out/{query}" if format in READERS else None
    spec = SinkSpec(format=format, path=path, options=options)
    return make_sink(query, spec, tmp_path, tmp_path / "staging", callback=lambda table, key: None)


def commit(log: CommitLog, sink: Sink, table: pa.Table = TABLE) -> CommittedFile:
    job = log.new_job()
    [file] = log.commit(job, [], sink.stage(job, table))
    return file


def visible(tmp_path: Path) -> list[Path]:
    return sorted(p for p in (tmp_path / "out" / "fire").glob("*") if p.is_file())


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


def test_recovery_delivers_what_is_listed_and_deletes_what_is_not(
    tmp_path: Path, log: CommitLog
) -> None:
    sinks = {
        "fire": make(tmp_path, "parquet"),
        "watch": make(tmp_path, "memory", "watch"),
        "gone": make(tmp_path, "json", "gone"),
    }
    listed = [commit(log, sink) for sink in sinks.values()]
    moved = commit(log, sinks["fire"])
    sinks["fire"].deliver(moved)  # and died before saying so
    unlisted = [file for s in sinks.values() for file in s.stage(log.new_job(), TABLE)]
    foreign = tmp_path / "out" / "fire" / "_staging" / "0123abcd-0001-00000001-fire.parquet"
    foreign.write_bytes(b"another run directory's")
    del sinks["gone"]

    outcome = recover(log, sinks)
    assert [file.query for file in outcome.delivered] == ["fire", "watch"]
    assert outcome.taken == [moved]
    assert outcome.orphaned == [listed[2]]
    assert outcome.removed == [file.path for file in unlisted[:2] if file]
    assert log.undelivered() == [listed[2]]
    assert foreign.exists()
    assert listed[2].path.exists()
    assert len(visible(tmp_path)) == 2
    memory = sinks["watch"]
    assert isinstance(memory, MemorySink)
    found = memory.table()
    assert found is not None
    assert found.equals(TABLE)

    again = recover(log, sinks)
    assert (again.delivered, again.taken, again.removed) == ([], [], [])


@pytest.mark.parametrize("format", ["parquet", "json", "memory"])
@pytest.mark.parametrize("lost", ["staged", "torn", "delivered", "delivered and torn"])
def test_what_a_crash_of_the_machine_lost_is_written_again(
    tmp_path: Path,
    format: str,  # noqa: A002
    lost: str,
) -> None:
    log = CommitLog(tmp_path / "state.db", boot="first")
    sink = make(tmp_path, format)
    file = commit(log, sink)
    log.close()
    target = tmp_path / "out" / "fire" / file.path.name
    if lost.startswith("delivered") and format != "memory":
        sink.deliver(file)
        target.write_bytes(b"PAR") if lost.endswith("torn") else target.unlink()
    elif lost == "torn":
        file.path.write_bytes(b"PAR")
    else:
        file.path.unlink()

    again = CommitLog(tmp_path / "state.db", boot="second")
    sink = make(tmp_path, format)
    assert [f.id for f in recover(again, {"fire": sink}).delivered] == [file.id]
    assert again.undelivered() == []
    again.close()
    if isinstance(sink, MemorySink):
        assert sink.table() == TABLE
    else:
        assert READERS[format](target).equals(TABLE)


def test_a_file_taken_by_a_reader_is_not_delivered_again(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "state.db", boot="first")
    sink = make(tmp_path, "parquet")
    file = commit(log, sink)
    sink.deliver(file)
    log.note_moved([file.id])
    visible(tmp_path)[0].unlink()
    log.close()
    again = CommitLog(tmp_path / "state.db", boot="first")
    assert [f.id for f in recover(again, {"fire": sink}).taken] == [file.id]
    assert visible(tmp_path) == []
    again.close()


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


@pytest.mark.parametrize("format", ["parquet", "json", "console", "memory", "python"])
@pytest.mark.parametrize("tidied", ["the file", "the folder"])
def test_a_result_whose_staged_file_was_tidied_away_is_restored_from_the_log(
    tmp_path: Path,
    format: str,  # noqa: A002
    tidied: str,
) -> None:
    """Committed, not delivered, the process died: no reboot, and somebody cleaned up."""
    log = CommitLog(tmp_path / "state.db", boot="first")
    file = commit(log, make(tmp_path, format))
    log.close()
    file.path.unlink()
    if tidied == "the folder":
        file.path.parent.rmdir()

    again = CommitLog(tmp_path / "state.db", boot="first")
    got: list[pa.Table] = []
    spec = SinkSpec(format=format, path="out/fire" if format in READERS else None)
    sink = make_sink(
        "fire", spec, tmp_path, tmp_path / "staging", callback=lambda table, _: got.append(table)
    )
    outcome = recover(again, {"fire": sink})
    assert [f.id for f in outcome.delivered] == [file.id]
    assert (outcome.taken, outcome.missing, again.undelivered()) == ([], [], [])
    again.close()
    if format in READERS:
        got = [READERS[format](tmp_path / "out/fire" / file.path.name)]
    elif isinstance(sink, MemorySink):
        got = [table for table in [sink.table()] if table is not None]
    assert got == [TABLE] or format == "console"


def test_a_result_that_is_nowhere_to_be_found_is_recorded_as_lost(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    sinks = {"fire": make(tmp_path, "parquet"), "watch": make(tmp_path, "memory", "watch")}
    gone, kept = [commit(log, sinks[query]) for query in ("fire", "watch")], []
    kept.append(commit(log, sinks["fire"]))
    for file in gone:
        assert file.content is None
        file.path.unlink()
        with pytest.raises(ResultMissing, match="its 3 rows are lost"):
            bring(sinks[file.query], file)
    outcome = recover(log, sinks)
    assert (outcome.missing, outcome.taken, outcome.delivered) == (gone, [], kept)
    assert log.losses() == {"fire": {"missing": 3}, "watch": {"missing": 3}}
    assert log.undelivered() == []
    again = recover(log, sinks)
    assert again.missing == [], "it is reported once"


def test_after_a_crash_of_the_machine_a_start_that_fails_leaves_recovery_to_the_next(
    tmp_path: Path,
) -> None:
    log = CommitLog(tmp_path / "state.db", boot="first")
    sinks = {"fire": make(tmp_path, "parquet"), "gone": make(tmp_path, "json", "gone")}
    files = [commit(log, sink) for sink in sinks.values()]
    log.close()
    for file in files:
        file.path.write_bytes(b"torn")
    CommitLog(tmp_path / "state.db", boot="second").close()  # refused, before it recovers

    again = CommitLog(tmp_path / "state.db", boot="second")
    outcome = recover(again, {"fire": sinks["fire"]})
    assert (outcome.delivered, outcome.orphaned) == (files[:1], files[1:])
    assert READERS["parquet"](visible(tmp_path)[0]).equals(TABLE)
    again.close()

    declared = CommitLog(tmp_path / "state.db", boot="second")  # and it is declared again
    assert recover(declared, sinks).delivered == files[1:]
    assert READERS["json"](tmp_path / "out/gone" / files[1].path.name).equals(TABLE)
    declared.close()


def test_large_results_are_durable_files_and_not_in_the_log(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    sink = make(tmp_path, "parquet")
    file = commit(log, sink)
    assert file.content is None
    assert sink.deliver(file)
    assert READERS["parquet"](visible(tmp_path)[0]).equals(TABLE)


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


@pytest.mark.parametrize("now", ["json", "memory", "moved", "linked"])
def test_a_result_is_never_delivered_to_another_sink_than_it_was_staged_for(
    tmp_path: Path, log: CommitLog, now: str
) -> None:
    """A query that is declared with another sink than before, or with the same by a link."""
    file = commit(log, make(tmp_path, "parquet"))
    if now in ("moved", "linked"):
        (tmp_path / "link").symlink_to(tmp_path / "out")
        path = "elsewhere/fire" if now == "moved" else "link/fire"
        spec = SinkSpec(format="parquet", path=path)
        sink = make_sink("fire", spec, tmp_path, tmp_path / "staging")
    else:
        sink = make(tmp_path, now)
    outcome = recover(log, {"fire": sink})
    if now == "linked":
        assert (outcome.delivered, outcome.orphaned) == ([file], [])
        return
    assert (outcome.delivered, outcome.orphaned) == ([], [file])
    assert file.path.exists()
    assert log.undelivered() == [file]


def test_what_a_dropped_query_committed_is_not_for_a_new_one_of_its_name(
    tmp_path: Path, log: CommitLog
) -> None:
    log.register_query("fire", "1", {})
    file = commit(log, make(tmp_path, "memory"))
    log.drop_query("fire")
    log.disown("fire")
    log.register_query("fire", "2", {})
    sink = make(tmp_path, "memory")
    assert isinstance(sink, MemorySink)
    outcome = recover(log, {"fire": sink})
    assert [o.path for o in outcome.orphaned] == [file.path]
    assert sink.table() is None
    assert file.path.exists()


def test_an_orphan_in_a_folder_that_another_query_has_now_is_kept(
    tmp_path: Path, log: CommitLog
) -> None:
    file = commit(log, make(tmp_path, "parquet"))
    spec = SinkSpec(format="parquet", path="out/fire")
    heir = make_sink("heir", spec, tmp_path, tmp_path / "staging")
    assert recover(log, {"heir": heir}).orphaned == [file]
    assert file.path.exists()


@pytest.mark.parametrize(
    ("spec", "finding"),
    [
        (SinkSpec(format="parqet", path="x"), "unknown format 'parqet'; did you mean 'parquet'"),
        (SinkSpec(format="parquet"), "path is missing"),
        (SinkSpec(format="console", path="x"), "console sink has no path"),
        (SinkSpec(format="json", path="x", options={"gzip": "1"}), "unknown option 'gzip' of json"),
        (SinkSpec(format="csv", path="x", options={"heder": "1"}), "did you mean 'header'"),
        (SinkSpec(format="csv", path="x", options={"delimiter": "||"}), "one ASCII character"),
        (SinkSpec(format="csv", path="x", options={"header": "yes"}), "header 'yes'"),
        (SinkSpec(format="parquet", path="x", options={"compression": "zip"}), "'zip'.*gzip"),
        (SinkSpec(format="console", options={"rows": "-1"}), "whole number"),
        (SinkSpec(format="parquet", path="s3://bucket/x"), "not on a file system"),
        (SinkSpec(format="parquet", path="a-file"), "a-file is not a folder"),
        (SinkSpec(format="parquet", path="a-file/below"), "a-file is not a folder"),
        (SinkSpec(format="python"), "has no function"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, spec: SinkSpec, finding: str
) -> None:
    (tmp_path / "a-file").write_text("x")
    with pytest.raises(ConfigError, match=rf"p\.toml:3: sink: .*{finding}"):
        make_sink("fire", spec, tmp_path, tmp_path / "staging", place="p.toml:3")
    assert [p.name for p in tmp_path.iterdir()] == ["a-file"]


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.geteuid() == 0:  # root may write anywhere: give the answer a user would get
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)
    with pytest.raises(ConfigError, match="locked cannot be written to"):
        make_sink(
            "fire", SinkSpec(format="csv", path="locked/deep/x"), tmp_path, tmp_path / "staging"
        )


@pytest.mark.parametrize("name", ["n" * 201, "é" * 34], ids=["long", "long in a file name"])
def test_a_name_that_no_file_can_have_is_refused_when_it_is_declared(
    tmp_path: Path, name: str
) -> None:
    spec = SinkSpec(format="parquet", path="out")
    with pytest.raises(ConfigError, match=r"its name takes 20[14] bytes .* more than 200; shorten"):
        make_sink(name, spec, tmp_path, tmp_path / "staging")


@pytest.mark.parametrize("format", ["parquet", "memory"])
def test_the_longest_name_can_be_delivered(tmp_path: Path, format: str) -> None:  # noqa: A002
    path = "out" if format == "parquet" else None
    name = "n" * 200
    sink = make_sink(name, SinkSpec(format=format, path=path), tmp_path, tmp_path / "staging")
    large = pa.table({"n": pa.array(range(200_000)).cast(pa.string())})  # synced as a .partial
    [staged] = sink.stage("01234567-9999-99999999", large)
    assert sink.deliver(CommittedFile(1, "j", name, staged.path, staged.rows, staged.content))


def test_declaring_a_sink_writes_nothing(tmp_path: Path) -> None:
    for format in ("parquet", "json", "csv", "console", "memory"):  # noqa: A001
        make(tmp_path, format)
    assert list(tmp_path.iterdir()) == []


RICH: dict[str, tuple[pa.DataType, Any, Any]] = {
    "at": (
        pa.timestamp("us", "Europe/Paris"),
        datetime(2026, 1, 1, 12, 0, 0, 5, UTC),
        "2026-01-01T12:00:00.000005Z",
    ),
    "local": (pa.timestamp("us"), datetime(2026, 1, 1, 12), "2026-01-01T12:00:00"),  # noqa: DTZ001
    "day": (pa.date32(), date(2026, 1, 2), "2026-01-02"),
    "for": (pa.duration("us"), timedelta(seconds=90, milliseconds=5), "PT90.005S"),
    "money": (pa.decimal128(20, 2), Decimal("-1.50"), "-1.50"),
    "raw": (pa.binary(), b"\x00", "AA=="),
    "nan": (pa.float64(), float("nan"), "NaN"),
    "list": (pa.list_(pa.date32()), [date(2026, 1, 2), None], ["2026-01-02", None]),
    "map": (pa.map_(pa.int32(), pa.string()), [(1, "é")], {"1": "é"}),
    "struct": (pa.struct({"x": pa.float64()}), {"x": float("-inf")}, {"x": "-Infinity"}),
}


def rich() -> pa.Table:
    columns = {name: pa.array([value, None], kind) for name, (kind, value, _) in RICH.items()}
    return pa.table({"n": [1, None], **columns})


def test_json_lines_have_iso_times_nulls_and_nested_values() -> None:
    file = io.BytesIO()
    write_json_lines(rich(), file)
    first, second = (json.loads(line) for line in file.getvalue().decode().splitlines())
    assert first == {"n": 1, **{name: shown for name, (_, _, shown) in RICH.items()}}
    assert second == dict.fromkeys(["n", *RICH])


def test_csv_has_iso_times_empty_nulls_and_nested_values_as_json() -> None:
    file = io.BytesIO()
    write_csv(rich(), file, header=False, delimiter=";")
    first, second = file.getvalue().decode().splitlines()
    for name, (kind, _, shown) in RICH.items():
        text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
        quoted = '"' + text.replace('"', '""') + '"'
        assert ("nan" if kind == pa.float64() else quoted) in first, name
    assert second == ";" * len(RICH)


#: Far beyond what Python's datetime holds, as microseconds since 1970, and as text.
FAR = {
    253_402_300_800_000_000: "+10000-01-01T00:00:00",
    -62_135_596_800_000_001: "0000-12-31T23:59:59.999999",
    -62_198_755_200_000_000: "-0001-01-01T00:00:00",
    9_223_372_036_854_775_807: "+294247-01-10T04:00:54.775807",
    -9_223_372_036_854_775_808: "-290308-12-21T19:59:05.224192",
    951_782_400_000_000: "2000-02-29T00:00:00",
}


def test_an_instant_that_python_cannot_hold_reaches_every_text_sink(tmp_path: Path) -> None:
    numbers, texts = pa.array(FAR, pa.int64()), list(FAR.values())
    days = pa.array([2_932_897, -719_528], pa.int32()).cast(pa.date32())
    table = pa.table(
        {
            "at": numbers.cast(pa.timestamp("us", "UTC")),
            "local": numbers.cast(pa.timestamp("us")),
            "all": pa.array([[], None] + [list(FAR)] * 4, pa.list_(pa.int64())).cast(
                pa.list_(pa.timestamp("us"))
            ),
            "day": pa.concat_arrays([days, pa.nulls(4, pa.date32())]),
        }
    )
    file = io.BytesIO()
    write_json_lines(table, file)
    rows = [json.loads(line) for line in file.getvalue().decode().splitlines()]
    assert [row["at"] for row in rows] == [f"{text}Z" for text in texts]
    assert [row["local"] for row in rows] == texts
    assert [row["all"] for row in rows] == [[], None, texts, texts, texts, texts]
    assert [row["day"] for row in rows[:3]] == ["+10000-01-01", "0000-01-01", None]
    file = io.BytesIO()
    write_csv(table, file, header=False, delimiter=",")
    assert file.getvalue().decode().startswith(f'"{texts[0]}Z","{texts[0]}","[]","+10000-01-01"\n')
    shown: list[str] = []
    console = ConsoleSink("far", tmp_path, show=shown.append)
    deliver(console, table.slice(1, 1))
    assert shown == [f"far: at={texts[1]}Z local={texts[1]} all=null day=0000-01-01"]


def test_a_map_with_structs_or_arrays_for_keys_reaches_every_text_sink(tmp_path: Path) -> None:
    pair = pa.struct({"x": pa.int32(), "at": pa.timestamp("us", "UTC")})
    entries = [
        ({"x": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "a"),
        ({"x": None, "at": None}, None),
    ]
    table = pa.table(
        {
            "by_struct": pa.array([[], entries, None], pa.map_(pair, pa.string())),
            "by_list": pa.array(
                [[], [([1, 2], 3)], None], pa.map_(pa.list_(pa.int32()), pa.int32())
            ),
        }
    ).slice(1)  # what lies before a slice is no part of it
    by_struct = {'{"x": 1, "at": "2026-01-01T00:00:00Z"}': "a", '{"x": null, "at": null}': None}
    file = io.BytesIO()
    write_json_lines(table, file)
    first, second = (json.loads(line) for line in file.getvalue().decode().splitlines())
    assert first == {"by_struct": by_struct, "by_list": {"[1, 2]": 3}}
    assert second == {"by_struct": None, "by_list": None}
    file = io.BytesIO()
    write_csv(table, file, header=False, delimiter=",")
    first_cell = next(csv.reader(io.StringIO(file.getvalue().decode())))[0]
    assert json.loads(first_cell) == by_struct
    shown: list[str] = []
    deliver(ConsoleSink("maps", tmp_path, show=shown.append), table)
    assert shown[1] == "maps: by_struct=null by_list=null"


def deliver(sink: ConsoleSink, table: pa.Table) -> None:
    [staged] = sink.stage("job", table)
    sink.deliver(CommittedFile(1, "job", staged.query, staged.path, staged.rows, staged.content))
