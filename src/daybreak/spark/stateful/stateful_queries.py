"""The stateful queries of a run: started when they first have something to do."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.engine.inbox import Waiting
from daybreak.spark.failures import LogUnavailable
from daybreak.spark.java.loader import JavaPackage
from daybreak.spark.jobs.committer import Commits, Stepped
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import file_name, make_folder
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.session import cloned
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.forms import FunctionBody, OverState
from daybreak.spark.sql.static_tables import SessionTables, StaticTables
from daybreak.spark.stateful.feed import Feed
from daybreak.spark.stateful.gated_queries import GatedQueries
from daybreak.spark.stateful.stateful_query import StatefulQuery
from daybreak.spark.stateful.steps import named_files
from daybreak.spark.tasks.task import Runnable

_CLASS = "daybreak.stateful.FeedSource"
#: Spark keeps so many versions of a query's state and log, and no more.
_SETTINGS = {"spark.sql.streaming.minBatchesToRetain": "5"}


class StatefulQueries:
    """Makes a ``StatefulQuery`` of each query that runs. Any worker may call it."""

    def __init__(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        rundir: RunDirectory,
        store: SegmentStore,
        log: CommitLog,
        tables: StaticTables,
    ) -> None:
        self._spark = spark
        self._schemas = schemas
        self._folder = rundir.store.root / "state"
        self._store = store
        self._log = log
        self._tables = tables
        self._feed = Feed(rundir.store.root / "feed", store)
        self._guard = threading.Lock()
        self._queries: dict[str, StatefulQuery] = {}
        self._session: SparkSession | None = None
        self._gates: GatedQueries | None = None
        self._source: Any = None

    def run(self, query: Runnable, taken: Sequence[Waiting], commits: Commits, tag: str) -> Stepped:
        """One step of a query; raises what Spark, a sink or the commit raised."""
        found = self._of(query)
        done = found.run(taken, commits, tag)
        with suppress(LogUnavailable):  # the step is made; there is a next time
            self.tidy()
        return done

    def close(self) -> None:
        with self._guard:
            queries, self._queries = list(self._queries.values()), {}
        for query in queries:
            query.stop()
        if self._gates is not None:
            self._gates.close()

    def _of(self, query: Runnable) -> StatefulQuery:
        with self._guard:
            known = self._queries.get(query.name)
            if known is not None and known.query is query:
                return known
            if known is not None:  # dropped, and registered again
                known.stop()
            gates = self._open()
            folder = make_folder(self._folder) / file_name(query.name)
            made = self._queries[query.name] = StatefulQuery(
                query, folder, self._feed, self._store, self._log, gates, self._source.allow,
                self._frame,
            )  # fmt: skip
            return made

    def _open(self) -> GatedQueries:
        if self._gates is None:
            # A session of its own: only its queries get gates.
            session = cloned(self._spark, _SETTINGS)
            self._source = feed_source(session)
            self._session, self._gates = session, GatedQueries(session)
        return self._gates

    def _frame(self, query: Runnable, steps: str) -> DataFrame:
        """The query over its streams; views of their names are made for it alone."""
        session, checked, form = self._session, query.checked, query.checked.form
        assert session is not None
        assert isinstance(form, OverState)
        catalyst = Catalyst(session)
        with self._guard:
            SessionTables(session, catalyst).use(self._tables.current)
            for stream in checked.reads:
                frame = self._rows(session, stream, steps)
                if stream in form.watermarks:
                    frame = frame.withWatermark(*form.watermarks[stream])
                frame.createOrReplaceTempView(quoted(stream))
            body = checked.body
            if isinstance(body, FunctionBody):
                return body.function(*(session.table(quoted(s)) for s in checked.reads))
            for view, parsed in body.through:
                catalyst.frame(parsed, session).createOrReplaceTempView(quoted(view))
            return catalyst.frame(body.parsed, session)

    def _rows(self, session: SparkSession, stream: str, steps: str) -> DataFrame:
        """Spark finds the class of a source by the loader of the thread that asks for it."""
        context: Any = session.sparkContext
        thread = context._jvm.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(_package(session).loader)
        try:
            reader = session.readStream.format(_CLASS).schema(self._schemas[stream])
            return reader.option("steps", steps).option("stream", stream).load()
        finally:
            thread.setContextClassLoader(before)

    def tidy(self) -> None:
        """Stops queries that were dropped, and removes their state and what all have passed."""
        if not self._folder.is_dir() or not self._feed.is_untidy():
            return
        self._store.confirm()
        # In this order: the log knows a query before it runs and has a folder.
        folders = list(self._folder.iterdir())
        with self._guard:
            running = dict(self._queries)
        known = set(self._log.queries())
        for name in running.keys() - known:
            self._stop_dropped(name, running[name])
        named = {file_name(name) for name in known}
        for folder in folders:
            with self._guard:
                # One of the name may have been registered again meanwhile.
                if folder.name not in named | {file_name(name) for name in self._queries}:
                    shutil.rmtree(folder, ignore_errors=True)
        with self._feed.choosing:
            self._feed.tidy(self._needed_from(), named_files(self._folder))

    def _stop_dropped(self, name: str, query: StatefulQuery) -> None:
        with self._guard:
            if self._queries.get(name) is query:
                del self._queries[name]
        query.stop()

    def _needed_from(self) -> dict[str, int]:
        """The first segment of each stream that a query may still read."""
        with self._guard:
            queries = [query.query for query in self._queries.values()]
        cursors = self._log.cursors()
        needed: dict[str, int] = {}
        for query in queries:
            for stream in query.checked.reads:
                at = cursors.get((query.name, stream))
                if at is not None:
                    needed[stream] = min(at.seq, needed.get(stream, at.seq))
        return needed


def feed_source(session: SparkSession) -> Any:
    """A ``FeedSource`` of the driver; all share what queries may read."""
    return _package(session).new("FeedSource")


def _package(session: SparkSession) -> JavaPackage:
    context: Any = session.sparkContext
    return JavaPackage(context._gateway, "stateful")
