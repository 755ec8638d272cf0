"""Checks all that an application declares, with Spark, and starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getsource, signature
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.model.declarations import MEMORY
from daybreak.model.errors import ConfigError, Findings, suggestion
from daybreak.model.network import DEFAULT_CLASS, Box, Network, Query, QueryClass, Stream
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec, StreamSpec, TableSpec, ViewSpec
from daybreak.model.storage import LogUrl, check_log, check_store
from daybreak.model.texts import refuse_surrogates
from daybreak.model.timezone import check_timezone
from daybreak.policies.base import BasePolicy
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.views import Views
from daybreak.spark.ingest.generator import FORMAT as GENERATOR
from daybreak.spark.ingest.generator import generator_schema
from daybreak.spark.ingest.stream_source import stream_schema
from daybreak.spark.log.durable import refuse_long_name
from daybreak.spark.log.event_time import duration_us
from daybreak.spark.session import timezone_of, with_timezone
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Callback
from daybreak.spark.sinks.views import box_name
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.fingerprints import fingerprint, query_fingerprint
from daybreak.spark.sql.functions import Function
from daybreak.spark.sql.modes import check_mode, watermarks_of
from daybreak.spark.sql.static_tables import SessionTables, StaticTables
from daybreak.spark.sql.windows.check import event_times


@dataclass(frozen=True)
class DeclaredQuery:
    """A query as declared: its spec, and where it is one, its function."""

    spec: QuerySpec
    function: Function | None = None
    callback: Callback | None = None


@dataclass(frozen=True)
class Declared:
    """All that an application declares; see ``App`` for what each means."""

    spark: SparkSession
    folder: Path
    name: str
    panes: bool
    max_window: str
    timezone: str | None
    log: LogUrl | str | None = field(repr=False)
    store: Path | str | None
    classes: Mapping[str, QueryClass]
    streams: Mapping[str, StreamSpec]
    tables: Mapping[str, TableSpec]
    views: Mapping[str, ViewSpec]
    queries: Mapping[str, DeclaredQuery]

    def checked(self, policy: BasePolicy | None, found: Findings) -> CheckedApplication:
        """What would run; raises what is wrong, here or in ``found``.

        ``policy``: None where the finding on it is among them.
        """
        with found.gathering():
            self._refuse_surrogates()
        spark = found.tried(self._session, self.spark)
        log = found.tried(self._log, None)
        store = found.tried(self._store, None)
        schemas, times = self._read_streams(found)
        tables = found.tried(lambda: self._read_tables(spark), StaticTables(spark))
        checker = Checker(
            spark, schemas, times, panes=self.panes, tables=tuple(tables.current.by_name),
            watermarks=watermarks_of(self.streams),
        )  # fmt: skip
        max_window_us = found.tried(
            lambda: duration_us(self.max_window, "[app]", "max_window"), 2**62
        )
        with found.gathering():
            specs = [query.spec for query in self.queries.values()]
            refuse_overlaps(specs, self.streams.values(), self.folder, store=store)
        broken = self.streams.keys() - schemas.keys()
        views = Views(self.views, checker, max_window_us, broken, found)
        checked = self._check_queries(checker, views, found)
        found.raise_any()
        assert policy is not None
        shared = self._shared(views, checked)
        checked |= {spec.name: views.checked[spec.name] for spec in shared}
        queries = [*self.queries.values(), *map(DeclaredQuery, shared)]
        return CheckedApplication(
            name=self.name,
            spark=spark,
            timezone=timezone_of(spark),
            folder=self.folder,
            network=self._network(checked, queries),
            policy=policy,
            streams={**self.streams, **views.streams},
            schemas={**schemas, **views.schemas},
            checked=checked,
            specs={query.spec.name: query.spec for query in queries},
            callbacks={n: d.callback for n, d in self.queries.items() if d.callback},
            fingerprints={q.spec.name: self._fingerprint(q, checked) for q in queries},
            max_window_us=max_window_us,
            log=log,
            store=store,
            tables=tables,
        )

    def _refuse_surrogates(self) -> None:
        """Of what is set on the application itself: declarations are read by ``declarations``."""
        texts = {
            "name": self.name, "folder": str(self.folder), "max_window": self.max_window,
            "timezone": self.timezone,
        }  # fmt: skip
        refuse_surrogates(texts, "App")

    def _session(self) -> SparkSession:
        """A clone of the session in the application's time zone."""
        if self.timezone is not None:
            check_timezone(self.timezone, "[app]")
        return with_timezone(self.spark, self.timezone, "[app]")

    def _log(self) -> LogUrl | None:
        return check_log(self.log, "App.log") if isinstance(self.log, str) else self.log

    def _store(self) -> Path | None:
        return (
            None if self.store is None else check_store(str(self.store), self.folder, "App.store")
        )

    def _read_tables(self, spark: SparkSession) -> StaticTables:
        """The static tables, and views of them in the session that queries are checked in."""
        tables = StaticTables(spark, tuple(self.tables.values()), self.folder)
        SessionTables(spark, Catalyst(spark)).use(tables.current)
        return tables

    def _read_streams(self, found: Findings) -> tuple[dict[str, StructType], dict[str, str]]:
        """Schemas and event times of the streams that can be read."""
        schemas: dict[str, StructType] = {}
        times: dict[str, str] = {}
        for name, spec in self.streams.items():
            place = f"stream {name!r}"
            with found.gathering():
                duration_us(spec.trigger, place, "trigger")
            with found.gathering():
                refuse_long_name(name, place)
                schemas[name] = self._schema(spec)
            if name in schemas:
                with found.gathering():
                    times |= event_times({name: spec}, schemas)
        for view in self.views.values():
            with found.gathering():
                refuse_long_name(box_name(view.name), view.place)
        return schemas, times

    def _schema(self, spec: StreamSpec) -> StructType:
        if spec.format == GENERATOR:
            return generator_schema(spec)
        return stream_schema(self.spark, spec, self.folder)

    def _check_queries(
        self, checker: Checker, views: Views, found: Findings
    ) -> dict[str, CheckedQuery]:
        """Those that may run."""
        checked: dict[str, CheckedQuery] = {}
        for name, declared in self.queries.items():
            with found.gathering(), views.forgiving():
                checked[name] = self._check_query(checker, views, declared)
            self._check_beside(declared, checked.get(name), found)
        if not self.queries:
            found.add(ConfigError(self.name, "declares no query", "add one"))
        return checked

    def _check_query(self, checker: Checker, views: Views, declared: DeclaredQuery) -> CheckedQuery:
        spec = declared.spec
        if declared.function is not None:
            reads = tuple(signature(declared.function).parameters)
            checked = checker.function(spec.name, declared.function, reads, spec.place, spec.mode)
        else:
            checked = views.check(spec.name, spec.sql or "", spec.place, spec.mode)
        check_mode(checked, spec, {**self.streams, **views.streams})
        return checked

    def _check_beside(
        self, declared: DeclaredQuery, checked: CheckedQuery | None, found: Findings
    ) -> None:
        """What a query declares beside its SQL: its class and its sink."""
        spec = declared.spec
        known = list(self.classes) or [DEFAULT_CLASS]
        if spec.cls not in known:
            finding = f"class {spec.cls!r} is not declared"
            found.add(ConfigError(spec.place, finding, suggestion(spec.cls, known)))
        with found.gathering():
            make_sink(
                spec.name, spec.sink or MEMORY, self.folder, Path("staging"),
                place=spec.place, callback=declared.callback,
                schema=None if checked is None else checked.arrow_schema(),
                mode=spec.mode,
            )  # fmt: skip

    def _shared(self, views: Views, checked: Mapping[str, CheckedQuery]) -> list[QuerySpec]:
        """The queries that compute views."""
        classes = {n: d.spec.cls for n, d in self.queries.items()}
        rank = {c.name: -c.priority for c in self.classes.values()}
        return views.specs(checked, classes, rank)

    def _network(
        self, checked: Mapping[str, CheckedQuery], queries: Sequence[DeclaredQuery]
    ) -> Network:
        """On Spark a query is one box, and so is a view, which feeds a stream of its own."""
        read = {s for c in checked.values() for s in c.reads}
        return Network(
            streams=[Stream(name=s) for s in (*self.streams, *self.views) if s in read],
            boxes=[Box(name=n, inputs=c.reads, kind="filter") for n, c in checked.items()],
            queries=[
                Query(
                    name=s.name,
                    output=s.name,
                    cls=s.cls,
                    qos=s.qos,
                    weight=s.weight,
                    subscribers=s.subscribers,
                )
                for s in (query.spec for query in queries)
            ],
            classes=self.classes.values(),
        )

    def _fingerprint(self, declared: DeclaredQuery, checked: Mapping[str, CheckedQuery]) -> str:
        """Changes when the query's meaning may have: its SQL, or the text of its function."""
        spec = declared.spec
        if declared.function is not None:
            try:
                text = getsource(declared.function)
            except OSError:  # typed into a console: no text to compare
                text = declared.function.__qualname__
            return fingerprint(f"{spec.mode or ''}{text}")
        # A query that reads through views holds their SQL, too.
        through = checked[spec.name].reads_through
        return query_fingerprint(spec, *(self.views[name].sql for name in through))
