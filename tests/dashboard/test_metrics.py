"""The exposition for Prometheus, as its own parser reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.runtime.snapshots import ODD, snapshot

from daybreak.dashboard.metrics import exposition
from daybreak.runtime.snapshot import Snapshot

ALERTS = Path(__file__).parents[2] / "examples" / "prometheus-alerts.yml"


def families(of: Snapshot) -> dict[str, Metric]:
    found = list(text_string_to_metric_families(exposition(of).decode()))
    assert len({f.name for f in found}) == len(found)
    return {f.name: f for f in found}


def values(family: Metric, **labels: str) -> list[float]:
    return [s.value for s in family.samples if labels.items() <= s.labels.items()]


def test_the_figures_of_the_snapshot_are_there() -> None:
    found = families(snapshot())
    assert values(found["daybreak_run_info"], pipeline="wildfire", policy="stride") == [1.0]
    assert values(found["daybreak_running"]) == [1.0]
    assert values(found["daybreak_decisions"]) == [4021.0]
    assert found["daybreak_decisions"].type == "counter"
    assert values(found["daybreak_scheduling_seconds"]) == [1.5]
    assert values(found["daybreak_class_waiting_tuples"], **{"class": "critical"}) == [88_412.0]
    assert values(found["daybreak_class_starving"]) == [1.0, 0.0]
    assert values(found["daybreak_query_tuples"], query="query-3") == [3000.0]
    assert values(found["daybreak_query_cost_seconds"], query="query-3") == [12.5e-6]
    assert values(found["daybreak_query_state"], query=ODD) == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert values(found["daybreak_query_state"], query=ODD, state="parked") == [1.0]
    assert values(found["daybreak_stream_dead_letters"], stream="readings") == [3.0]
    assert values(found["daybreak_stream_failing"]) == [0.0, 1.0]
    assert values(found["daybreak_log_bytes"]) == [3.0 * 2**30]
    partition = {"stream": "readings", "topic": "weather", "partition": "0"}
    assert values(found["daybreak_kafka_read_offset"], **partition) == [1_234_567.0]
    assert values(found["daybreak_kafka_end_offset"]) == [1_254_567.0], "one does not answer"
    assert values(found["daybreak_kafka_lag_records"], **partition) == [20_000.0]
    waited = found["daybreak_wait_seconds"]
    assert waited.type == "counter"
    assert values(waited, query=ODD, reason="overrun") == [12.5]
    assert values(waited, query="query-3") == [], "only what a query has met has a series"
    ended = families(replace(snapshot(), state="ended", log_max_bytes=None, started_s=None))
    assert values(ended["daybreak_running"]) == [0.0]
    assert "daybreak_log_limit_bytes" not in ended


def test_every_state_of_a_governed_query_is_told() -> None:
    one, other = snapshot().queries[:2]
    failed = one._replace(kind="governed", state="failed")
    free = other._replace(kind="ungoverned", state="free")
    told = replace(snapshot(), queries=(failed, free))
    family = families(told)["daybreak_query_state"]
    for row in told.queries:
        assert values(family, query=row.name, state=row.state) == [1.0]
        assert sum(values(family, query=row.name)) == 1.0


def test_response_times_are_a_summary_and_what_is_unknown_is_left_out() -> None:
    summary = families(snapshot())["daybreak_response_seconds"]
    assert summary.type == "summary"
    told = {(s.name, s.labels["class"], s.labels.get("quantile")): s.value for s in summary.samples}
    assert told == {
        ("daybreak_response_seconds", "critical", "0.5"): 0.1,
        ("daybreak_response_seconds", "critical", "0.95"): 0.9,
        ("daybreak_response_seconds", "critical", "0.99"): 1.5,
        ("daybreak_response_seconds_count", "critical", None): 100_000.0,
        ("daybreak_response_seconds_sum", "critical", None): 20_000.5,
        ("daybreak_response_seconds_count", "archive", None): 0.0,
        ("daybreak_response_seconds_sum", "archive", None): 0.0,
    }
    utility = families(snapshot())["daybreak_class_utility_ratio"]
    assert [s.labels["class"] for s in utility.samples] == ["critical"]


def test_names_follow_the_conventions() -> None:
    for family in families(snapshot()).values():
        assert re.fullmatch(r"daybreak_[a-z]+(_[a-z]+)*", family.name)
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|us|ns|millis|minutes|kb|mb|percent)(_|$)", family.name)
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            assert sample.labels.keys() <= {
                "class", "query", "stream", "state", "quantile", "version", "pipeline", "policy",
                "topic", "partition", "reason",
            }  # fmt: skip


def test_the_number_of_series_is_known() -> None:
    def series(queries: int) -> int:
        return sum(len(f.samples) for f in families(snapshot(queries)).values())

    assert series(250) - series(50) == 200 * 16
    assert len(exposition(snapshot(250))) < 600_000


def test_the_example_alerts_name_what_is_exposed() -> None:
    """Every metric of the file, with the labels it asks for, is in the exposition."""
    text = ALERTS.read_text()
    own, governed = snapshot(), snapshot().queries[0]._replace(kind="governed")
    shown = (own, replace(own, queries=(governed,)))
    exposed = [s for one in shown for f in families(one).values() for s in f.samples]
    asked = set(re.findall(r"\b(daybreak_\w+)(?:\{([^}]*)\})?", text))
    assert len(asked) >= 12
    for name, matchers in asked:
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', matchers))
        assert any(s.name == name and wanted.items() <= s.labels.items() for s in exposed), (
            f"{name}{{{matchers}}}"
        )
    for name in ("BacklogGrows", "ResponseTimePastBound", "QueryParked", "DeadLetters",
                 "SchedulerShareHigh", "LogFilling"):  # fmt: skip
        assert f"- alert: Daybreak{name}\n" in text
