"""``daybreak.App``: declare streams and queries, run them on Spark, change them while they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

from pyspark.sql import SparkSession

from daybreak.model import Arrivals, Pipeline, QoSGraph
from daybreak.model.app_table import DEFAULT_POLICY
from daybreak.model.declarations import (
    MEMORY,
    qos_from,
    query_from,
    static_table_from,
    stream_from,
)
from daybreak.model.errors import ConfigError, Findings
from daybreak.model.limits import Limits
from daybreak.model.network import DEFAULT_CLASS, QueryClass
from daybreak.model.shedding import SheddingParams
from daybreak.model.sparkconf import SparkSettings, check_jars, check_packages
from daybreak.model.specs import IngestWay, Mode, SinkSpec, StreamSpec, TableSpec, ViewSpec
from daybreak.model.storage import LogUrl
from daybreak.model.texts import refuse_surrogates
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy, make_policy_with
from daybreak.runtime.display import html_table, plural
from daybreak.spark.declared.app_check import Declared
from daybreak.spark.declared.application import CheckedApplication, usable_on_spark
from daybreak.spark.declared.query_check import Callback, DeclaredQuery, Function
from daybreak.spark.run import OnFailure, Run
from daybreak.spark.session import local_session


def _script_name() -> str:
    """Scripts of different names must not share a run directory; a console has none."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        return "daybreak"
    path = Path(script)
    return path.parent.name if path.stem == "__main__" else path.stem


