"""The views of an application: checked, put in classes, and known to the queries over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from pyspark.sql.types import StructType

from daybreak.engine.view import SystemFigures
from daybreak.model.errors import ConfigError, Findings
from daybreak.model.network import Network
from daybreak.model.specs import Mode, QuerySpec, SinkSpec, StreamSpec, ViewSpec
from daybreak.spark.sinks.views import FORMAT, box_name
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.forms import OverWindows, SqlBody
from daybreak.spark.sql.windows.check import check_view_time, refuse_long


class _Application(Protocol):
    @property
    def network(self) -> Network: ...
    @property
    def streams(self) -> Mapping[str, StreamSpec]: ...
    @property
    def checked(self) -> Mapping[str, CheckedQuery]: ...


def moved_views(application: _Application, figures: SystemFigures) -> Iterator[tuple[str, int]]:
    """Views that are no longer in the highest class they serve, and which that is now."""
    views = [name for name, spec in application.streams.items() if spec.format == FORMAT]
    index = application.network.query_index
    for view in reversed(views):
        name = box_name(view)
        served = [index[q] for q, query in application.checked.items() if view in query.reads]
        if name not in index or not served:
            continue
        highest = min(figures.query_class[q] for q in served)
        if figures.query_class[index[name]] != highest:
            yield name, highest


class Views:
    """Checks views in the order they are declared, then queries over them."""

    def __init__(
        self,
        views: Mapping[str, ViewSpec],
        checker: Checker,
        max_window_us: int,
        broken: set[str],
        found: Findings,
    ) -> None:
        """``broken``: streams that cannot be read; views that cannot be are added to it.

        What is wrong with views is left in ``found``.
        """
        self._broken = broken
        self._views = views
        self._checker = checker
        self._max_window_us = max_window_us
        #: SQL of the views whose rows stand alone.
        self._plain: dict[str, str] = {}
        #: By the names of their boxes; streams and schemas by the names of the views.
        self.checked: dict[str, CheckedQuery] = {}
        self.streams: dict[str, StreamSpec] = {}
        self.schemas: dict[str, StructType] = {}
        for view in views.values():
            with found.gathering(), self.forgiving():
                self._add(view)
            if view.name not in self.streams:
                broken.add(view.name)

    def _add(self, view: ViewSpec) -> None:
        name = box_name(view.name)
        checked = self.check(name, view.sql, view.place)
        check_view_time(view, checked.windows)
        if checked.windows is None:
            assert isinstance(checked.body, SqlBody)
            self._plain[view.name] = checked.body.text
        self.checked[name] = checked
        self.streams[view.name] = StreamSpec(name=view.name, format=FORMAT, time=view.time)
        self.schemas[view.name] = checked.schema
        self._checker.add_stream(view.name, checked.schema, view.time)

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Leaves out what is wrong only because a stream is, which is reported already."""
        try:
            yield
        except ConfigError as error:
            if not any(f"unknown stream {name!r}" in error.finding for name in self._broken):
                raise

    def check(self, name: str, sql: str, place: str, mode: Mode | None = None) -> CheckedQuery:
        """A query or a view over what is declared so far.

        Windows over a view whose rows stand alone are computed from the view's streams, and so is
        all that is in complete mode.
        """
        if mode == "complete":
            return self._checker.through(name, sql, place, self._plain, mode)
        try:
            checked = self._checker.sql(name, sql, place, mode)
        except ConfigError as error:
            if not self._plain:
                raise
            try:
                checked = self._checker.through(name, sql, place, self._plain)
            except ConfigError:
                raise error from None
            if checked.windows is None or not checked.reads_through:
                raise
        if isinstance(checked.form, OverWindows):
            refuse_long(checked.form.windowing, place, self._max_window_us)
        return checked

    def specs(
        self,
        queries: Mapping[str, CheckedQuery],
        classes: Mapping[str, str],
        rank: Mapping[str, float],
    ) -> list[QuerySpec]:
        """The views that somebody reads, each in the highest class it serves.

        ``classes``: the class of each query; ``rank``: smaller for a more important class.
        """
        wanted: dict[str, list[str]] = {}
        for name, query in queries.items():
            for stream in query.reads:
                wanted.setdefault(stream, []).append(classes[name])
        found: list[QuerySpec] = []
        for view in reversed([*self._views.values()]):
            if view.name not in wanted:
                continue
            name = box_name(view.name)
            cls = min(wanted[view.name], key=lambda c: rank.get(c, 0.0))
            sink = SinkSpec(format=FORMAT)
            found.append(QuerySpec(name=name, cls=cls, sql=view.sql, sink=sink, place=view.place))
            for stream in self.checked[name].reads:
                wanted.setdefault(stream, []).append(cls)
        return found
