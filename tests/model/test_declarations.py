"""One parser of declarations in TOML, in Python and as JSON: the same rules, the same words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daybreak.model.declarations import (
    MEMORY,
    query_as_json,
    query_from,
    query_from_json,
    query_from_text,
    stream_from,
)
from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.model.qos import QoSGraph
from daybreak.model.specs import SinkSpec

FILE = """
[streams.readings]
format = "json"
schema = "n INT"
path = "in"
options = { maxFilesPerTrigger = 1, multiLine = true }

[queries.fire]
sql = "SELECT n FROM readings"
weight = 0.5
qos = [[0.0, 1.0], [2.0, 0.0]]
sink = { format = "csv", path = "out", options = { header = true } }
on_full = "skip"
"""


def test_a_query_is_the_same_from_a_file_from_python_and_from_json() -> None:
    [declared] = Pipeline.parse(FILE).queries
    values = {
        "sql": "SELECT n FROM readings",
        "weight": 0.5,
        "qos": QoSGraph(((0.0, 1.0), (2.0, 0.0))),
        "sink": SinkSpec(format="csv", path="out", options={"header": "true"}),
        "on_full": "skip",
    }
    python = query_from("fire", values)
    told = query_from_text("fire", json.dumps(query_as_json(python)))
    assert python == told
    assert (python.sql, python.qos, python.sink, python.weight, python.on_full) == (
        declared.sql, declared.qos, declared.sink, declared.weight, declared.on_full,
    )  # fmt: skip
    assert python.place == "query 'fire'"


def test_a_stream_is_the_same_from_a_file_and_from_python() -> None:
    [declared] = Pipeline.parse(FILE).streams
    options = {"maxFilesPerTrigger": 1, "multiLine": True}
    values = {"format": "json", "schema": "n INT", "path": "in", "options": options, "time": None}
    assert stream_from("readings", values) == declared


def test_a_registered_query_keeps_its_subscribers_and_needs_no_sink() -> None:
    spec = query_from_json({"name": "q", "sql": "SELECT 1", "subscribers": 7, "weight": None})
    assert (spec.subscribers, spec.sink) == (7, MEMORY)
    assert query_from_json(query_as_json(spec)) == spec


@pytest.mark.parametrize(
    ("key", "toml", "value", "finding"),
    [
        ("weight", '"much"', "much", "weight is 'much'; give a number"),
        ("weight", "true", True, "weight is True; give a number"),
        ("weight", "nan", float("nan"), "weight is nan; give a finite number"),
        ("on_full", '"wait"', "wait", 'on_full \'wait\'; give "skip" or "block"'),
        ("qos", "[[1.0]]", [[1.0]], r"qos has a point \[1.0\]; give \[latency in s, utility\]"),
        ("wieght", "1.0", 1.0, "unknown key 'wieght'; did you mean 'weight'"),
        ("sink", "{ path = 'x' }", {"path": "x"}, "format is missing"),
        (
            "sink",
            "{ format = 'csv', pth = 'x' }",
            {"format": "csv", "pth": "x"},
            "unknown key 'pth'",
        ),
    ],
)
def test_a_mistake_is_reported_in_the_same_words(
    key: str, toml: str, value: Any, finding: str
) -> None:
    text = f'[streams.s]\nformat = "json"\n[queries.q]\nsql = "SELECT n FROM s"\n{key} = {toml}\n'
    sql = {"sql": "SELECT n FROM s"}
    with pytest.raises(ConfigError, match=finding) as file:
        Pipeline.parse(text)
    with pytest.raises(ConfigError, match=finding) as python:
        query_from("q", {**sql, key: value})
    with pytest.raises(ConfigError, match=finding):
        query_from_json({"name": "q", **sql, key: value})
    assert file.value.finding == python.value.finding
    assert file.value.place.startswith("pipeline:")
    assert python.value.place.startswith("query 'q'")


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        ({}, "has no name"),
        ({"name": 7, "sql": "SELECT 1"}, "has no name"),
        ({"name": "q"}, "has no SQL"),
        ({"name": "q", "sql": "SELECT 1", "sql_file": "/etc/passwd"}, "unknown key 'sql_file'"),
    ],
)
def test_what_cannot_be_registered_is_refused(data: dict[str, Any], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        query_from_json(data)
    with pytest.raises(ConfigError):
        query_from_text("q", json.dumps(data))
    with pytest.raises(ConfigError, match="cannot be read"):
        query_from_text("q", "{")
