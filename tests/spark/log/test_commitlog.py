"""Cursors move only with their results, never twice, and survive every reopening."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.spark.log.conftest import OpenLog

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import (
    NO_BATCH,
    Batches,
    BatchMove,
    CommittedFile,
    Cursor,
    CursorMove,
    Move,
    PartialRows,
    PartialsMove,
    Progress,
    ProgressMove,
    SegmentRow,
    StagedFile,
)

pytestmark = pytest.mark.slow

START = Cursor(0, 0)
_machines = count()


def segment(stream: str, seq: int, batch_id: int | None = None) -> SegmentRow:
    return SegmentRow(
        stream=stream,
        seq=seq,
        checkpoint_id="c",
        batch_id=seq if batch_id is None else batch_id,
        offsets="{}",
        rows=10,
        bytes=100,
        arrival_ns=5,
        file=f"{stream}/{seq}",
    )


def test_sqlite_is_durable_in_the_way_it_says(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "state.db")
    assert log.database.rows("PRAGMA journal_mode") == [("wal",)]
    assert log.database.rows("PRAGMA synchronous") == [(2,)]  # FULL
    log.close()


def test_a_power_cut_at_any_write_leaves_no_result_without_its_rows(tmp_path: Path) -> None:
    """A segment does not wait for the disk; what follows it in the log does, and for both."""
    log = CommitLog(tmp_path / "state.db")
    log.register_query("hot", "v1", {"r": START})
    log.settle()
    log.add_segment(segment("r", 0), b"rows" * 3000)
    assert log.database.rows("PRAGMA synchronous") == [(2,)]  # FULL again
    log.commit("j", [CursorMove("hot", "r", START, Cursor(1, 0))], [])
    database, written = (tmp_path / "state.db").read_bytes(), (tmp_path / "state.db-wal")
    frames = written.read_bytes()
    log.close()
    size = 24 + int.from_bytes(frames[8:12], "big")
    found = []
    for cut in range(32, len(frames) + 1, size):
        after = tmp_path / f"cut-{cut}"
        after.mkdir()
        (after / "state.db").write_bytes(database)
        (after / "state.db-wal").write_bytes(frames[:cut])
        again = CommitLog(after / "state.db")
        has_rows = bool(again.segments("r"))
        has_result = again.cursors()["hot", "r"] == Cursor(1, 0)
        assert has_rows or not has_result, cut
        found.append((has_rows, has_result))
        again.close()
    assert set(found) == {(False, False), (True, False), (True, True)}
    assert len(found) > 5


def test_segments_are_found_by_place_and_by_batch(log: CommitLog) -> None:
    for seq in (2, 0, 1):
        log.add_segment(segment("r", seq, batch_id=seq + 7))
    log.add_segment(segment("q", 0))
    assert [s.seq for s in log.segments("r")] == [0, 1, 2]
    assert log.segments("r", 2) == [segment("r", 2, batch_id=9)]
    assert [(s.stream, s.seq) for s in log.segments()] == [("q", 0), ("r", 0), ("r", 1), ("r", 2)]
    assert log.find_batch("r", "c", 8) == segment("r", 1, batch_id=8)
    assert log.find_batch("r", "other", 8) is None
    log.forget_segments("r", 2)
    assert [s.seq for s in log.segments("r")] == [2]
    with pytest.raises(EngineBug):
        log.add_segment(segment("r", 3, batch_id=9))


def test_a_query_goes_on_where_it_was_unless_it_changed(log: CommitLog) -> None:
    assert log.register_query("fire", "v1", {"r": START})
    log.commit(log.new_job(), [CursorMove("fire", "r", START, Cursor(3, 4))], [])
    assert not log.register_query("fire", "v1", {"r": Cursor(9, 0)})
    assert log.cursors() == {("fire", "r"): Cursor(3, 4)}
    for fingerprint, streams in (("v2", {"r": START}), ("v1", {"r": START, "q": START})):
        with pytest.raises(ConfigError, match=r"p\.toml:7: has changed SQL .*--reset-query fire"):
            log.register_query("fire", fingerprint, streams, place="p.toml:7")
    assert log.cursors() == {("fire", "r"): Cursor(3, 4)}
    assert log.register_query("fire", "v2", {"q": Cursor(5, 0)}, reset=True)
    assert log.cursors() == {("fire", "q"): Cursor(5, 0)}
    assert log.queries() == {"fire": "v2"}
    log.drop_query("fire")
    assert (log.queries(), log.cursors()) == ({}, {})


def paned(log: CommitLog, name: str = "q") -> None:
    log.register_query(name, "1", {"r": START}, Progress(-5, "way"))


def partials(first: int, end: int, *high_us: int, needed_us: int = 0) -> PartialsMove:
    added = tuple(PartialRows(us, b"%d" % us) for us in high_us)
    return PartialsMove("q", "r", first, end, added, needed_us)


def test_windows_are_emitted_once_and_in_one_transaction_with_rows_and_partials(
    log: CommitLog,
) -> None:
    paned(log)
    read = CursorMove("q", "r", START, Cursor(3, 0))
    first: list[Move] = [partials(0, 3, 10, 20), read, ProgressMove("q", -5, 10)]
    log.commit("j1", first, [])
    assert log.progress() == {"q": Progress(10, "way")}
    assert [log.partial_content(i) for i in log.partials("q")] == [b"10", b"20"]
    stale: list[list[Move]] = [
        [ProgressMove("q", -5, 10)],
        [ProgressMove("q", 10, 5)],
        [ProgressMove("q", 10, 20), ProgressMove("q", 10, 20)],
        [ProgressMove("unknown", 10, 20)],
        [CursorMove("q", "r", Cursor(3, 0), Cursor(4, 0)), ProgressMove("q", 0, 20)],
    ]
    for moves in stale:
        with pytest.raises(EngineBug, match="windows"):
            log.commit("j2", moves, [StagedFile("q", Path("f"), 1)])
    assert log.places("q") == {"r": Cursor(3, 0)}
    assert log.progress() == {"q": Progress(10, "way")}
    assert log.undelivered() == []


def test_micro_batches_are_committed_once_and_in_their_order(log: CommitLog) -> None:
    log.register_query("q", "1", {"r": START}, Batches(NO_BATCH))
    assert (log.batches(), log.progress()) == ({"q": NO_BATCH}, {})
    log.commit("j1", [BatchMove("q", NO_BATCH, 0), CursorMove("q", "r", *_step(0))], [])
    log.commit("j2", [BatchMove("q", 0, 3)], [])
    stale = ([BatchMove("q", 0, 4)], [BatchMove("q", 3, 3)], [BatchMove("unknown", 0, 4)],
             [BatchMove("q", 3, 4)] * 2)  # fmt: skip
    for moves in stale:
        with pytest.raises(EngineBug, match="micro-batch"):
            log.commit("j3", moves, [])
    assert not log.register_query("q", "1", {"r": START}, Batches(NO_BATCH))
    assert log.batches() == {"q": 3}, "a query that is known continues"
    log.drop_query("q")
    assert log.batches() == {}


def test_micro_batches_that_an_earlier_log_kept_as_windows_move_to_their_table(
    log: CommitLog,
) -> None:
    for name, kept in (("q", 7), ("new", -(2**62))):
        log.register_query(name, "1", {"r": START}, Progress(kept, ""))
        log.register_query(name, "1", {"r": START}, Batches(NO_BATCH))
    assert log.batches() == {"q": 7, "new": NO_BATCH}
    assert log.progress() == {}


def test_partials_continue_where_the_query_is_and_go_when_no_window_needs_them(
    log: CommitLog,
) -> None:
    paned(log)
    log.commit("j1", [partials(0, 3, 10, 20), CursorMove("q", "r", START, Cursor(3, 0))], [])
    for first in (0, 2, 4):
        with pytest.raises(EngineBug, match=f"would add partials of segments {first} to 4"):
            log.commit("j2", [partials(first, 5, 30)], [])
    after = CursorMove("q", "r", Cursor(3, 0), Cursor(5, 0))
    log.commit("j2", [partials(3, 5, 30, needed_us=10), after], [])
    assert [log.partial_content(i) for i in log.partials("q")] == [b"20", b"30"]
    # What stands for nothing that is kept: the cursor alone says where to continue.
    log.commit("j3", [partials(5, 6, needed_us=99), CursorMove("q", "r", *_step(5))], [])
    assert log.partials("q") == []
    with pytest.raises(EngineBug, match="partials of segments 5"):
        log.commit("j4", [partials(5, 6, 100)], [])


def _step(seq: int) -> tuple[Cursor, Cursor]:
    return Cursor(seq, 0), Cursor(seq + 1, 0)


@pytest.mark.parametrize("again", ["drop", "reset"])
def test_partials_go_with_their_query(log: CommitLog, again: str) -> None:
    paned(log)
    log.commit("j1", [partials(0, 1, 10), CursorMove("q", "r", *_step(0))], [])
    [old] = log.partials("q")
    if again == "drop":
        log.drop_query("q")
        assert (log.progress(), log.partials("q")) == ({}, [])
        paned(log)
    else:
        log.register_query("q", "2", {"r": START}, Progress(-5, "way"), reset=True)
    assert (log.progress(), log.partials("q")) == ({"q": Progress(-5, "way")}, [])
    log.commit("j2", [partials(0, 1, 10), CursorMove("q", "r", *_step(0))], [])
    assert log.partials("q") != [old], "an id is never used again"


def test_a_query_that_would_make_other_partials_is_refused_unless_reset(log: CommitLog) -> None:
    paned(log)
    assert not log.register_query("q", "1", {"r": START}, Progress(0, "way"))
    for other in (Progress(0, "another"), Progress(0, ""), None):
        with pytest.raises(ConfigError, match=r"p\.toml:7: makes other partial.*--reset-query q"):
            log.register_query("q", "1", {"r": START}, other, place="p.toml:7")
    assert log.register_query("q", "1", {"r": START}, Progress(0, ""), reset=True)
    assert log.progress() == {"q": Progress(0, "")}


def test_windows_that_are_given_up_are_recorded_as_windows(log: CommitLog) -> None:
    paned(log)
    read: Move = CursorMove("q", "r", START, Cursor(2, 0))
    log.give_up("full", [(ProgressMove("q", -5, 10), 7), (read, 0)])
    assert log.lost() == []
    [lost] = log.lost_windows()
    assert {k: lost[k] for k in ("query", "why", "after_us", "closed_us", "rows")} == {
        "query": "q", "why": "full", "after_us": -5, "closed_us": 10, "rows": 7,
    }  # fmt: skip
    assert log.losses() == {"q": {"full": 7}}
    assert log.places("q") == {"r": Cursor(2, 0)}


def test_low_water_is_the_slowest_reader(log: CommitLog) -> None:
    assert log.low_water("r") is None
    log.register_query("a", "1", {"r": Cursor(4, 9), "q": START})
    log.register_query("b", "1", {"r": Cursor(4, 2)})
    log.register_query("c", "1", {"r": Cursor(10, 0)})
    assert log.low_water("r") == Cursor(4, 2)
    log.drop_query("b")
    assert log.low_water("r") == Cursor(4, 9)


def test_a_commit_is_all_or_nothing(log: CommitLog) -> None:
    log.register_query("a", "1", {"r": START, "q": START})
    good = CursorMove("a", "r", START, Cursor(1, 0))
    stale = CursorMove("a", "q", Cursor(0, 3), Cursor(1, 0))
    with pytest.raises(EngineBug, match=r"from \(0, 3\) to \(1, 0\), but it is at \(0, 0\)"):
        log.commit("j1", [good, stale], [StagedFile("a", Path("f"), 1)])
    assert set(log.cursors().values()) == {START}
    assert log.undelivered() == []
    log.commit("j1", [good], [StagedFile("a", Path("f"), 1)])  # the id was not used up
    with pytest.raises(EngineBug, match="j1 is committed already"):
        log.commit("j1", [], [])


@pytest.mark.parametrize(
    "move",
    [
        CursorMove("a", "r", Cursor(1, 0), Cursor(2, 0)),
        CursorMove("a", "r", Cursor(0, 5), Cursor(0, 4)),
        CursorMove("a", "other", Cursor(0, 5), Cursor(1, 0)),
        CursorMove("other", "r", Cursor(0, 5), Cursor(1, 0)),
    ],
)
def test_a_cursor_that_is_elsewhere_does_not_move(log: CommitLog, move: CursorMove) -> None:
    log.register_query("a", "1", {"r": Cursor(0, 5)})
    with pytest.raises(EngineBug):
        log.commit(log.new_job(), [move], [])
    assert log.cursors() == {("a", "r"): Cursor(0, 5)}


def test_of_many_threads_that_commit_one_range_exactly_one_succeeds(log: CommitLog) -> None:
    log.register_query("a", "1", {"r": START})
    outcomes: list[str] = []

    def compete() -> None:
        for seq in range(20):
            job = log.new_job()
            move = CursorMove("a", "r", Cursor(seq, 0), Cursor(seq + 1, 0))
            try:
                log.commit(job, [move], [StagedFile("a", Path(job), seq)])
                outcomes.append(job)
            except EngineBug:
                pass

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each thread finds a range free only where all before it are taken, so all are tried.
    assert [file.rows for file in log.undelivered()] == list(range(len(outcomes)))
    assert log.cursors() == {("a", "r"): Cursor(len(outcomes), 0)}
    assert len(outcomes) == 20


def test_job_ids_are_never_used_again(open_log: OpenLog) -> None:
    seen: set[str] = set()
    for name in ("one", "one", "two"):
        log = open_log(name)
        jobs = [log.new_job() for _ in range(3)]
        assert all(job.startswith(log.id) for job in jobs)
        assert jobs == sorted(jobs)
        seen.update(jobs)
        log.close()
    assert len(seen) == 9


def test_old_commits_are_pruned_only_when_delivered(open_log: OpenLog) -> None:
    now = iter(range(100))
    log = open_log(clock_ns=lambda: next(now))
    kept, gone = (log.commit(j, [], [StagedFile("a", Path(j), 1)])[0] for j in ("j0", "j1"))
    log.mark_delivered([gone.id])
    log.commit("j2", [], [])
    log.prune(before_ns=2)
    assert log.undelivered() == [kept]
    assert log.database.rows("SELECT job FROM commits ORDER BY job") == [("j0",), ("j2",)]
    assert log.database.rows("SELECT job FROM files") == [("j0",)]


class LogMachine(RuleBasedStateMachine):
    """Any sequence of calls, with reopenings in between, against a model in two dicts."""

    names = st.sampled_from(["a", "b", "c"])
    streams = st.sampled_from(["r", "q"])
    places = st.builds(Cursor, st.integers(0, 3), st.integers(0, 3))

    opener: ClassVar[OpenLog]

    def __init__(self) -> None:
        super().__init__()
        self.open = partial(type(self).opener, f"machine {next(_machines)}")
        self.log = self.open()
        self.cursors: dict[tuple[str, str], Cursor] = {}
        self.files: list[CommittedFile] = []

    @rule(name=names, starts=st.dictionaries(streams, places, min_size=1), reset=st.booleans())
    def register(self, name: str, starts: dict[str, Cursor], reset: bool) -> None:
        known = {stream for query, stream in self.cursors if query == name}
        register: Callable[[], bool] = lambda: self.log.register_query(  # noqa: E731
            name, "1", starts, reset=reset
        )
        if known and not reset:
            if known == set(starts):
                assert not register()
            else:
                with pytest.raises(ConfigError):
                    register()
            return
        assert register()
        self.forget(name)
        self.cursors.update({(name, stream): start for stream, start in starts.items()})

    def forget(self, name: str) -> None:
        self.cursors = {key: at for key, at in self.cursors.items() if key[0] != name}

    @rule(name=names)
    def drop(self, name: str) -> None:
        self.log.drop_query(name)
        self.forget(name)

    @rule(name=names, stream=streams, old=places, new=places, rows=st.integers(1, 9))
    def commit(self, name: str, stream: str, old: Cursor, new: Cursor, rows: int) -> None:
        job, move = self.log.new_job(), CursorMove(name, stream, old, new)
        staged = [StagedFile(name, Path(job), rows)]
        if self.cursors.get((name, stream)) == old and new >= old:
            self.files += self.log.commit(job, [move], staged)
            self.cursors[name, stream] = new
        else:
            with pytest.raises(EngineBug):
                self.log.commit(job, [move], staged)

    @precondition(lambda self: self.cursors)
    @rule(data=st.data(), new=places)
    def commit_where_it_is(self, data: st.DataObject, new: Cursor) -> None:
        (name, stream), old = data.draw(st.sampled_from(sorted(self.cursors.items())))
        self.commit(name, stream, old, max(old, new), rows=1)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(self.files))
        self.log.mark_delivered([file.id])
        self.files.remove(file)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open()

    def teardown(self) -> None:
        assert self.log.cursors() == self.cursors
        assert self.log.undelivered() == self.files
        for stream in ("r", "q"):
            own = [at for (_, name), at in self.cursors.items() if name == stream]
            assert self.log.low_water(stream) == min(own, default=None)
        self.log.close()


@pytest.mark.slow
def test_any_sequence_of_calls(open_log: OpenLog) -> None:
    class Machine(LogMachine):
        opener = open_log

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=15, stateful_step_count=25, deadline=None)
    )


def test_late_rows_are_noted_for_queries_that_are_known(log: CommitLog) -> None:
    log.register_query("q", "1", {"r": START})
    log.note_late_rows({("q", "r"): 3, ("gone", "r"): 4})
    log.note_late_rows({("q", "r"): 5, ("q", "s"): 1})
    assert log.late_rows_written() == {("q", "r"): 5, ("q", "s"): 1}
    log.drop_query("q")
    assert log.late_rows_written() == {}
