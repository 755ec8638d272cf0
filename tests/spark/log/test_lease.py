"""Of two drivers one works. One that was replaced commits nothing; an outage loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from benchmarks.servers import PostgresServer
from tests.spark.log.conftest import OpenLog
from tests.spark.log.proxy import Proxy
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.storage import check_log
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.postgres_connection import schema_name
from daybreak.spark.log.postgres_log import PostgresDatabase
from daybreak.spark.log.rows import Cursor, CursorMove, SegmentRow, StagedFile
from daybreak.spark.log.sqlite_log import SqliteDatabase

pytestmark = pytest.mark.slow

START = Cursor(0, 0)


def end_lease(log: CommitLog) -> None:
    """As if its driver had shown no sign of life for long; nobody else knows of SQLite's."""
    if not isinstance(log.database, SqliteDatabase):
        log.database.rows("UPDATE lease SET expires = clock_timestamp() RETURNING 1")


def test_a_driver_that_was_replaced_commits_and_delivers_nothing(open_log: OpenLog) -> None:
    old = open_log(lease_s=600.0)
    old.register_query("a", "1", {"r": START})
    old.commit("j1", [CursorMove("a", "r", START, Cursor(1, 0))], [StagedFile("a", Path("f"), 1)])
    end_lease(old)
    new = open_log()
    assert (new.id, new.run) == (old.id, old.run + 1)
    move = CursorMove("a", "r", Cursor(1, 0), Cursor(2, 0))
    with pytest.raises(LeaseLost, match="another driver"):
        old.commit("j2", [move], [StagedFile("a", Path("g"), 1)])
    if not isinstance(old.database, SqliteDatabase):  # a lock keeps the other driver out
        with pytest.raises(LeaseLost):
            old.confirm_lease()
    calls: tuple[Callable[[], None], ...] = (
        lambda: old.mark_delivered([1]),
        lambda: old.forget_segments("r", 9),
        lambda: old.drop_query("a"),
    )
    for refused in calls:
        with pytest.raises(LeaseLost):
            refused()
    assert [file.path for file in new.undelivered()] == [Path("f")]
    new.commit("j2", [move], [])
    assert new.cursors() == {("a", "r"): Cursor(2, 0)}


def test_malformed_records_are_counted_without_the_lease(open_log: OpenLog, tmp_path: Path) -> None:
    """A report tells of them, and a run whose lease is lost ends with one, too."""
    old = open_log(lease_s=600.0)
    letters = DeadLetters(tmp_path / "dead", old)
    letters.keep("r", 0, ["bad", "worse"], 1)
    end_lease(old)
    open_log()
    with pytest.raises(LeaseLost):
        old.drop_query("a")
    assert letters.count("r") == 2


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres.port) as between:
        yield between


def database(server: PostgresServer, name: str, lease_s: float = 5.0, port: int = 0) -> CommitLog:
    dsn = server.dsn.replace(f":{server.port}/", f":{port or server.port}/")
    return CommitLog(PostgresDatabase(check_log(dsn, "test"), name, lease_s=lease_s))


def test_the_second_driver_waits_and_begins_when_the_first_ends(postgres: PostgresServer) -> None:
    first = database(postgres, "two")
    waits: list[str] = []
    url = check_log(postgres.dsn, "test")
    second: list[CommitLog] = []

    def start() -> None:
        second.append(CommitLog(PostgresDatabase(url, "two", announce=waits.append)))

    thread = threading.Thread(target=start)
    thread.start()
    until(lambda: bool(waits), "the second driver waits")
    first.register_query("a", "1", {"r": START})
    assert "process" in waits[0]
    assert not second
    first.close()
    thread.join(timeout=30)
    assert second[0].queries() == {"a": "1"}
    assert second[0].run == first.run + 1
    second[0].close()


def test_the_lease_is_renewed_while_nothing_is_committed(postgres: PostgresServer) -> None:
    log = database(postgres, "idle", lease_s=0.4)
    query = f'SELECT transactions, expires > clock_timestamp() FROM "{schema_name("idle")}".lease'
    with psycopg.connect(postgres.dsn, autocommit=True) as watch:
        until(lambda: watch.execute(query).fetchall() > [(5, True)], "renewed again and again")
    log.close()


def test_a_driver_stopped_in_a_transaction_does_not_block_the_next(
    postgres: PostgresServer,
) -> None:
    """Its server process waits for it with a lock; the driver that takes over ends that."""
    old = database(postgres, "stuck", lease_s=0.5)
    inside, go = threading.Event(), threading.Event()

    def hang(db: object) -> None:
        inside.set()
        go.wait(30)

    failed: list[Exception] = []

    def stuck() -> None:
        try:
            old.database.transact(hang)
        except LeaseLost as error:
            failed.append(error)

    thread = threading.Thread(target=stuck)
    thread.start()
    assert inside.wait(10)
    new = database(postgres, "stuck")
    go.set()
    thread.join(timeout=30)
    assert len(failed) == 1
    new.close()
    old.close()


