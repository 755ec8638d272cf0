"""Pipeline files: what they mean, and that nothing but our own error comes out of bad ones."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.model import ConfigError, Pipeline
from daybreak.model.tables import Document

GOOD = """
[app]
policy = "fcfs"
[classes]
critical = { priority = 60, qos = [[0, 1.0], [1, 1.0], [2, 0.0]] }
archive = 10
[streams.readings]
format = "json"
path = "in/readings"
schema = "station STRING, temperature INT"
arrivals = { process = "poisson", rate_per_s = 100, phases = [{ factor = 2, duration_s = 5 }] }
[boxes.clean]
inputs = ["readings"]
cost_us = 20
[boxes.hot]
inputs = ["clean"]
cost_us = 5
selectivity = 0.1
[queries.fire]
class = "critical"
box = "hot"
[queries.log]
class = "archive"
weight = 0.5
from = "readings"
chain = [{ cost_us = 1 }, { cost_us = 2, selectivity = 0.5 }]
[queries.sql]
class = "critical"
qos = [[0, 1], [9, 0]]
sql = "SELECT station FROM readings WHERE temperature > 35 -- not from other"
cost_us = 7
sink = { format = "parquet", path = "out/sql" }
[simulation]
duration_s = 5
overheads = "light"
"""


def test_a_pipeline_says_what_was_declared() -> None:
    pipeline = Pipeline.parse(GOOD)
    network = pipeline.network
    assert pipeline.policy == "fcfs"
    assert [c.name for c in network.classes] == ["critical", "archive"]
    assert [b.name for b in network.boxes] == ["clean", "hot", "log.1", "log.2", "sql"]
    assert [b.cost_ns for b in network.boxes] == [20_000, 5_000, 1_000, 2_000, 7_000]
    fire, log, sql = network.queries
    assert fire.qos is not None
    assert fire.qos.deadline_ns == 1_000_000_000
    assert log.qos is None
    assert log.weight == 0.5
    assert sql.qos is not None
    assert sql.qos.points == ((0.0, 1.0), (9.0, 0.0))
    assert pipeline.streams[0].options == {"path": "in/readings"}
    assert pipeline.simulation.duration_s == 5


def test_views_are_boxes_between_streams_and_queries() -> None:
    found = Pipeline.parse(
        """
