"""The catalog: the queries of a run, those of the application and those registered since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from daybreak.model.network import Box, Network, Query, Stream
from daybreak.model.specs import QuerySpec
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.sql.fingerprints import query_fingerprint
from daybreak.spark.tasks.task import Runnable


class Catalog:
    """Changed by one thread, read by any: ``application`` is replaced as a whole."""

    def __init__(self, application: CheckedApplication, sinks: Mapping[str, Sink]) -> None:
        self.application = application
        #: By query, in place: delivery and file sync see a new query's sink at once.
        self.sinks = dict(sinks)
        #: In the order of the network's boxes, which is that of the engine.
        self.runnables = [self._runnable(box.name) for box in application.network.boxes]

    @property
    def network(self) -> Network:
        return self.application.network

    def views(self) -> list[ViewSink]:
        return [sink for sink in self.sinks.values() if isinstance(sink, ViewSink)]

    def sources(self) -> list[str]:
        """Streams that a query reads and a source fills."""
        application = self.application
        read = {s for checked in application.checked.values() for s in checked.reads}
        return [n for n, spec in application.streams.items() if n in read and spec.format != VIEW]

    def with_query(self, spec: QuerySpec, reads: tuple[str, ...]) -> Network:
        """The network with one more query; on Spark a query is one box."""
        box = Box(name=spec.name, inputs=reads, kind="filter")
        query = Query(
            name=spec.name, output=spec.name, cls=spec.cls, qos=spec.qos, weight=spec.weight,
            subscribers=spec.subscribers,
        )  # fmt: skip
        return self.network.with_query(box, query, [Stream(name=s) for s in reads])

    def adopt(self, spec: QuerySpec, runnable: Runnable) -> int:
        """Adds a registered query, or puts it in the place of a dropped one; returns its index."""
        name, known = spec.name, self.application
        network = self.with_query(spec, runnable.checked.reads)
        self.sinks[name] = runnable.sink
        self.application = replace(
            known,
            network=network,
            checked={**known.checked, name: runnable.checked},
            specs={**known.specs, name: spec},
            fingerprints={**known.fingerprints, name: query_fingerprint(spec)},
        )
        box = network.query_index[name]
        self.runnables[box : box + 1] = [runnable]
        return box

    def drop(self, name: str) -> None:
        """A query is gone: its declaration, and so its sink's path, is free for others.

        Its box stays in the network, as its results do in the record.
        """
        known = self.application
        specs = {query: spec for query, spec in known.specs.items() if query != name}
        self.application = replace(known, specs=specs)

    def _runnable(self, name: str) -> Runnable:
        return Runnable(self.application.checked[name], self.sinks[name])