def segment(seq: int) -> SegmentRow:
    return SegmentRow(
        stream="r", seq=seq, checkpoint_id="c", batch_id=seq, offsets="{}", rows=1, bytes=1,
        arrival_ns=1, file="",
    )  # fmt: skip


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost_is_made_once(
    postgres: PostgresServer, proxy: Proxy, when: str
) -> None:
    """The connection breaks before the server sees COMMIT, or before the client sees the answer."""
    log = database(postgres, f"lost {when}", port=proxy.port)
    log.register_query("a", "1", {"r": START})
    for number in range(5):
        proxy.break_at(b"COMMIT", after=when == "after")
        old, new = Cursor(number, 0), Cursor(number + 1, 0)
        staged = [StagedFile("a", Path(f"f{number}"), 1), StagedFile("a", Path(f"g{number}"), 1)]
        files = log.commit(f"j{number}", [CursorMove("a", "r", old, new)], staged)
        assert files == log.undelivered()[-2:]
    assert proxy.breaks == 5
    assert log.cursors() == {("a", "r"): Cursor(5, 0)}
    assert len(log.undelivered()) == 10
    assert log.settle()
    log.close()


def test_in_an_outage_commits_wait_and_others_are_told(
    postgres: PostgresServer, proxy: Proxy
) -> None:
    log = database(postgres, "outage", port=proxy.port)
    log.register_query("a", "1", {"r": START})
    proxy.stop()
    done: list[str] = []
    move = CursorMove("a", "r", START, Cursor(1, 0))

    def append() -> None:
        log.add_segment(segment(0), b"x")
        done.append("segment")

    def commit() -> None:
        log.commit("j", [move], [])
        done.append("commit")

    threads = [threading.Thread(target=target) for target in (append, commit)]
    for thread in threads:
        thread.start()
    until(lambda: log.database.trouble() is not None, "the outage is noticed")
    for refused in (log.cursors, lambda: log.drop_query("a")):
        with pytest.raises(LogUnavailable, match="out of reach"):
            refused()
    assert log.losses() == {}
    assert not done
    proxy.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(done) == ["commit", "segment"]
    assert log.cursors() == {("a", "r"): Cursor(1, 0)}
    assert log.database.trouble() is None
    log.close()


def test_a_run_that_stops_in_an_outage_does_not_wait_and_sweeps_nothing(
    postgres: PostgresServer, proxy: Proxy
) -> None:
    log = database(postgres, "stop", lease_s=1.0, port=proxy.port)
    proxy.break_at(b"COMMIT", after=True, for_good=True)
    failed: list[Exception] = []

    def commit() -> None:
        try:
            log.commit("j", [], [StagedFile("a", Path("f"), 1)])
        except LogUnavailable as error:
            log.abandon("j")
            failed.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    until(lambda: log.database.trouble() is not None, "the outage is noticed")
    log.database.stop_waiting()
    thread.join(timeout=30)
    assert len(failed) == 1
    assert log.take_abandoned() == set(), "it was committed, and nobody here knows"
    proxy.start()
    log.set_paused("q", paused=False)  # continues after the one that is in doubt
    assert [file.path for file in log.undelivered()] == [Path("f")]
    assert log.take_abandoned() == set()
    log.close()
    end = database(postgres, "stop", port=proxy.port)
    assert [file.path for file in end.undelivered()] == [Path("f")]
    end.close()


def test_a_database_that_cannot_be_used_is_refused_and_no_password_is_shown(
    postgres: PostgresServer, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "s3cr%25et-w0rd"
    addresses = (
        f"postgresql://postgres:{secret}@127.0.0.1:1/postgres",
        f"postgresql://postgres:{secret}@127.0.0.1:{postgres.port}/nowhere",
        f"postgresql://nobody:{secret}@127.0.0.1:{postgres.port}/postgres",
        f"postgresql://127.0.0.1:{postgres.port}/postgres?user=nobody&password={secret}",
    )
    for address in addresses:
        url = check_log(address, "p.toml:3: [app]")
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1.*cannot be used.*correct log") as told:
            CommitLog(PostgresDatabase(url, "x"))
        shown = f"{told.value} {url!r} {url.shown}" + "".join(capfd.readouterr())
        for form in (secret, "s3cr%et-w0rd", "s3cr"):
            assert form not in shown


def test_rows_read_in_another_time_zone_are_refused(postgres: PostgresServer) -> None:
    url = check_log(postgres.dsn, "test")
    CommitLog(PostgresDatabase(url, "zones", "UTC")).close()
    with pytest.raises(ConfigError, match=r'add timezone = "UTC"'):
        CommitLog(PostgresDatabase(url, "zones", "Europe/Berlin"))
    CommitLog(PostgresDatabase(url, "zones", "UTC")).close()
