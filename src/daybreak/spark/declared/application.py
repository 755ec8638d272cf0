"""A checked application, ready to run; nothing has been started or written for it yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.model.declarations import MEMORY
from daybreak.model.errors import ConfigError
from daybreak.model.network import Network
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec, StreamSpec
from daybreak.model.storage import LogUrl
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import all_policies
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Callback, Sink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import ViewSink, box_name
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.static_tables import StaticTables


@dataclass(frozen=True)
class CheckedApplication:
    """A checked application: nothing about it can be wrong any more but the world."""

    name: str
    #: A session of its own, so that later changes of the user's do not reach the queries.
    spark: SparkSession
    #: The time zone of that session.
    timezone: str
    folder: Path
    network: Network
    policy: BasePolicy
    streams: Mapping[str, StreamSpec]
    schemas: Mapping[str, StructType]
    checked: Mapping[str, CheckedQuery]
    specs: Mapping[str, QuerySpec]
    callbacks: Mapping[str, Callback]
    fingerprints: Mapping[str, str]
    #: The longest window that is allowed.
    max_window_us: int
    #: Rows that queries join with.
    tables: StaticTables
    #: The database of the commit log; None: SQLite in the run directory.
    log: LogUrl | None = None
    #: The folder of segments, checkpoints and staged results; None: the run directory.
    store: Path | None = None

    def windows(self) -> dict[str, Windowing]:
        """The windows of each query that has some."""
        found = ((name, checked.windows) for name, checked in self.checked.items())
        return {name: windows for name, windows in found if windows is not None}

    def together(self) -> dict[str, list[str]]:
        """Of each query, the others of its class that can run as one job with it."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name, checked in self.checked.items():
            if (key := checked.form.share_key) is not None:
                groups.setdefault((self.specs[name].cls, key), []).append(name)
        found: dict[str, list[str]] = {name: [] for name in self.checked}
        for group in groups.values():
            for name in group:
                found[name] = [other for other in group if other != name]
        return found

    def sinks(self, run_dir: Path, limit_s: float = 600.0) -> dict[str, Sink]:
        """Makes the sinks, and writes nothing; ``ConfigError`` if one cannot be used.

        ``limit_s``: how long a sink's function may take.
        """
        refuse_overlaps(
            self.specs.values(), self.streams.values(), self.folder, run_dir, self.store
        )
        staging = (self.store or run_dir.resolve()) / "staging"
        return {
            name: make_sink(
                name, spec.sink or MEMORY, self.folder, staging,
                place=spec.place, callback=self.callbacks.get(name), limit_s=limit_s,
                schema=self.checked[name].arrow_schema(), mode=self.checked[name].sink_mode,
            )
            for name, spec in self.specs.items()
            if not (spec.sink and spec.sink.format == VIEW)
        } | self.views(staging)  # fmt: skip

    def views(self, staging: Path) -> dict[str, ViewSink]:
        """What turns the results of views into streams, by the names of their boxes."""
        return {
            name: ViewSink(view, staging, self.checked[name].windows, spec.time)
            for view, spec in self.streams.items()
            if spec.format == VIEW and (name := box_name(view)) in self.checked
        }


def usable_on_spark(policy: BasePolicy) -> BasePolicy:
    """The policy itself; ``ConfigError`` if it makes no sense where a query is one box."""
    if not policy.on_spark:
        usable = [name for name, p in all_policies().items() if p.on_spark]
        raise ConfigError(
            f"policy {policy.name!r}",
            "makes no sense on Spark, where a query is one box",
            f"choose from {', '.join(usable)}",
        )
    return policy
