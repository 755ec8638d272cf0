"""Queries that are left out of a pipeline keep their places for a while, at nobody's expense."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.until import until

from daybreak.model import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.pipeline import Pipeline
from daybreak.runtime.control import call
from daybreak.spark.app import App
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import (
    Cursor,
    CursorMove,
    Declaration,
    PartialRows,
    PartialsMove,
    Progress,
)
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.undeclared import Undeclared, refuse_unknown, time_left_ns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.run import Run

START = Cursor(0, 0)
S_NS = 10**9
EVENTS = "events.jsonl"


class Heard:
    """Events, as an operator would read them."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str | None, dict[str, object]]] = []

    def __call__(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        assert message
        assert level == logging.WARNING
        self.events.append((event, query, fields))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    with RunDirectory.open(tmp_path, "left out") as rundir:
        log = CommitLog(rundir.state_db)
        yield SegmentStore(rundir, log, small_bytes=0)
        log.close()


def log_of(store: SegmentStore) -> CommitLog:
    return store._log


def declared(*names: str, mark: str = "1", streams: tuple[str, ...] = ("r",)) -> list[Declaration]:
    starts = dict.fromkeys(streams, START)
    return [Declaration(name, mark, starts, place=f"p:{name}") for name in names]


def everything(log: CommitLog) -> list[list[tuple[Any, ...]]]:
    tables = ("queries", "cursors", "undeclared", "paused", "declarations", "losses", "files")
    return [log.database.rows(f"SELECT * FROM {table}") for table in tables]


def test_a_start_is_accepted_whole_or_changes_nothing(store: SegmentStore) -> None:
    log = log_of(store)
    log.accept(declared("q", "j"), now_ns=0)
    log.set_paused("j", paused=True)
    before = everything(log)
    changed = [*declared("new"), *declared("q", mark="2")]
    with pytest.raises(ConfigError, match="p:q: has changed SQL"):
        log.refuse_changed(changed)
    with pytest.raises(ConfigError, match="p:q: has changed SQL"):
        log.accept(changed, forget=["j"], now_ns=5)
    assert everything(log) == before
    log.accept(changed, reset=["q"], now_ns=7)
    assert log.queries() == {"new": "1", "q": "2", "j": "1"}
    assert log.undeclared() == {"j": 7}
    log.accept(declared("new"), now_ns=9)
    assert log.undeclared() == {"j": 7, "q": 9}, "since it was first missed"
    log.accept(declared("new", "j"), now_ns=11)
    assert log.undeclared() == {"q": 9}
    assert log.paused() == {"j"}, "a pause outlasts it"
    log.accept(declared("new", "j"), forget=["q"], now_ns=12)
    assert log.undeclared() == {}
    assert "q" not in log.queries()


def test_only_queries_that_are_left_out_can_be_forgotten(store: SegmentStore) -> None:
    log = log_of(store)
    log.accept(declared("q", "june"), now_ns=0)
    refuse_unknown(log, {"q"}, ["june"])
    with pytest.raises(ConfigError, match="unknown query 'jun'; did you mean 'june'"):
        refuse_unknown(log, {"q"}, ["jun"])
    with pytest.raises(ConfigError, match=r"'q' is declared in the pipeline; .*--reset-query q"):
        refuse_unknown(log, {"q"}, ["q"])


def test_time_that_is_left_counts_from_the_first_start_that_missed_it(store: SegmentStore) -> None:
    log = log_of(store)
    log.accept(declared("q", "j"), now_ns=0)
    assert time_left_ns(log, {"q"}, keep_ns=10, now_ns=100) == {"j": 10}
    log.accept(declared("q"), now_ns=100)
    assert time_left_ns(log, {"q"}, keep_ns=10, now_ns=104) == {"j": 6}
    assert time_left_ns(log, {"q"}, keep_ns=10, now_ns=50) == {"j": 10}, "a clock that was set back"
    assert time_left_ns(log, {"q"}, keep_ns=10, now_ns=200)["j"] < 0
    assert time_left_ns(log, {"q", "j"}, keep_ns=10, now_ns=200) == {}


def fill(store: SegmentStore, stream: str, segments: int) -> int:
    """Segments of ten rows and as many bytes each; returns what one of them takes."""
    made = None
    for batch in range(segments):
        rows = pa.table({"n": pa.array(range(10), pa.int64())})
        made = store.append(stream, "cp", batch, [batch], rows, arrival_ns=1000 + batch)
    assert made is not None
    return made.bytes


def kept(
    store: SegmentStore, heard: Heard, streams: tuple[str, ...] = ("r",), **left: int
) -> Undeclared:
    return Undeclared(log_of(store), store, heard, streams, left, now_ns=0, monotonic_ns=1000)


def test_what_is_kept_too_long_is_forgotten_while_it_runs(store: SegmentStore) -> None:
    log, heard = log_of(store), Heard()
    each = fill(store, "gone", 4)
    log.accept([*declared("q"), *declared("j", streams=("gone",))], now_ns=0)
    log.accept(declared("q"), now_ns=0)
    undeclared = kept(store, heard, j=60 * S_NS)
    assert undeclared.until == {"j": "1970-01-01T00:01:00+00:00"}
    undeclared.announce()
    assert undeclared.held_bytes() == 4 * each
    undeclared.expire(1000 + 60 * S_NS - 1)
    assert store.held_bytes() == 4 * each, "what waits for it stays"
    undeclared.expire(1000 + 60 * S_NS)
    assert [(event, query) for event, query, _ in heard.events] == [
        ("undeclared", "j"),
        ("forgotten", "j"),
    ]
    assert log.queries() == {"q": "1"}
    assert undeclared.until == {}
    assert undeclared.held_bytes() == 0
    assert store.held_bytes() == each, "also of a stream that nobody declares; the newest stays"


def test_a_full_log_takes_what_undeclared_queries_alone_hold(store: SegmentStore) -> None:
    log, heard = log_of(store), Heard()
    each = fill(store, "r", 10)
    log.accept(declared("q", "j", "k"), now_ns=0)
    log.commit("1", [CursorMove("q", "r", START, Cursor(6, 3))], [])
    log.commit("2", [CursorMove("k", "r", START, Cursor(1, 5))], [])
    log.accept(declared("q"), now_ns=0)
    undeclared = kept(store, heard, j=S_NS, k=S_NS)

    assert undeclared.held_bytes() == 6 * each, "what q needs too is not theirs to free"
    undeclared.give_way(round(2.5 * each))
    assert log.low_water("r") == Cursor(3, 0), "three segments are the least that is enough"
    assert undeclared.held_bytes() == 3 * each
    assert log.losses() == {"j": {"full": 30}, "k": {"full": 15}}
    undeclared.give_way(100 * each)
    assert log.cursors() == {
        ("j", "r"): Cursor(6, 0),
        ("k", "r"): Cursor(6, 0),
        ("q", "r"): Cursor(6, 3),
    }
    assert log.losses() == {"j": {"full": 60}, "k": {"full": 45}}, "no row for nothing"
    assert {(event, query) for event, query, _ in heard.events} == {
        ("gave-up", "j"),
        ("gave-up", "k"),
    }
    assert log.low_water("r") == Cursor(6, 0)
    assert undeclared.held_bytes() == 0, "so they never block the sources"
    undeclared.give_way(100 * each)
    assert len(heard.events) == 4, "nothing is left to give"


def test_a_full_log_forgets_undeclared_windows_rather_than_tear_them(store: SegmentStore) -> None:
    log, heard = log_of(store), Heard()
    each = fill(store, "r", 10)
    windows = Declaration("w", "1", {"r": START}, Progress(-5, "panes"))
    log.accept([*declared("q"), windows], now_ns=0)
    partials = PartialsMove("w", "r", 0, 0, (PartialRows(7, b"partial"),), -9)
    log.commit("1", [CursorMove("q", "r", START, Cursor(10, 0)), partials], [])
    log.accept(declared("q"), now_ns=0)
    assert len(log.partials("w")) == 1
    undeclared = kept(store, heard, w=S_NS)
    undeclared.give_way(each)
    assert [(event, query) for event, query, _ in heard.events] == [("forgotten", "w")]
    assert log.queries() == {"q": "1"}
    assert not log.partials("w"), "its partial results go with it"


def test_keep_undeclared_is_a_duration() -> None:
    text = '[streams.s]\nformat = "generator"\n[queries.q]\nsql = "SELECT * FROM s"\n[limits]\n'
    assert Limits().keep_undeclared_ns == 7 * 86_400 * S_NS
    read = Pipeline.parse(f'{text}keep_undeclared = "1 hour"').limits
    assert read.keep_undeclared_ns == 3600 * S_NS
    assert Pipeline.parse(f'{text}keep_undeclared = "0 seconds"').limits.keep_undeclared_ns == 0
    for wrong in ('"soon"', "5"):
        with pytest.raises(ConfigError, match="keep_undeclared"):
            Pipeline.parse(f"{text}keep_undeclared = {wrong}")


# On Spark


def declare(spark: SparkSession, *names: str, sql: str = "SELECT n FROM numbers") -> App:
    app = App(spark, name="left out")
    app.stream("numbers", format="json", schema="n INT", path="in")
    for name in names:
        app.query(name, sql=sql if name == "q" else "SELECT n FROM numbers WHERE n >= 0")
    return app


def feed(run: Run, folder: Path, first: int, last: int) -> None:
    lines = [json.dumps({"n": n}) for n in range(first, last)]
    (folder / "partial").write_text("\n".join(lines))
    (folder / "partial").rename(folder / f"in/{first}.json")
    run.drain()


def numbers(run: Run, query: str) -> list[int]:
    table = run.rows(query)
    return [] if table is None else sorted(table["n"].to_pylist())


def told(folder: Path, *events: str) -> list[tuple[str, str | None]]:
    lines = [json.loads(line) for line in (folder / EVENTS).read_text().splitlines()]
    return [(e["event"], e.get("query")) for e in lines if e["event"] in events]


@pytest.mark.spark
def test_a_query_that_was_left_out_continues_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    folder = tmp_path / "run"
    with declare(spark, "q", "j", "k").run("fcfs", run_dir=folder) as run:
        run.pause("j")
        run.register("later", "SELECT n FROM numbers WHERE n > 5", force=True)
        run.pause("later")
        feed(run, tmp_path, 0, 10)

    # q is changed and j left out: refused, and then both edits are undone.
    def state() -> list[list[tuple[Any, ...]]]:
        db = sqlite3.connect(folder / "state.db")
        found = [
            db.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("queries", "cursors", "undeclared", "paused", "declarations", "segments")
        ]
        db.close()
        return found

    before = state()
    with pytest.raises(ConfigError, match="--reset-query q"):
        declare(spark, "q", "k", sql="SELECT -n AS n FROM numbers").run("fcfs", run_dir=folder)
    with pytest.raises(ConfigError, match="unknown query 'l'"):
        declare(spark, "q", "k").run("fcfs", run_dir=folder, forget=["l"])
    assert state() == before

    # Left out of a start that is accepted, it is kept, and what arrives meanwhile waits for it.
    with declare(spark, "q").run("fcfs", run_dir=folder) as run:
        feed(run, tmp_path, 10, 20)
        run.parts.keeping.retention.remove_passed()
        assert len(run.parts.storage.store.segments("numbers")) == 2
        assert call(folder, "snapshot")["undeclared"].keys() == {"j", "k"}
        with pytest.raises(ConfigError, match="from an earlier start"):
            run.register("j", "SELECT n FROM numbers WHERE n >= 0", force=True)
        run.drop("k")
        assert numbers(run, "q") == list(range(10, 20))
    assert told(folder, "undeclared", "forgotten") == [
        ("undeclared", "j"),
        ("undeclared", "k"),
        ("forgotten", "k"),
    ]
    with declare(spark, "q", "j", "k").run("fcfs", run_dir=folder) as run:
        run.resume("j")
        run.resume("later")
        run.drain()
        assert numbers(run, "j") == list(range(20))
        assert numbers(run, "later") == list(range(6, 20)), "registered: never undeclared"
        assert numbers(run, "k") == [], "begins again"
        assert numbers(run, "q") == []

    # Left out again, it does not hold up the log, though its class would let the sources wait.
    with declare(spark, "q", "j", "k").run("fcfs", run_dir=folder) as run:
        run.pause("j")
        feed(run, tmp_path, 20, 30)
    tiny = replace(Limits(), log_max_bytes=1)
    with declare(spark, "q", "k").run("fcfs", run_dir=folder, limits=tiny) as run:
        feed(run, tmp_path, 30, 40)
        assert numbers(run, "q") == list(range(30, 40))
        until(
            lambda: (
                run.parts.storage.log.losses() == {"j": {"full": 20}}
                and not run.parts.inflow.backpressure.full
            )
        )

    # Forgotten by name, whether the pipeline declared it or a command registered it; or in time.
    soon = replace(Limits(), keep_undeclared="0 seconds")
    app = declare(spark, "q", "k")
    with app.run("fcfs", run_dir=folder, forget=["j", "later"]) as run:
        assert run.parts.storage.log.queries().keys() == {"q", "k"}
    with declare(spark, "q").run("fcfs", run_dir=folder, limits=soon) as run:
        assert run.parts.storage.log.queries().keys() == {"q"}
    assert told(folder, "forgotten")[1:] == [
        ("forgotten", "j"),
        ("forgotten", "later"),
        ("forgotten", "k"),
    ]
