"""Requests to a run, without Spark: a real engine, loop and commit log; jobs do nothing."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Ran
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.state import JobState
from daybreak.engine.story import text_of
from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.specs import QuerySpec, StreamSpec
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.snapshot import Snapshot
from daybreak.runtime.standing import ChangeLog
from daybreak.spark.control.controller import Controller
from daybreak.spark.control.protocol import COMMANDS, Protocol, read_requests
from daybreak.spark.control.registration import Registration
from daybreak.spark.control.requests import (
    DropQuery,
    PauseQuery,
    Request,
    ResumeQuery,
    SetClassPriority,
    SetQueryClass,
    SetQuerySubscribers,
    SetQueryWeight,
    UsePolicy,
)
from daybreak.spark.control.status import StatusReader
from daybreak.spark.control.waits import WaitReader
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, Declaration
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.undeclared import Undeclared
from daybreak.spark.loop.driver import Driver
from daybreak.spark.loop.driver_hooks import Hooks
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.folder_locks import FolderLocks
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.forms import SqlBody
from daybreak.spark.sql.static_tables import StaticTables
from daybreak.spark.tasks.task import Runnable
from daybreak.spark.upkeep.health import Health
from daybreak.spark.upkeep.maintenance import Maintenance
from daybreak.spark.upkeep.record import Figures

NAMES = ("a", "b")
SQL = "SELECT n FROM s"
SCHEMA = StructType([StructField("n", LongType())])


class Runner:
    """In place of Spark."""

    def run(
        self,
        queries: Sequence[Runnable],
        _taken: Sequence[Waiting],
        _cell: Sequence[Runnable],
        commit: Callable[[], None],
    ) -> Ran:
        commit()
        now = time.time_ns()
        return Ran((0,) * len(queries), 1000, 0, now, now, {}, (None,) * len(queries))

    def close(self) -> None:
        pass


def application() -> CheckedApplication:
    classes = [QueryClass(name="high", priority=60), QueryClass(name="low", priority=40)]
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in NAMES],
        queries=[Query(name=n, output=n, cls="high") for n in NAMES],
        classes=classes,
    )
    return CheckedApplication(
        name="app", spark=cast(Any, None), timezone="UTC", folder=Path(), network=network,
        policy=make_policy_with("fcfs"), streams={"s": StreamSpec(name="s", format="json")},
        schemas={"s": SCHEMA},
        checked={n: CheckedQuery(n, ("s",), SCHEMA, "filter", SqlBody(SQL, None)) for n in NAMES},
        specs={n: QuerySpec(name=n, cls="high", sql=SQL) for n in NAMES},
        callbacks={}, fingerprints=dict.fromkeys(NAMES, "1:1"), max_window_us=10**9,
        tables=StaticTables(cast(Any, None)),
    )  # fmt: skip


class World:
    """The parts of a run that a request passes through."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        rundir = RunDirectory.open(folder / "run", "app", "UTC")
        opened.callback(rundir.close)
        self.log = CommitLog(rundir.state_db)
        opened.callback(self.log.close)
        store = SegmentStore(rundir, self.log)
        declared = [Declaration(n, "1:1", {"s": Cursor(0, 0)}, None, n) for n in (*NAMES, "gone")]
        self.log.accept(declared, reset=(), forget={}, now_ns=0)
        app = application()
        self.catalog = Catalog(app, app.sinks(folder / "run"))
        state = JobState(app.network, 1)
        facts = [facts_of(r, app.specs[r.name], prepared=False) for r in self.catalog.runnables]
        engine = Engine(state, facts, [Inbox() for _ in NAMES], app.policy, Settings())
        figures = Figures(engine)
        accounts = Accounts(
            engine, figures.monitor, figures.recorder, figures.history, figures.start_ns
        )
        hooks = Hooks(
            lambda _tag: cast(JobRunner, Runner()), lambda _tag: None, lambda _loop: None,
            lambda _given, _why: None,
        )  # fmt: skip
        self.driver = Driver(engine, accounts, self.catalog.runnables, hooks, 60.0)
        opened.callback(self.driver.join)
        self.driver.start()
        opened.callback(self.driver.stop)
        syncer = FileSyncer(self.log, self.catalog.sinks)
        opened.callback(syncer.close)
        sources = Sources(lambda _name: pytest.fail("no source is started"), Limits())
        late = LateRows(folder / "late", store, self.log, {})
        self.events: list[tuple[str, Mapping[str, object]]] = []
        inflow = Inflow(
            app.streams, store, sources, KafkaWatch(sources.positions),
            EventClocks(store, app.streams, {}, 0), late, DeadLetters(folder / "dead", self.log),
            Backpressure(), StreamRates(), {}, IngestGate(lambda _event: None),
        )  # fmt: skip
        undeclared = Undeclared(self.log, store, self.emit, app.streams, {"gone": 10**15}, 0, 0)
        self.changes = ChangeLog(figures.start_ns, self.emit)
        registration = Registration(
            self.catalog, engine, self.log, inflow, figures.monitor, *cast(Any, (None, None))
        )
        self.controller = Controller(
            self.catalog, self.driver, self.log, rundir, undeclared, registration,
            cast(Any, None), self.changes, Health("app", self.driver, syncer, sources),
            FolderLocks(self.log.id, folder / "run"), self.emit,
        )  # fmt: skip
        maintenance = Maintenance(*cast(Any, (None,) * 4))
        self.status = StatusReader(
            self.catalog, self.driver, figures, self.log, inflow, undeclared, self.changes,
            maintenance, (), 2**30,
        )  # fmt: skip
        waits = WaitReader(self.driver, figures, cast(Any, None))
        self.protocol = Protocol(self.controller, self.status, self.emit, waits)

    def emit(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        self.events.append((event, fields))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as opened:
        yield World(tmp_path, opened)


#: The same request as Python makes it and as JSON names it, and the change it leaves.
SAME: list[tuple[Request, str, dict[str, Any], tuple[object, ...]]] = [
    (PauseQuery("a"), "pause", {"query": "a"}, ("paused", "a", "running", "paused")),
    (ResumeQuery("a"), "resume", {"query": "a"}, ("resumed", "a", "running", "running")),
    (DropQuery("a"), "drop", {"query": "a"}, ("dropped", "a", "running", "dropped")),
    (DropQuery("gone"), "drop", {"query": "gone"}, ("dropped", "gone", "undeclared", "dropped")),
    (
        SetClassPriority("low", 50.0), "set-class", {"class": "low", "priority": 50},
        ("class-priority", "low", 40.0, 50.0),
    ),
    (
        SetQueryClass("a", "low"), "set-query", {"query": "a", "class": "low"},
        ("query-class", "a", "high", "low"),
    ),
    (
        SetQueryWeight("a", 0.5), "set-query", {"query": "a", "weight": 0.5},
        ("weight", "a", 1.0, 0.5),
    ),
    (
        SetQuerySubscribers("a", 7), "set-query", {"query": "a", "subscribers": 7},
        ("subscribers", "a", None, 7),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "command", "values", "change"), SAME)
def test_a_request_is_the_same_from_python_and_as_json(
    tmp_path: Path,
    request_: Request,
    command: str,
    values: dict[str, Any],
    change: tuple[object, ...],
) -> None:
    assert read_requests(command, values) == [request_]
    seen = []
    for way in ("python", "json"):
        with ExitStack() as opened:
            world = World(tmp_path / way, opened)
            if way == "python":
                world.controller.execute(request_)
            else:
                json.dumps(world.protocol.handle(command, {**values, "by": "page"}))
            [entry] = world.changes.entries
            seen.append(tuple(entry[key] for key in ("what", "subject", "was", "value")))
            assert entry["by"] == ("program" if way == "python" else "page")
    assert seen == [change, change]


def test_commands_name_every_kind_of_request() -> None:
    examples: list[tuple[str, dict[str, Any]]] = [
        ("register", {"query": {"name": "q", "sql": "SELECT n FROM s"}}),
        ("set-policy", {"policy": "stride", "parameters": {"train": 7}}),
        *((command, values) for _, command, values, _ in SAME),
    ]
    named = {type(request) for example in examples for request in read_requests(*example)}
    assert named == set(get_args(Request))
    assert set(COMMANDS) == {"register", "set-policy", *(command for _, command, _, _ in SAME)}


def test_a_pause_is_in_the_log_and_ends_with_a_resume(world: World) -> None:
    world.controller.execute(PauseQuery("a"))
    assert world.log.paused() == {"a"}
    assert world.status.query("a").state == "paused"
    assert world.controller.execute(ResumeQuery("a")).skipped == 0
    assert world.log.paused() == set()
    assert [row.state for row in world.status.snapshot().queries] == ["running", "running"]


def test_a_dropped_query_is_gone_from_the_log_and_from_the_status(world: World) -> None:
    world.controller.execute(DropQuery("a"))
    assert world.log.queries().keys() == {"b", "gone"}
    assert [row.name for row in world.status.snapshot().queries] == ["b"]
    with pytest.raises(ConfigError, match="query 'a': is not declared"):
        world.controller.execute(PauseQuery("a"))


def test_a_policy_takes_over(world: World) -> None:
    answer = world.protocol.handle("set-policy", {"policy": "stride", "parameters": {"train": 7}})
    assert answer == {"policy": "stride", "parameters": answer["parameters"]}
    assert world.driver.engine.view.policy.parameters["train"] == 7
    with pytest.raises(ConfigError, match="makes no sense on Spark"):
        world.controller.execute(UsePolicy(make_policy_with("taat")))
    assert world.driver.engine.view.policy.name == "stride"


@pytest.mark.parametrize(
    ("command", "values", "finding"),
    [
        ("pause", {"query": "x"}, "query 'x': is not declared"),
        ("set-class", {"class": "low", "priority": -1}, "priority -1"),
        ("set-query", {"query": "a", "weight": 2}, "weight 2"),
        ("set-query", {"query": "a", "subscribers": -1}, "-1 subscribers"),
        ("set-query", {"query": "a"}, "nothing to set"),
        ("queries", {}, "unknown command 'queries'"),
        ("snapshot", {"query": "a"}, "unknown value 'query'"),
        ("story", {}, "query is missing"),
        ("story", {"query": "x"}, "query 'x': is not declared.*choose from a, b"),
        ("register", {"query": {"name": "a", "sql": "SELECT 1"}}, "is registered already"),
        ("register", {"query": {"name": "gone", "sql": "SELECT 1"}}, "from an earlier start"),
    ],
)
def test_what_is_refused_changes_nothing_and_is_logged(
    world: World, command: str, values: dict[str, Any], finding: str
) -> None:
    before = world.status.snapshot().queries
    with pytest.raises(ConfigError, match=finding):
        world.protocol.handle(command, values)
    assert world.changes.entries == []
    assert [row._replace(oldest_s=0.0) for row in world.status.snapshot().queries] == list(before)
    [(event, fields)] = world.events
    assert (event, fields["command"], fields["by"]) == ("refused", command, "control socket")


def test_a_query_may_be_set_in_several_ways_at_once(world: World) -> None:
    row = world.protocol.handle("set-query", {"query": "b", "class": "low", "weight": 0.25})
    assert (row["name"], row["cls"], row["weight"]) == ("b", "low", 0.25)
    assert [change["what"] for change in world.changes.entries] == ["query-class", "weight"]


def test_the_status_over_the_wire_is_the_snapshot(world: World) -> None:
    told = json.loads(json.dumps(world.protocol.handle("snapshot", {})))
    read = Snapshot.from_json(told)
    assert [q.name for q in read.queries] == list(NAMES)
    assert list(read.undeclared) == ["gone"]
    assert [s.name for s in read.streams] == ["s"]


def test_a_story_over_the_wire_is_of_one_query(world: World) -> None:
    world.controller.execute(PauseQuery("a"))
    world.controller.execute(SetQueryWeight("b", 0.5))
    told = json.loads(json.dumps(world.protocol.handle("story", {"query": "b"})))
    assert (told["query"], told["left_out"]) == ("b", 0)
    assert [line["what"] for line in told["lines"]] == ["Started", "SetWeight"]
    assert text_of(told["lines"][-1]).endswith("> SetWeight weight=0.5")


def test_nothing_is_asked_of_a_run_whose_loop_has_died(world: World) -> None:
    def broken() -> None:
        raise SystemExit("disk")  # not an Exception: the loop ends with it

    world.driver.ask(broken)
    world.driver._thread.join(30)  # type: ignore[union-attr]
    with pytest.raises(SystemExit):
        world.controller.execute(PauseQuery("a"))
