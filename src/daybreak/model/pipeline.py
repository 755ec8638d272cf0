"""Pipeline files: what a user declares, for the simulator and for Spark alike.

``Pipeline.read`` checks everything that can be checked without running anything; what is left
(does the SQL parse, does the path exist) is the business of ``daybreak check``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from daybreak.model.app_table import AppTable, read_app
from daybreak.model.declarations import (
    read_qos,
    read_query,
    read_sql,
    read_static_table,
    read_stream,
)
from daybreak.model.environment import filled
from daybreak.model.errors import ConfigError, Findings, suggestion
from daybreak.model.limits import Limits
from daybreak.model.network import (
    DEFAULT_CLASS,
    Box,
    BoxKind,
    Network,
    Query,
    QueryClass,
    Service,
    Stream,
    chain,
)
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.shedding import SheddingParams
from daybreak.model.sparkconf import SparkSettings, spark_settings
from daybreak.model.specs import QuerySpec, SimulationParams, StreamSpec, TableSpec, ViewSpec
from daybreak.model.sqlnames import names_in
from daybreak.model.storage import LogUrl
from daybreak.model.tables import Document, Table, params_from

#: Cost per tuple assumed in simulation for a query that declares none.
DEFAULT_COST_US = 50.0


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A whole pipeline file, checked."""

    name: str
    policy: str
    policy_table: Table
    classes: tuple[QueryClass, ...]
    streams: tuple[StreamSpec, ...]
    queries: tuple[QuerySpec, ...]
    simulation: SimulationParams
    #: Load shedding; None: nothing is ever dropped.
    shedding: SheddingParams | None = None
    network: Network
    limits: Limits = field(default_factory=Limits)
    views: tuple[ViewSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    #: The longest window that is allowed on Spark; left out: an hour.
    max_window: str | None = None
    #: The time zone that local times are read and written in; left out: Spark's.
    timezone: str | None = None
    #: The database of the commit log; left out: SQLite in the run directory.
    log: LogUrl | None = None
    #: The folder of segments, checkpoints and staged results; left out: the run directory.
    store: Path | None = None
    #: What Spark is started with.
    spark: SparkSettings = field(default_factory=SparkSettings)
    #: Folder that relative paths are relative to.
    folder: Path = Path()

    @classmethod
    def read(cls, path: Path, findings: Findings | None = None) -> Pipeline:
        """The pipeline in a file; relative paths in it are relative to the file's folder.

        See ``load`` for what is raised.
        """
        return cls.load(Document.read(path), folder=path.parent, findings=findings)

    @classmethod
    def parse(cls, text: str, name: str = "pipeline") -> Pipeline:
        """The pipeline in a text of TOML; relative paths are relative to the working directory.

        ``name``: what messages call it. See ``load`` for what is raised.
        """
        return cls.load(Document.parse(text, name))

    @classmethod
    def load(
        cls, document: Document, folder: Path = Path(), findings: Findings | None = None
    ) -> Pipeline:
        """Raises all that is wrong; with ``findings``, leaves it there and gives what is left."""
        found = Findings() if findings is None else findings
        document = filled(document, found)
        root = document.table()
        stem = Path(document.name).stem
        app = found.tried(lambda: read_app(root, document, stem, folder), AppTable(stem))
        nothing = Table(document, ("policy",), {})
        declared = _Declarations(root, document, folder, found)
        limits = found.tried(lambda: _limits(root, document), Limits())
        pipeline = cls(
            name=app.name,
            policy=app.policy,
            policy_table=found.tried(lambda: root.child("policy"), None) or nothing,
            classes=declared.classes,
            streams=tuple(declared.streams),
            queries=tuple(declared.specs),
            simulation=found.tried(lambda: _simulation(root, document), SimulationParams()),
            shedding=found.tried(lambda: _shedding(root), None),
            network=Network(streams=[], boxes=[], queries=[], classes=declared.classes),
            limits=limits,
            views=tuple(declared.views),
            tables=tuple(declared.tables),
            max_window=app.max_window,
            timezone=app.timezone,
            log=app.log,
            store=app.store,
            spark=found.tried(lambda: _spark(root, folder), SparkSettings()),
            folder=folder,
        )
        with found.gathering():
            root.done()
        if not root.data.get("queries"):
            found.add(root.error("declares no query", "add a [queries.NAME] table"))
        if not found:  # of the rest of a pipeline it would report what follows from the above
            with found.gathering():
                pipeline = replace(pipeline, network=declared.network())
        if findings is None:
            found.raise_any()
        return pipeline


class _Declarations:
    """Classes, streams, views and queries of a file, without those that something is wrong with.

    What reads a stream or view that is left out is left out, too, and not reported.
    """

    def __init__(self, root: Table, document: Document, folder: Path, found: Findings) -> None:
        self._document = document
        self._folder = folder
        self._found = found
        self.classes = found.tried(lambda: _classes(root, found), (QueryClass(name=DEFAULT_CLASS),))
        self.streams: list[StreamSpec] = []
        self.views: list[ViewSpec] = []
        self.tables: list[TableSpec] = []
        self.specs: list[QuerySpec] = []
        self._boxes: list[Box] = []
        self._queries: list[Query] = []
        self._readable: tuple[str, ...] = ()
        self._broken: tuple[str, ...] = ()
        for key, add in (
            ("streams", self._add_stream),
            ("tables", self._add_table),
            ("boxes", self._add_box),
            ("views", self._add_view),
            ("queries", self._add_query),
        ):
            with found.gathering():
                for name, table in root.children(key):
                    with found.gathering():
                        add(name, table)
        with found.gathering():
            refuse_overlaps(self.specs, self.streams, folder)

    def network(self) -> Network:
        try:
            return Network(
                streams=[Stream(name=s.name, arrivals=s.arrivals) for s in self.streams],
                boxes=self._boxes,
                queries=self._queries,
                classes=self.classes,
            )
        except ConfigError as error:
            raise _placed(self._document, error) from error

    def _add_stream(self, name: str, table: Table) -> None:
        self._readable = (*self._readable, name)
        self._broken = (*self._broken, name)
        self.streams.append(read_stream(name, table))
        self._broken = self._broken[:-1]

    def _add_table(self, name: str, table: Table) -> None:
        self._broken = (*self._broken, name)
        self.tables.append(read_static_table(name, table))
        if name in self._readable:
            raise table.error("is also the name of a stream", "rename one of them")
        self._broken = self._broken[:-1]

    def _add_box(self, name: str, table: Table) -> None:
        self._boxes.append(_box(name, table))

    def _add_view(self, name: str, table: Table) -> None:
        readable, self._readable = self._readable, (*self._readable, name)
        self._broken = (*self._broken, name)
        view, box = _view(name, table, readable, self._folder)
        if _streams_read(view.sql, self._broken[:-1]):
            return
        self.views.append(view)
        self._boxes.append(box)
        self._broken = self._broken[:-1]

    def _add_query(self, name: str, table: Table) -> None:
        spec, query, own = _query(name, table, self._readable, self._folder)
        known = [c.name for c in self.classes]
        if spec.cls not in known:
            finding = f"class {spec.cls!r} is not declared"
            self._found.add(table.error(finding, suggestion(spec.cls, known), "class"))
            spec = replace(spec, cls=known[0])  # its SQL and its sink are still looked at
        if _streams_read(spec.sql or "", self._broken):
            return
        self.specs.append(spec)
        self._queries.append(query)
        self._boxes.extend(own)


def _simulation(root: Table, document: Document) -> SimulationParams:
    table = root.child("simulation") or Table(document, ("simulation",), {})
    return params_from(table, SimulationParams)


def _shedding(root: Table) -> SheddingParams | None:
    table = root.child("shedding")
    return params_from(table, SheddingParams) if table is not None else None


def _spark(root: Table, folder: Path) -> SparkSettings:
    table = root.child("spark")
    return SparkSettings() if table is None else spark_settings(table, folder)


def _limits(root: Table, document: Document) -> Limits:
    table = root.child("limits") or Table(document, ("limits",), {})
    if "log_max_bytes" in table.data:
        raise table.error("unknown key 'log_max_bytes'", "give it as max_bytes in [log]")
    log = root.child("log") or Table(document, ("log",), {})
    max_bytes = log.get("max_bytes", int)
    log.done()
    if max_bytes is not None and max_bytes <= 0:
        raise log.error(f"max_bytes {max_bytes}", "give more than 0", "max_bytes")
    limits = params_from(table, Limits)
    return limits if max_bytes is None else replace(limits, log_max_bytes=max_bytes)


def _placed(document: Document, error: ConfigError) -> ConfigError:
    """Gives an error of the network its line in the file."""
    match = re.fullmatch(r"(box|query|class|stream) '(.*)'", error.place)
    if match:
        tables = {"box": "boxes", "query": "queries", "class": "classes", "stream": "streams"}
        path = (tables[match[1]], match[2])
        return ConfigError(document.place(path), error.finding, error.remedy)
    return ConfigError(f"{document.name}: {error.place}", error.finding, error.remedy)


def _classes(root: Table, errors: Findings) -> tuple[QueryClass, ...]:
    """A class that something is wrong with is still declared: its queries are right to name it."""
    table = root.child("classes")
    if table is None:
        return (QueryClass(name=DEFAULT_CLASS),)
    found = [
        errors.tried(partial(read_class, table, name), QueryClass(name=name or DEFAULT_CLASS))
        for name in table.data
    ]
    return tuple(found) or (QueryClass(name=DEFAULT_CLASS),)


def read_class(table: Table, name: str) -> QueryClass:
    """The class of this name in a table of classes: a priority, or a table with one."""
    table.known.add(name)
    qos, value = None, table.data[name]
    if isinstance(value, dict):
        own = Table(table.document, (*table.path, name), value)
        priority = own.need("priority", float, "give the class a priority above 0")
        qos = read_qos(own)
        own.done()
    else:
        priority = cast(float, table.get(name, float))
    try:
        return QueryClass(name=name, priority=priority, qos=qos)
    except ConfigError as error:
        raise table.error(error.finding, error.remedy, name) from error


def _box(name: str, table: Table) -> Box:
    inputs = table.strings("inputs") or ()
    return _make_box(name, inputs, table)


def _make_box(name: str, inputs: tuple[str, ...], table: Table) -> Box:
    cost_us = table.get("cost_us", float, DEFAULT_COST_US) or 0.0
    call_us = table.get("call_us", float, 0.0) or 0.0
    wait_us = table.get("wait_us", float, 0.0) or 0.0
    selectivity = table.get("selectivity", float)
    kind = table.get("kind", str) or "filter"
    service = table.get("service", str) or "constant"
    tuple_bytes = table.get("tuple_bytes", int)
    table.done()
    try:
        return Box(
            name=name,
            inputs=inputs,
            kind=cast(BoxKind, kind),
            cost_ns=round(min(cost_us, 1e13) * 1000),
            call_ns=round(min(call_us, 1e13) * 1000),
            wait_ns=round(min(wait_us, 1e13) * 1000),
            selectivity=1.0 if selectivity is None else selectivity,
            service=cast(Service, service),
            tuple_bytes=100 if tuple_bytes is None else tuple_bytes,
        )
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error


def _view(name: str, table: Table, readable: tuple[str, ...], folder: Path) -> tuple[ViewSpec, Box]:
    """A view over streams and over views that are declared before it."""
    sql = read_sql(table, folder)
    if sql is None:
        raise table.error("has no SQL", 'give it sql = "SELECT ..."')
    time = table.get("time", str)
    reads = _streams_read(sql, readable)
    if not reads:
        raise table.error("its SQL names no declared stream", suggestion("", readable), "sql")
    place = table.document.place(table.path)
    return ViewSpec(name=name, sql=sql, time=time, place=place), _make_box(name, reads, table)


def _query(
    name: str, table: Table, streams: tuple[str, ...], folder: Path
) -> tuple[QuerySpec, Query, list[Box]]:
    spec = read_query(name, table, folder)
    output, boxes = _query_boxes(name, table, spec.sql, streams)
    table.done()
    try:
        query = Query(
            name=name, output=output, cls=spec.cls, qos=spec.qos, weight=spec.weight,
            subscribers=spec.subscribers,
        )  # fmt: skip
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error
    return spec, query, boxes


def _query_boxes(
    name: str, table: Table, sql: str | None, streams: tuple[str, ...]
) -> tuple[str, list[Box]]:
    """The boxes a query brings: a named output box, a chain, or one box for its SQL."""
    output, source = table.get("box", str), table.get("from", str)
    links = table.get("chain", list)
    given = [key for key, value in (("box", output), ("chain", links), ("sql", sql)) if value]
    if len(given) != 1:
        raise table.error(
            f"declares {' and '.join(given) or 'no work'}",
            'give exactly one of sql = "...", chain = [...] or box = "NAME"',
        )
    if output is not None:
        return output, []
    if links is not None:
        if source is None:
            raise table.error("a chain needs its stream", 'add from = "STREAM"')
        return f"{name}.{len(links)}", _chain(name, source, table, links)
    reads = (source,) if source else _streams_read(sql or "", streams)
    if not reads:
        raise table.error(
            "its SQL names no declared stream",
            suggestion("", streams),
            "sql",
        )
    numbers = Table(
        table.document,
        table.path,
        {k: table.data[k] for k in ("cost_us", "call_us", "selectivity") if k in table.data},
    )
    table.known |= {"cost_us", "call_us", "selectivity"}
    return name, [_make_box(name, reads, numbers)]


def _chain(name: str, source: str, table: Table, links: list[Any]) -> list[Box]:
    boxes = []
    for i, (link, plain) in enumerate(
        zip(links, chain(name, source, [0] * len(links)), strict=True)
    ):
        if not isinstance(link, dict):
            raise table.error(f"chain has {link!r}", "give { cost_us = ..., selectivity = ... }")
        own = Table(table.document, (*table.path, f"chain {i + 1}"), link)
        boxes.append(_make_box(plain.name, plain.inputs, own))
    return boxes


def _streams_read(sql: str, streams: tuple[str, ...]) -> tuple[str, ...]:
    """Declared streams and views that the SQL names."""
    names = names_in(sql)
    return tuple(name for name in streams if name.lower() in names)
