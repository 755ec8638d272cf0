"""A query's declaration as JSON: what the control socket is sent, and the commit log keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import DEFAULT_CLASS
from daybreak.model.qos import QoSGraph
from daybreak.model.specs import QuerySpec, SinkSpec

MEMORY = SinkSpec(format="memory")
_KEYS = ("name", "sql", "class", "weight", "qos", "sink", "on_full")


def as_json(spec: QuerySpec) -> dict[str, Any]:
    sink = spec.sink or MEMORY
    return {
        "name": spec.name,
        "sql": spec.sql,
        "class": spec.cls,
        "weight": spec.weight,
        "qos": None if spec.qos is None else [list(point) for point in spec.qos.points],
        "sink": {"format": sink.format, "path": sink.path, "options": dict(sink.options)},
        "on_full": spec.on_full,
    }


def from_text(name: str, text: str) -> QuerySpec:
    """The declaration that the commit log keeps of a query."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"query {name!r}", "was registered, but its declaration cannot be read", "declare it"
        )
    return from_json(found)


def from_json(data: Mapping[str, Any]) -> QuerySpec:
    """The declaration; ``ConfigError`` whatever else the values are."""
    for key in data:
        if key not in _KEYS:
            raise ConfigError("query", f"unknown key {key!r}", suggestion(key, _KEYS))
    name = _text(data, "name", "query", "")
    if not name:
        raise ConfigError("query", "has no name", "name it")
    place = f"query {name!r}"
    sql = _text(data, "sql", place, "")
    if not sql:
        raise ConfigError(place, "has no SQL", "only SQL can be registered while it runs")
    weight = data.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ConfigError(place, f"weight {weight!r}", "give a number in (0, 1]")
    return QuerySpec(
        name=name,
        cls=_text(data, "class", place, DEFAULT_CLASS),
        qos=_graph(data.get("qos"), place),
        weight=float(weight),
        sql=sql,
        sink=_sink(data.get("sink"), place),
        on_full=_on_full(data.get("on_full"), place),
        place=place,
    )


def _text(data: Mapping[str, Any], key: str, place: str, default: str) -> str:
    found = data.get(key)
    if found is None:
        return default
    if not isinstance(found, str):
        raise ConfigError(place, f"{key} is {found!r}", "give a text")
    return found


def _graph(points: Any, place: str) -> QoSGraph | None:
    if points is None:
        return None
    try:
        return QoSGraph(tuple((float(x), float(y)) for x, y in points))
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(place, f"qos {points!r}", "give [latency in s, utility] pairs") from None


def _on_full(value: Any, place: str) -> Literal["skip", "block"] | None:
    if value in (None, "skip", "block"):
        return cast(Literal["skip", "block"] | None, value)
    raise ConfigError(place, f"on_full {value!r}", 'give "skip" or "block"')


def _sink(data: Any, place: str) -> SinkSpec:
    if data is None:
        return MEMORY
    if not isinstance(data, Mapping):
        raise ConfigError(place, f"sink {data!r}", 'give { "format": ..., "path": ... }')
    known = ("format", "path", "options")
    for key in data:
        if key not in known:
            raise ConfigError(place, f"sink: unknown key {key!r}", suggestion(key, known))
    options = data.get("options") or {}
    if not isinstance(options, Mapping):
        raise ConfigError(place, f"sink: options {options!r}", "give an object")
    return SinkSpec(
        format=_text(data, "format", f"{place}: sink", ""),
        path=_text(data, "path", f"{place}: sink", "") or None,
        options={str(k): str(v) for k, v in options.items()},
    )
