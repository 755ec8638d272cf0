"""Pipeline files: what a user declares, for the simulator and for Spark alike.

``Pipeline.read`` checks everything that can be checked without running anything; what is left
(does the SQL parse, does the path exist) is the business of ``daybreak check``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.errors import ConfigError, suggestion
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
from daybreak.model.qos import QoSGraph
from daybreak.model.shedding import SheddingParams
from daybreak.model.specs import QuerySpec, SimulationParams, SinkSpec, StreamSpec, ViewSpec
from daybreak.model.sqlnames import names_in
from daybreak.model.tables import Document, Table, params_from
from daybreak.model.timezone import check_timezone

DEFAULT_POLICY = "stride"
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
    #: The longest window that is allowed on Spark; left out: an hour.
    max_window: str | None = None
    #: The time zone that local times are read and written in; left out: Spark's.
    timezone: str | None = None
    #: Folder that relative paths are relative to.
    folder: Path = Path()

    @classmethod
    def read(cls, path: Path) -> Pipeline:
        return cls.load(Document.read(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, name: str = "pipeline") -> Pipeline:
        return cls.load(Document.parse(text, name))

    @classmethod
    def load(cls, document: Document, folder: Path = Path()) -> Pipeline:
        root = document.table()
        app = root.child("app") or Table(document, ("app",), {})
        policy = app.get("policy", str) or DEFAULT_POLICY
        name = app.get("name", str) or Path(document.name).stem
        max_window = app.get("max_window", str)
        timezone = _timezone(app)
        app.done()
        policy_table = root.child("policy") or Table(document, ("policy",), {})
        classes = _classes(root)
        streams = tuple(_stream(name, table) for name, table in root.children("streams"))
        boxes = [_box(name, table) for name, table in root.children("boxes")]
        views: list[ViewSpec] = []
        readable = tuple(s.name for s in streams)
        for view_name, table in root.children("views"):
            view, box = _view(view_name, table, readable, folder)
            readable = (*readable, view_name)
            views.append(view)
            boxes.append(box)
        specs: list[QuerySpec] = []
        queries: list[Query] = []
        for query_name, table in root.children("queries"):
            spec, query, own = _query(query_name, table, readable, folder)
            specs.append(spec)
            queries.append(query)
            boxes.extend(own)
        simulation_table = root.child("simulation") or Table(document, ("simulation",), {})
        simulation = params_from(simulation_table, SimulationParams)
        limits = _limits(root, document)
        shedding_table = root.child("shedding")
        shedding = (
            params_from(shedding_table, SheddingParams) if shedding_table is not None else None
        )
        root.done()
        if not queries:
            raise root.error("declares no query", "add a [queries.NAME] table")
        refuse_overlaps(specs, streams, folder)
        try:
            network = Network(
                streams=[Stream(name=s.name, arrivals=s.arrivals) for s in streams],
                boxes=boxes,
                queries=queries,
                classes=classes,
            )
        except ConfigError as error:
            raise _placed(document, error) from error
        return cls(
            name=name,
            policy=policy,
            policy_table=policy_table,
            classes=classes,
            streams=streams,
            queries=tuple(specs),
            simulation=simulation,
            shedding=shedding,
            network=network,
            limits=limits,
            views=tuple(views),
            max_window=max_window,
            timezone=timezone,
            folder=folder,
        )


def _timezone(app: Table) -> str | None:
    name = app.get("timezone", str)
    if name is None:
        return None
    try:
        return check_timezone(name, "[app]")
    except ConfigError as error:
        raise app.error(error.finding, error.remedy, "timezone") from error


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


def qos_graph(table: Table, key: str = "qos") -> QoSGraph | None:
    """A QoS graph given as ``[[latency_s, utility], ...]``."""
    raw = table.get(key, list)
    if raw is None:
        return None
    points: list[tuple[float, float]] = []
    for point in raw:
        pair = point if isinstance(point, list) else []
        if len(pair) != 2 or not all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in pair
        ):
            raise table.error(
                f"{key} has a point {point!r}", "give [latency in s, utility] pairs", key
            )
        points.append((float(pair[0]), float(pair[1])) if abs(pair[0]) < 1e300 else (1e300, 0.0))
    try:
        return QoSGraph(tuple(points))
    except ConfigError as error:
        raise table.error(f"{key}: {error.finding}", error.remedy, key) from error


def _classes(root: Table) -> tuple[QueryClass, ...]:
    table = root.child("classes")
    if table is None:
        return (QueryClass(name=DEFAULT_CLASS),)
    found: list[QueryClass] = []
    for name, value in table.data.items():
        table.known.add(name)
        qos = None
        if isinstance(value, dict):
            own = Table(table.document, (*table.path, name), value)
            priority = own.need("priority", float, "give the class a priority above 0")
            qos = qos_graph(own)
            own.done()
        else:
            priority = cast(float, table.get(name, float))
        try:
            found.append(QueryClass(name=name, priority=priority, qos=qos))
        except ConfigError as error:
            raise table.error(error.finding, error.remedy, name) from error
    return tuple(found) or (QueryClass(name=DEFAULT_CLASS),)


def _stream(name: str, table: Table) -> StreamSpec:
    options = {k: _option(table, k, v) for k, v in (table.get("options", dict) or {}).items()}
    path = table.get("path", str)
    if path is not None:
        options["path"] = path
    arrivals = table.child("arrivals")
    spec = StreamSpec(
        name=name,
        arrivals=None if arrivals is None else _arrivals(arrivals),
        format=table.get("format", str),
        schema=table.get("schema", str),
        options=options,
        time=table.get("time", str),
        watermark=table.get("watermark", str),
        idle_timeout=table.get("idle_timeout", str),
        retain=table.get("retain", str),
        trigger=table.get("trigger", str) or "100 milliseconds",
    )
    table.done()
    return spec


def _option(table: Table, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise table.error(f"option {key} is {value!r}", "options are texts, numbers or flags", key)


def _arrivals(table: Table) -> Arrivals:
    phases: list[Phase] = []
    for raw in table.get("phases", list) or []:
        if not isinstance(raw, dict):
            raise table.error(f"phases has {raw!r}", "give { factor = ..., duration_s = ... }")
        phases.append(params_from(Table(table.document, (*table.path, "phases"), raw), Phase))
    plain = Table(
        table.document, table.path, {k: v for k, v in table.data.items() if k != "phases"}
    )
    base = params_from(plain, _PlainArrivals)
    try:
        return Arrivals(**{**base.given(), "phases": tuple(phases)})
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error


@dataclass(frozen=True)
class _PlainArrivals:
    """The keys of ``arrivals`` that are plain values."""

    process: str = "poisson"
    rate_per_s: float | None = None
    burst: int = 1
    batch_s: float | None = None
    trace: str | None = None
    offset: float = 0.0

    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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
    sql = _sql(table, folder)
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
    weight = table.get("weight", float, 1.0) or 0.0
    subscribers = table.get("subscribers", int)
    if subscribers is not None and "weight" in table.data:
        raise table.error("has a weight and subscribers", "keep one of them", "subscribers")
    cls = table.get("class", str) or DEFAULT_CLASS
    qos = qos_graph(table)
    sql = _sql(table, folder)
    sink = _sink(table)
    on_full = table.get("on_full", str)
    if on_full not in (None, "skip", "block"):
        raise table.error(f"on_full {on_full!r}", 'give "skip" or "block"', "on_full")
    output, boxes = _query_boxes(name, table, sql, streams)
    table.done()
    try:
        query = Query(
            name=name, output=output, cls=cls, qos=qos, weight=weight, subscribers=subscribers
        )
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error
    spec = QuerySpec(
        name=name,
        cls=cls,
        qos=qos,
        weight=weight,
        subscribers=subscribers,
        sql=sql,
        sink=sink,
        on_full=cast(Literal["skip", "block"] | None, on_full),
        place=table.document.place(table.path),
    )
    return spec, query, boxes


def _sql(table: Table, folder: Path) -> str | None:
    sql, file = table.get("sql", str), table.get("sql_file", str)
    if sql is not None and file is not None:
        raise table.error("has both sql and sql_file", "keep one of them")
    if file is None:
        return sql
    try:
        return (folder / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise table.error(
            f"sql_file {file!r} cannot be read ({error})", "check the path", "sql_file"
        ) from error


def _sink(table: Table) -> SinkSpec | None:
    sink = table.child("sink")
    if sink is None:
        return None
    options = {k: _option(sink, k, v) for k, v in (sink.get("options", dict) or {}).items()}
    spec = SinkSpec(
        format=sink.need("format", str, 'give a format, such as "parquet"'),
        path=sink.get("path", str),
        options=options,
    )
    sink.done()
    return spec


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