@dataclass
class App:
    """One Spark application with its streams and continuous queries.

    Declare everything first, then call ``run``. Each declaration is checked as far as it can be
    without Spark and raises ``ConfigError`` at once; ``check`` and ``run`` check the rest. One
    application may be run several times, one run at a time for each run directory.

    >>> app = App.local()                                           # doctest: +SKIP
    >>> app.stream("readings", format="json", path="in", schema="station INT, t INT")
    >>> app.query("fire", sql="SELECT station FROM readings WHERE t > 60", cls="critical")
    >>> with app.run(policy="planned") as run:
    ...     run.change_class_priority("critical", 80)
    """

    spark: SparkSession
    #: What relative paths are relative to.
    folder: Path = field(default_factory=Path)
    #: Names the default run directory; left out: the name of the script.
    name: str = field(default_factory=_script_name)
    limits: Limits = field(default_factory=Limits)
    #: Load shedding under overload; None: nothing is ever dropped.
    shedding: SheddingParams | None = None
    #: Whether long and overlapping windows are computed from partial aggregates.
    panes: bool = True
    #: The longest window that is allowed.
    max_window: str = "1 hour"
    #: The time zone that local times are read and written in; None: that of the Spark session.
    timezone: str | None = None
    #: The database of the commit log, ``postgresql://...``; None: SQLite in the run directory.
    log: LogUrl | str | None = field(default=None, repr=False)
    #: The folder of segments, checkpoints and staged results; None: the run directory.
    store: Path | str | None = None
    _views: dict[str, ViewSpec] = field(default_factory=dict)
    _tables: dict[str, TableSpec] = field(default_factory=dict)
    _classes: dict[str, QueryClass] = field(default_factory=dict)
    _streams: dict[str, StreamSpec] = field(default_factory=dict)
    _queries: dict[str, DeclaredQuery] = field(default_factory=dict)
    _policy: Callable[[], BasePolicy] | None = None

    @classmethod
    def local(
        cls,
        name: str | None = None,
        cores: int | str = "*",
        *,
        packages: Sequence[str] = (),
        jars: Sequence[str | Path] = (),
        **conf: str,
    ) -> App:
        """An application on a local Spark of this process; ``name``: see ``App.name``.

        ``packages`` (``group:artifact:version``), ``jars`` and settings, such as
        ``**{"spark.driver.memory": "2g"}``, are as in ``[spark]`` of a pipeline.
        """
        name = name or _script_name()
        settings = SparkSettings(
            packages=check_packages(packages, "App.local"),
            jars=check_jars(map(str, jars), Path(), "App.local"),
            place="App.local",
        )
        return cls(local_session(name, cores, conf, settings), name=name)

    @classmethod
    def from_pipeline(
        cls, pipeline: Pipeline, spark: SparkSession, findings: Findings | None = None
    ) -> App:
        """The application a pipeline file declares.

        A query without SQL is refused; with ``findings``, it is left there and out.
        """
        found = Findings() if findings is None else findings
        app = cls(spark, folder=pipeline.folder, name=pipeline.name, limits=pipeline.limits)
        app.shedding = pipeline.shedding
        app._classes = {c.name: c for c in pipeline.classes}
        app._streams = {s.name: s for s in pipeline.streams}
        for query in pipeline.queries:
            if query.sql is None:
                remedy = "a query of boxes can only be simulated: add sql"
                found.add(ConfigError(query.place, "has no SQL", remedy))
                continue
            app._queries[query.name] = DeclaredQuery(query)
        if findings is None:
            found.raise_any()
        app._views = {v.name: v for v in pipeline.views}
        app._tables = {t.name: t for t in pipeline.tables}
        app.max_window = pipeline.max_window or app.max_window
        app.timezone, app.log, app.store = pipeline.timezone, pipeline.log, pipeline.store
        app._policy = lambda: make_policy(pipeline.policy, pipeline.policy_table, "[app]")
        return app

    def __repr__(self) -> str:
        parts = [
            plural(len(self._streams), "stream"),
            *([plural(len(self._views), "view")] if self._views else []),
            plural(len(self._queries), "query", "queries"),
        ]
        return f"<App {self.name}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        rows = [("query", "class", "declared by", "sink")]
        for name, declared in self._queries.items():
            spec = declared.spec
            by = "function" if declared.function is not None else " ".join((spec.sql or "").split())
            sink = spec.sink.shown if spec.sink is not None else "memory"
            rows.append((name, spec.cls, by, sink))
        return html_table(repr(self).strip("<>"), rows)

    def query_class(self, name: str, priority: float, qos: QoSPoints = None) -> None:
        """Declares a class of queries: its priority, above 0, relative to that of other classes.

        ``qos``: the utility of a result by its latency, as ``[(seconds, utility), ...]``. A class
        that is declared again is replaced.
        """
        refuse_surrogates(name, f"class {name!r}")
        graph = qos_from(qos, f"class {name!r}")
        self._classes[name] = QueryClass(name=name, priority=priority, qos=graph)

    def stream(
        self,
        name: str,
        *,
        format: str,  # noqa: A002 - Spark's own word
        schema: str | None = None,
        path: str | None = None,
        options: Mapping[str, Any] | None = None,
        arrivals: Arrivals | None = None,
        time: str | None = None,
        watermark: str | None = None,
        idle_timeout: str | None = None,
        retain: str | None = None,
        trigger: str = "100 milliseconds",
        ingest: IngestWay = "auto",
    ) -> None:
        """Declares a stream: any Structured Streaming source, or ``format="generator"``.

        ``time`` names the column with the event time, which windows need; ``watermark`` says how
        late a row may be. Durations are texts such as ``"10 seconds"``. ``retain``: for so long
        rows are kept for ad-hoc queries. ``ingest``: how Spark's readers run.
        """
        values = {
            "format": format, "schema": schema, "path": path, "options": options,
            "arrivals": arrivals, "time": time, "watermark": watermark,
            "idle_timeout": idle_timeout, "retain": retain, "trigger": trigger, "ingest": ingest,
        }  # fmt: skip
        if name in self._streams:
            raise ConfigError(f"stream {name!r}", "is declared twice", "rename one of them")
        self._streams[name] = stream_from(name, values)

    def table(
        self,
        name: str,
        *,
        format: str,  # noqa: A002 - Spark's own word
        path: str | None = None,
        schema: str | None = None,
        options: Mapping[str, Any] | None = None,
        refresh: str | None = None,
    ) -> None:
        """Declares a static table that queries join with: any source of Spark's, or ``"delta"``.

        Its rows are read into memory at the start, and again every ``refresh``, such as
        ``"10 minutes"``; jobs that begin afterwards see the new rows.
        """
        if name in self._tables or name in self._streams or name in self._views:
            raise ConfigError(f"table {name!r}", "is declared twice", "rename one of them")
        values = {
            "format": format, "path": path, "schema": schema, "options": options,
            "refresh": refresh,
        }  # fmt: skip
        self._tables[name] = static_table_from(name, values)

    def view(self, name: str, *, sql: str, time: str | None = None) -> None:
        """Declares a view: rows that several queries, or later views, read by its name.

        ``time``: for a view over windows, its column that windows over it take for event time.
        """
        if name in self._views or name in self._streams:
            raise ConfigError(f"view {name!r}", "is declared twice", "rename one of them")
        place = f"view {name!r}"
        refuse_surrogates(name, place)
        refuse_surrogates({"sql": sql, "time": time}, place)
        self._views[name] = ViewSpec(name=name, sql=sql, time=time, place=place)

    @overload
    def query(self, name: Function, /) -> Function: ...

    @overload
    def query(
        self,
        name: str | None = None,
        *,
        sql: str | None = None,
        cls: str = DEFAULT_CLASS,
        qos: QoSPoints = None,
        weight: float = 1.0,
        subscribers: int | None = None,
        sink: SinkSpec | Mapping[str, Any] | Callback | None = None,
        on_full: Literal["skip", "block"] | None = None,
        mode: Mode | None = None,
    ) -> Callable[[Function], Function]: ...

    def query(
        self,
        name: str | Function | None = None,
        *,
        sql: str | None = None,
        cls: str = DEFAULT_CLASS,
        qos: QoSPoints = None,
        weight: float = 1.0,
        subscribers: int | None = None,
        sink: SinkSpec | Mapping[str, Any] | Callback | None = None,
        on_full: Literal["skip", "block"] | None = None,
        mode: Mode | None = None,
    ) -> Callable[[Function], Function] | Function:
        """Declares a query, by SQL or as a decorator of a function on DataFrames.

        ``@app.query`` alone takes the defaults. A function's parameters name the streams it
        reads; its own name is the query's unless one is given. It is called with DataFrames, must
        return one, and must return the same plan whenever it is called. Without a sink, rows are
        kept in memory: ``run.rows(name)``. The weight of a query with ``subscribers`` is its share
        of the largest such number. ``mode``: "append", "update" or "complete", see docs/modes.md.
        """
        if callable(name):
            return self.query()(name)

        def declare(query_name: str, function: Function | None) -> None:
            callback = sink if callable(sink) else None
            to = SinkSpec(format="python") if callback is not None else sink or MEMORY
            values = {
                "sql": sql, "class": cls, "qos": qos, "sink": to, "on_full": on_full,
                "subscribers": subscribers, "mode": mode,
                "weight": None if weight == 1.0 and subscribers is not None else weight,
            }  # fmt: skip
            declared = query_from(query_name, values)
            if query_name in self._queries:
                raise ConfigError(declared.place, "is declared twice", "rename one of them")
            self._queries[query_name] = DeclaredQuery(declared, function, callback)

        def decorate(function: Function) -> Function:
            if sql is not None:
                raise ConfigError(f"query {name!r}", "has SQL and a function", "keep one of them")
            declare(name or function.__name__, function)
            return function

        if sql is not None:
            if name is None:
                raise ConfigError("query", "has no name", "name it")
            declare(name, None)
        return decorate

    def stateful(
        self,
        name: str | None = None,
        *,
        mode: Mode = "update",
        cls: str = DEFAULT_CLASS,
        qos: QoSPoints = None,
        weight: float = 1.0,
        sink: SinkSpec | Mapping[str, Any] | Callback | None = None,
    ) -> Callable[[Function], Function]:
        """Declares a function on streaming DataFrames as a query that Spark's state store runs."""
        return self.query(name, mode=mode, cls=cls, qos=qos, weight=weight, sink=sink)

    def check(
        self, policy: str | BasePolicy | None = None, findings: Findings | None = None
    ) -> CheckedApplication:
        """Validates everything, with Spark, and starts nothing; returns what would run.

        ``ConfigError`` names what is wrong, ``ConfigErrors`` if that is several things; those
        that were found before, in ``findings``, are among them.
        """
        found = Findings() if findings is None else findings
        declared = Declared(
            spark=self.spark, folder=self.folder, name=self.name, panes=self.panes,
            max_window=self.max_window, timezone=self.timezone, log=self.log, store=self.store,
            classes=self._classes, streams=self._streams, tables=self._tables,
            views=self._views, queries=self._queries,
        )  # fmt: skip
        chosen = found.tried(lambda: self._chosen_policy(policy), None)
        application = found.tried(lambda: declared.checked(chosen, found), None)
        found.raise_any()
        assert application is not None
        return application

    def run(
        self,
        policy: str | BasePolicy | None = None,
        *,
        run_dir: Path | str | None = None,
        workers: int | None = None,
        express: int = 0,
        seed: int = 1,
        reset: Sequence[str] = (),
        forget: Sequence[str] = (),
        rider_bound_s: float = 0.1,
        limits: Limits | None = None,
        shedding: SheddingParams | None = None,
        on_failure: OnFailure = "raise",
    ) -> Run:
        """Checks and starts everything; use it in a ``with`` block, or call ``stop`` yourself.

        Returns when sources and workers run. ``ConfigError`` if anything declared cannot be used,
        or if another process uses the run directory; then nothing was started.

        ``run_dir`` keeps state, checkpoints and the report; left out: ``runs/NAME``. A query that
        is parked, or a stream that has stopped because its source fails, is a warning, and the end
        of the ``with`` block raises ``QueryFailed``; ``on_failure="report"`` leaves it to you to
        look at ``run.failures`` and ``run.stopped_streams``.

        ``workers`` threads submit jobs as the policy says (left out: 2, and one more under
        ``planned``, which keeps one free of long jobs), and ``express`` further ones those of
        the most important class, as soon as it has something to do.
        ``reset`` names queries that restart at the next segment, ``forget`` queries that are no
        longer declared and whose places in the streams are given up.
        Filters of one class over one stream run together while that delays the query the policy
        asked for by at most ``rider_bound_s``; 0 lets every query run by itself. ``limits``
        says how far things may go before it gives way; left out: those of the pipeline.
        ``shedding`` lets tuples be dropped under overload; left out: as the pipeline says.
        """
        return Run(
            self.check(policy),
            Path("runs") / self.name if run_dir is None else Path(run_dir),
            workers=workers,
            express=express,
            seed=seed,
            reset=tuple(reset),
            forget=tuple(forget),
            rider_bound_s=rider_bound_s,
            limits=limits or self.limits,
            shedding=shedding or self.shedding,
            on_failure=on_failure,
        )

    def _chosen_policy(self, policy: str | BasePolicy | None) -> BasePolicy:
        if isinstance(policy, BasePolicy):
            chosen = policy
        elif policy is not None:
            chosen = make_policy_with(policy)
        elif self._policy is not None:
            chosen = self._policy()
        else:
            chosen = make_policy_with(DEFAULT_POLICY)
        return usable_on_spark(chosen)


QoSPoints = Sequence[Sequence[float]] | QoSGraph | None
