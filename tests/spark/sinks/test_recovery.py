"""After a crash each result is delivered, orphaned or lost, by what the log says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.sinks.staging import READERS, TABLE, commit, make, visible

from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.sinks.delivery import ResultMissing, bring, recover
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.memory import MemorySink


def test_recovery_delivers_what_is_listed_and_deletes_what_is_not(
    tmp_path: Path, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = {
        "fire": make(tmp_path, "parquet"),
        "watch": make(tmp_path, "memory", "watch"),
        "gone": make(tmp_path, "json", "gone"),
    }
    listed = [commit(log, sink) for sink in sinks.values()]
    moved = commit(log, sinks["fire"])
    sinks["fire"].deliver(moved)  # and died before saying so
    with monkeypatch.context() as patched:
        patched.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
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
    assert len(visible(tmp_path)) == 2
    memory = sinks["watch"]
    assert isinstance(memory, MemorySink)
    found = memory.table()
    assert found is not None
    assert found.equals(TABLE)

    again = recover(log, sinks)
    assert (again.delivered, again.taken, again.removed) == ([], [], [])


@pytest.mark.parametrize("format", ["parquet", "json", "memory"])
@pytest.mark.parametrize("lost", ["not delivered", "delivered", "delivered and torn"])
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


@pytest.mark.parametrize("format", ["parquet", "json", "console", "memory", "python"])
@pytest.mark.parametrize("staged", [False, True], ids=["held", "and staged"])
def test_a_result_that_the_log_holds_is_delivered_by_the_next_process(
    tmp_path: Path,
    format: str,  # noqa: A002
    staged: bool,
) -> None:
    """Committed, not delivered, the process died. Earlier versions staged a file as well."""
    log = CommitLog(tmp_path / "state.db", boot="first")
    file = commit(log, make(tmp_path, format))
    log.close()
    if staged:
        file.path.parent.mkdir(parents=True)
        file.path.write_bytes(file.content or b"")

    again = CommitLog(tmp_path / "state.db", boot="first")
    got: list[pa.Table] = []
    spec = SinkSpec(format=format, path="out/fire" if format in READERS else None)
    sink = make_sink(
        "fire", spec, tmp_path, tmp_path / "staging", callback=lambda table, _: got.append(table)
    )
    outcome = recover(again, {"fire": sink})
    assert [f.id for f in outcome.delivered] == [file.id]
    assert (outcome.taken, outcome.missing, again.undelivered()) == ([], [], [])
    assert not file.path.exists()
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


@pytest.mark.parametrize("now", ["json", "memory", "moved", "linked"])
def test_a_result_is_never_delivered_to_another_sink_than_it_was_staged_for(
    tmp_path: Path, log: CommitLog, now: str
) -> None:
    """A query that is declared with another sink than before, or with the same by a link."""
    file = commit(log, make(tmp_path, "parquet"))
    if now in ("moved", "linked"):
        (tmp_path / "out").mkdir()
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
    assert log.undelivered()[0].content == file.content


def test_an_orphan_in_a_folder_that_another_query_has_now_is_kept(
    tmp_path: Path, log: CommitLog
) -> None:
    file = commit(log, make(tmp_path, "parquet"))
    spec = SinkSpec(format="parquet", path="out/fire")
    heir = make_sink("heir", spec, tmp_path, tmp_path / "staging")
    assert recover(log, {"heir": heir}).orphaned == [file]
    assert log.undelivered()[0].content == file.content
