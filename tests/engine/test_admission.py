"""Admission: exact on small cases, and never better off with one more query."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.engine.admission import judge, waits

PRIORITIES = {"high": 60.0, "low": 10.0}


def test_waits_are_cobhams() -> None:
    found = waits(PRIORITIES, {"high": 0.3, "low": 0.4})
    assert found["high"] == pytest.approx(0.7 / (1 * 0.7))
    assert found["low"] == pytest.approx(0.7 / (0.7 * 0.3))


def test_equal_priorities_are_one_class() -> None:
    found = waits({"a": 1.0, "b": 1.0}, {"a": 0.3, "b": 0.2})
    assert found["a"] == found["b"] == pytest.approx(0.5 / 0.5)


def test_a_query_is_admitted_up_to_the_limit() -> None:
    small = judge(PRIORITIES, {"high": 0.3, "low": 0.4}, "low", 0.1, limit=0.9)
    assert small.admitted
    assert small.after == pytest.approx(0.8)
    assert small.longer["high"] == pytest.approx(0.8 / 0.7)  # only by the job under way
    assert small.longer["low"] == pytest.approx((0.8 / (0.7 * 0.2)) / (0.7 / (0.7 * 0.3)))
    large = judge(PRIORITIES, {"high": 0.3, "low": 0.4}, "high", 0.31, limit=0.9)
    assert not large.admitted
    assert math.isinf(large.longer["low"])
    assert json.loads(json.dumps(large.as_json()))["longer"]["low"] is None


def test_express_workers_are_room_for_the_highest_class_alone() -> None:
    """Two workers and an express one: 2.4 threads' worth of work fits if 0.5 of it is urgent."""
    asked = {"high": 0.5, "low": 1.6}
    workers = {"workers": 2, "express": 1}
    fits = judge(PRIORITIES, asked, "low", 0.3, limit=0.98, urgent=("high",), **workers)
    assert fits.admitted
    assert fits.after == pytest.approx(2.4 / 2.5)
    assert judge(PRIORITIES, asked, "high", 0.3, limit=0.98, urgent=("high",), **workers).admitted
    lower = judge(PRIORITIES, {"low": 2.1}, "low", 0.3, limit=0.98, urgent=("high",), **workers)
    assert not lower.admitted, "the express worker does not help the lower class"


loads = st.dictionaries(st.sampled_from("abc"), st.floats(0, 2), max_size=3)


@given(loads, st.sampled_from("abc"), st.floats(0, 1), st.floats(0.1, 1))
def test_nobody_waits_less_for_one_more_query(
    before: dict[str, float], cls: str, added: float, limit: float
) -> None:
    verdict = judge({"a": 3.0, "b": 2.0, "c": 1.0}, before, cls, added, limit)
    assert all(x >= 1 - 1e-9 for x in verdict.longer.values())
    assert verdict.admitted == (verdict.after <= limit)
