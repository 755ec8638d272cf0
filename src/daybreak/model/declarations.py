"""Declarations of streams and queries, read in one way wherever they come from.

A pipeline file, a request as JSON and the arguments of a Python call all become a ``Table``, so a
mistake is found by the same rules and reported in the same words; only the place differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, cast

from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.durations import duration_us
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import DEFAULT_CLASS
from daybreak.model.qos import QoSGraph
from daybreak.model.specs import INGEST_WAYS, MODES, QuerySpec, SinkSpec, StreamSpec, TableSpec
from daybreak.model.tables import Named, Table, flat, params_from
from daybreak.model.texts import refuse_surrogates

#: Where rows go that nobody gave a sink for.
MEMORY = SinkSpec(format="memory")
_DEFAULT_TRIGGER = "100 milliseconds"


def read_stream(name: str, table: Table) -> StreamSpec:
    """All of a stream's table."""
    options = _options(table)
    path = table.get("path", str)
    if path is not None:
        options["path"] = path
    arrivals = table.child("arrivals")
    ingest = table.get("ingest", str, "auto")
    if ingest not in INGEST_WAYS:
        raise table.error(f"ingest {ingest!r}", suggestion(ingest or "", INGEST_WAYS), "ingest")
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
        trigger=table.get("trigger", str) or _DEFAULT_TRIGGER,
        ingest=ingest,
    )
    table.done()
    return spec


def read_static_table(name: str, table: Table) -> TableSpec:
    """All of a static table's declaration."""
    spec = TableSpec(
        name=name,
        format=table.need("format", str, 'give a format, such as "parquet"'),
        path=table.get("path", str),
        schema=table.get("schema", str),
        options=_options(table),
        refresh=table.get("refresh", str),
        place=table.document.place(table.path),
    )
    if spec.refresh is not None:
        duration_us(spec.refresh, table.document.place(table.path, "refresh"), "refresh")
    table.done()
    return spec


def read_query(name: str, table: Table, folder: Path | None = None) -> QuerySpec:
    """What a query declares beside its boxes; the caller ends with ``table.done()``.

    ``folder``: what ``sql_file`` is relative to; left out: files are not read.
    """
    weight = table.get("weight", float, 1.0) or 0.0
    subscribers = table.get("subscribers", int)
    if subscribers is not None and "weight" in table.data:
        raise table.error("has a weight and subscribers", "keep one of them", "subscribers")
    on_full = table.get("on_full", str)
    if on_full not in (None, "skip", "block"):
        raise table.error(f"on_full {on_full!r}", 'give "skip" or "block"', "on_full")
    mode = table.get("mode", str)
    if mode is not None and mode not in MODES:
        raise table.error(f"mode {mode!r}", suggestion(mode, MODES), "mode")
    return QuerySpec(
        name=name,
        cls=table.get("class", str) or DEFAULT_CLASS,
        qos=read_qos(table),
        weight=weight,
        subscribers=subscribers,
        sql=table.get("sql", str) if folder is None else read_sql(table, folder),
        sink=_sink(table),
        on_full=cast(Literal["skip", "block"] | None, on_full),
        mode=mode,
        place=table.document.place(table.path),
    )


def read_sql(table: Table, folder: Path) -> str | None:
    """SQL in the table, or in a file that it names."""
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


def read_qos(table: Table, key: str = "qos") -> QoSGraph | None:
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


def _sink(table: Table) -> SinkSpec | None:
    sink = table.child("sink")
    if sink is None:
        return None
    options = _options(sink)
    spec = SinkSpec(
        format=sink.need("format", str, 'give a format, such as "parquet"'),
        path=sink.get("path", str),
        options=options,
        partition_by=_texts(sink, "partition_by"),
    )
    sink.done()
    return spec


def _texts(table: Table, key: str) -> tuple[str, ...]:
    given = table.get(key, list) or []
    if not all(isinstance(item, str) and item for item in given):
        raise table.error(f"{key} {given!r}", f'give names: {key} = ["day"]', key)
    return tuple(given)


def _options(table: Table) -> dict[str, str]:
    given = table.child("options")
    return {} if given is None else flat(given, "option")


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


# Declared in Python or as JSON


def query_from(name: str, values: Mapping[str, Any]) -> QuerySpec:
    """A query from Python's objects, or from JSON; values that are None count as left out."""
    table = _table("query", name, values)
    spec = read_query(name, table)
    table.done()
    return spec


def stream_from(name: str, values: Mapping[str, Any]) -> StreamSpec:
    """A stream from Python's objects."""
    return read_stream(name, _table("stream", name, values))


def static_table_from(name: str, values: Mapping[str, Any]) -> TableSpec:
    """A static table from Python's objects."""
    return read_static_table(name, _table("table", name, values))


def qos_from(values: Any, place: str) -> QoSGraph | None:
    """A QoS graph from Python's objects."""
    return read_qos(Table(Named(place), (), _plain({"qos": values})))


def query_as_json(spec: QuerySpec) -> dict[str, Any]:
    """What ``query_from_json`` reads: for the control socket, and for the commit log."""
    sink = spec.sink or MEMORY
    return {
        "name": spec.name,
        "sql": spec.sql,
        "class": spec.cls,
        **(
            {"weight": spec.weight}
            if spec.subscribers is None
            else {"subscribers": spec.subscribers}
        ),
        "qos": None if spec.qos is None else [list(point) for point in spec.qos.points],
        "sink": {
            "format": sink.format,
            "path": sink.path,
            "options": dict(sink.options),
            **({"partition_by": list(sink.partition_by)} if sink.partition_by else {}),
        },
        "on_full": spec.on_full,
        **({"mode": spec.mode} if spec.mode is not None else {}),
    }


def query_from_json(data: Mapping[str, Any]) -> QuerySpec:
    """The declaration of a query with SQL; ``ConfigError`` whatever else the values are."""
    given = dict(data)
    name = given.pop("name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError("query", "has no name", "name it")
    spec = query_from(name, {"sink": asdict(MEMORY)} | given)
    if not spec.sql:
        raise ConfigError(spec.place, "has no SQL", "only SQL can be registered while it runs")
    return spec


def query_from_text(name: str, text: str) -> QuerySpec:
    """The declaration that the commit log keeps of a query."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"query {name!r}", "was registered, but its declaration cannot be read", "declare it"
        )
    return query_from_json(found)


def _table(kind: str, name: str, values: Mapping[str, Any]) -> Table:
    place, plain = f"{kind} {name!r}", _plain(values)
    refuse_surrogates(name, place)
    refuse_surrogates(plain, place)
    return Table(Named(place), (), plain)


def _plain(value: Any) -> Any:
    """As TOML has it: without None, tuples, paths and objects of ours."""
    if isinstance(value, QoSGraph):
        return [list(point) for point in value.points]
    if isinstance(value, SinkSpec | Arrivals | Phase):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value