[app]
max_window = "2 hours"
[streams.readings]
time = "at"
watermark = "3 seconds"
idle_timeout = "1 minute"
retain = "1 day"
[views.means]
sql = "SELECT window.end AS until, avg(t) AS m FROM readings GROUP BY window(at, '1 minute')"
time = "until"
cost_us = 7
[views.high]
sql = "SELECT * FROM means WHERE m > 3"
[queries.q]
sql = "SELECT * FROM high"
"""
    )
    assert found.max_window == "2 hours"
    stream = found.streams[0]
    assert (stream.time, stream.watermark) == ("at", "3 seconds")
    assert (stream.idle_timeout, stream.retain) == ("1 minute", "1 day")
    assert [(v.name, v.time) for v in found.views] == [("means", "until"), ("high", None)]
    inputs = {box.name: box.inputs for box in found.network.boxes}
    assert inputs == {"means": ("readings",), "high": ("means",), "q": ("high",)}
    with pytest.raises(ConfigError, match="names no declared stream"):
        Pipeline.parse('[streams.s]\n[views.v]\nsql = "SELECT 1"\n[queries.q]\nsql = "FROM v"')


def test_sql_may_live_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "fire.sql").write_text("SELECT * FROM readings")
    text = '[streams.readings]\n[queries.fire]\nsql_file = "fire.sql"\n'
    (tmp_path / "p.toml").write_text(text)
    assert Pipeline.read(tmp_path / "p.toml").queries[0].sql == "SELECT * FROM readings"


@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        ('"fcfs"', "3", r"pipeline:3: \[app\]: policy is 3; give a text"),
        ("policy =", "polcy =", r":3: \[app\]: unknown key 'polcy'; did you mean 'policy'"),
        ("[simulation]", "[simulaton]", "unknown key 'simulaton'; did you mean 'simulation'"),
        ('class = "archive"', 'class = "archiv"', "did you mean 'archive'"),
        ('box = "hot"', 'box = "hto"', r":19: \[queries.fire\]: output box 'hto' is not declared"),
        ("[2, 0.0]", "[2, 1.5]", "utility 1.5"),
        ("[1, 1.0], [2, 0.0]", "[1, 0.5], [2, 0.7]", "rises from 0.5 to 0.7"),
        ("[[0, 1], [9, 0]]", "[[0, 1], 9]", "point 9"),
        ("priority = 60", "priority = -1", "priority -1.0"),
        ("archive = 10", 'archive = "ten"', "archive is 'ten'; give a number"),
        ("rate_per_s = 100", "rate_per_s = -5", "rate_per_s -5.0"),
        ("factor = 2", "factr = 2", "unknown key 'factr'; did you mean 'factor'"),
        ("selectivity = 0.1", "selectivity = -0.1", "selectivity -0.1"),
        ('inputs = ["clean"]', 'inputs = ["hot"]', "circle"),
        ('from = "readings"\n', "", "a chain needs its stream"),
        ("weight = 0.5", "weight = 1.5", r"weights lie in \(0, 1\]"),
        ("FROM readings", "FROM reading", "names no declared stream"),
        ('path = "out/sql"', "path = 5", "path is 5"),
        ('format = "parquet"', 'fromat = "parquet"', "format is missing"),
        ('overheads = "light"', 'overheads = "lite"', "did you mean 'light'"),
        ("duration_s = 5\noverheads", "duration_s = 0\noverheads", "duration_s 0"),
        ("[app]", "[app", "not valid TOML"),
        ("cost_us = 7", 'box = "hot"', "declares box and sql"),
        ('sql = "', 'sql_file = "missing', "cannot be read"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_a_remedy(
    find: str, replace: str, message: str
) -> None:
    assert find in GOOD
    with pytest.raises(ConfigError, match=message):
        Pipeline.parse(GOOD.replace(find, replace, 1))


def test_two_queries_cannot_share_a_sink() -> None:
    sink = 'sink = { format = "csv", path = "./out/sql" }'
    with pytest.raises(ConfigError, match="already that of query"):
        Pipeline.parse(GOOD.replace("[queries.log]", f"[queries.log]\n{sink}"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        Pipeline.read(tmp_path / "nowhere.toml")


KEYS = st.sampled_from(
    [
        "app", "classes", "streams", "boxes", "queries", "simulation", "policy", "class", "qos",
        "weight", "sql", "sink", "box", "from", "chain", "inputs", "cost_us", "selectivity",
        "arrivals", "process", "rate_per_s", "burst", "phases", "factor", "duration_s",
        "readings", "fire", "format", "path", "priority", "overheads", "load", "workers", "x",
        "limits", "log", "max_bytes", "retries", "retry_s", "job_timeout_s", "on_full",
    ]
)  # fmt: skip
LEAVES = st.one_of(
    st.integers(), st.floats(), st.booleans(), KEYS, st.text(max_size=5), st.just([[0, 1], [1, 0]])
)
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.dictionaries(KEYS, TREES, max_size=6))
def test_any_data_gives_a_pipeline_or_our_own_error(data: dict[str, Any]) -> None:
    with suppress(ConfigError):
        Pipeline.load(Document("fuzz", "", data))


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(GOOD)), drop=st.integers(0, 8), put=st.text(max_size=4))
def test_any_damage_to_a_file_gives_a_pipeline_or_our_own_error(
    at: int, drop: int, put: str
) -> None:
    with suppress(ConfigError):
        Pipeline.parse(GOOD[:at] + put + GOOD[at + drop :])


def test_a_time_zone_is_checked_by_name() -> None:
    zoned = GOOD.replace("[app]", '[app]\ntimezone = "{}"')
    assert Pipeline.parse(zoned.replace("{}", "Europe/Berlin")).timezone == "Europe/Berlin"
    assert Pipeline.parse(zoned.replace("{}", "+09:00")).timezone == "+09:00"
    assert Pipeline.parse(GOOD).timezone is None
    for name in ("Europe/Berln", "", "../etc/passwd", "Europe", "+9"):
        with pytest.raises(
            ConfigError, match=r"pipeline:3: .*timezone .* is not known; .*give a name"
        ):
            Pipeline.parse(zoned.replace("{}", name))


def test_a_stream_chooses_who_reads_its_source() -> None:
    query = '[queries.q]\nsql = "SELECT * FROM a"'
    declared = '[streams.a]\ningest = "direct"\n[streams.b]\ningest = "spark"\n[streams.c]\n'
    found = Pipeline.parse(declared + query)
    assert [stream.ingest for stream in found.streams] == ["direct", "spark", "auto"]
    with pytest.raises(ConfigError, match=r"ingest 'drict'; did you mean 'direct'\?"):
        Pipeline.parse(f'[streams.a]\ningest = "drict"\n{query}')
