"""The stages of an answer add up to the time from its creation to its delivery."""

from __future__ import annotations

import pytest
from benchmarks.stages import breakdown, parse, rows
from benchmarks.versus.stage_child import STAGES, stages_of

from daybreak.runtime.why.answers import SlowAnswer


def answer(created_ns: int | None) -> SlowAnswer:
    return SlowAnswer(
        query="critical-000", tuples=80, stream="readings", segment=1, segment_rows=80,
        created_ns=created_ns, arrival_ns=100, ingested_ns=130, decided_ns=140, begun_ns=150,
        computed_ns=170, committed_ns=200, delivered_ns=210, together=5, way="prepared",
        cold_ns=0, disk_ns=0, parts="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("read_ns", "split"), [(120, (20, 10)), (90, (0, 30)), (500, (30, 0))], ids=str
)
def test_stages_add_up(read_ns: int, split: tuple[int, int]) -> None:
    found = stages_of(answer(60), read_ns)
    assert found == [40, *split, 10, 10, 20, 30, 10]
    assert len(found) == len(STAGES)
    assert sum(found) == 210 - 60
    assert stages_of(answer(None), read_ns)[0] == 0, "nothing says when its rows were made"


def test_an_answer_counts_once_for_each_query_of_its_job() -> None:
    few = {"class": "critical", "queries": 1, "stages_ns": [10**7] * len(STAGES)}
    many = {"class": "critical", "queries": 99, "stages_ns": [10**6] * len(STAGES)}
    other = {"class": "archive", "queries": 9, "stages_ns": [10**9] * len(STAGES)}
    found = breakdown([few, many, other], "critical")
    assert found["answers"] == 100
    assert found["run"] == {"p50_ms": 1.0, "p95_ms": 1.0}
    assert found["whole"]["p50_ms"] == len(STAGES)
    shown = rows([{"queries": 25, "classes": {"critical": found}}])
    assert shown[0] == ["until", "25 queries"]
    assert [row[0] for row in shown[1:]] == [*STAGES, "whole"]
    assert breakdown([other], "critical") == {"answers": 0}


def test_quick_measures_less() -> None:
    assert parse(["--quick"]).queries == "1,25"
    assert parse([]).queries == "1,25,250"
