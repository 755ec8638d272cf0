"""Checks all that an application declares, with Spark, and starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from daybreak.model.errors import ConfigError, Findings
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec, StreamSpec, TableSpec, ViewSpec
from daybreak.model.storage import LogUrl, check_log, check_store
from daybreak.model.texts import refuse_surrogates
from daybreak.model.timezone import check_timezone
from daybreak.policies.base import BasePolicy
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.query_check import DeclaredQuery
from daybreak.spark.declared.stream_check import read_streams
from daybreak.spark.declared.views import Views
from daybreak.spark.log.event_time import duration_us
from daybreak.spark.session import timezone_of, with_timezone
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.static_tables import SessionTables, StaticTables
from daybreak.spark.sql.streaming import watermarks_of


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
        schemas, times = read_streams(
            self.spark, self.streams, self.views.values(), self.folder, found
        )
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
            fingerprints={
                q.spec.name: q.fingerprint(checked[q.spec.name], self.views) for q in queries
            },
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

    def _check_queries(
        self, checker: Checker, views: Views, found: Findings
    ) -> dict[str, CheckedQuery]:
        """Those that may run."""
        checked: dict[str, CheckedQuery] = {}
        for name, declared in self.queries.items():
            with found.gathering(), views.forgiving():
                checked[name] = declared.check(checker, views, self.streams)
            declared.check_beside(checked.get(name), self.classes, self.folder, found)
        if not self.queries:
            found.add(ConfigError(self.name, "declares no query", "add one"))
        return checked

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
