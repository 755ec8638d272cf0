"""Answers: stages that add up however they are rounded, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.model.errors import ConfigError
from daybreak.report.why import rounded_to
from daybreak.runtime.why.answers import SlowAnswer, WaitPart, in_order
from daybreak.runtime.why.findings import seconds_of, why

instants = st.integers(-(10**10), 10**12)


def answer(stamps: list[int], created: int | None = None, parts: str = "") -> SlowAnswer:
    arrival, ingested, decided, begun, computed, committed, delivered = stamps
    return SlowAnswer(
        "q", 1, "s", 0, 1, created, arrival, ingested, decided, begun, computed, committed,
        delivered, 1, "prepared", 0, 0, parts,
    )  # fmt: skip


@given(st.lists(instants, min_size=7, max_size=7), st.integers(0, 10**10))
def test_stages_add_up_to_the_millisecond(stamps: list[int], late: int) -> None:
    stamps.sort()
    found = answer(stamps, stamps[0] - late)
    stages = found.stages_ms()
    inside = sum(ms for name, ms in stages.items() if name not in ("created", "delivered"))
    assert inside == found.response_ms
    assert min(stages.values()) >= 0
    assert sum(found.lost().values()) == found.whole_ns


@given(st.lists(instants, min_size=1, max_size=6), instants)
def test_stamps_of_several_clocks_are_put_in_order(stamps: list[int], committed: int) -> None:
    found = in_order(stamps, committed)
    assert found == sorted(found)
    assert found[-1] <= committed


@given(st.lists(st.integers(0, 10**10), max_size=6))
def test_the_parts_of_a_wait_add_up_when_they_are_shown(parts: list[int]) -> None:
    whole_ms = round(sum(parts) / 1e6)
    assert sum(rounded_to(parts, whole_ms)) == whole_ms


def test_a_wait_of_which_only_a_part_is_known_says_so() -> None:
    parts = json.dumps([WaitPart("paused", 3, "it was paused")])
    found = answer([0, 1, 11, 11, 11, 11, 11], None, parts)
    assert found.causes()[0] == ("unexplained", 7)
    assert dict(found.causes())["paused"] == 3


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("90 s", 90), ("2", 2), ("1.5h", 5400)])
def test_spans_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text, "--last") == seconds


@pytest.mark.parametrize("text", ["", "5x", "-1", "0s", "m"])
def test_what_is_no_span_of_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="90s, 5m or 2h"):
        seconds_of(text, "--last")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        why(tmp_path, "q")
