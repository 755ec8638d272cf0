"""The plan on the page: periods, shares, what is dropped and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.chromium import chromium
from playwright.sync_api import expect
from tests.runtime.snapshots import snapshot

from daybreak.dashboard.server import Dashboard
from daybreak.runtime.snapshot import Snapshot

pytestmark = pytest.mark.browser

PLAN = {
    "utility": 0.9712,
    "bound": 0.984,
    "usable_workers": 2.43,
    "changes": 3,
    "cells": [
        {"queries": ["slow"], "period_s": None, "share": 0.0, "due_s": None,
         "dropped": "others yield more for the time that it takes"},
        {"queries": ["alarm", "siren"], "period_s": 0.35, "share": 0.124, "due_s": 1e9,
         "dropped": None},
    ],
}  # fmt: skip


def test_cells_are_listed_with_period_share_and_reason() -> None:
    shown = [replace(snapshot(), plan=PLAN)]

    def ask(_command: str, _values: Mapping[str, Any]) -> Any:
        known = shown[0].to_json()
        return known if known["plan"] else {k: v for k, v in known.items() if k != "plan"}

    with Dashboard(ask, every_s=0.05) as served, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{served.url}#schedule")
        rows = page.locator("#plan tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("alarm +1")
        expect(rows.nth(0).locator("td").nth(1)).to_have_text("350 ms")
        expect(rows.nth(0).locator("td").nth(2)).to_have_text("12.4 %")
        expect(rows.nth(0).locator("td").nth(3)).to_contain_text("in ")
        expect(rows.nth(0).locator("td").nth(4)).to_have_text("by plan")
        expect(rows.nth(1)).to_contain_text("from spare time: others yield more")
        expect(page.locator("#plan h2")).to_contain_text("utility 0.971 planned, at most 0.984")
        expect(page.locator("#plan h2")).to_contain_text("cores suffice for 2.4 workers")
        # Other policies do not plan, nor did earlier versions.
        shown[0] = replace(shown[0], pipeline="other", plan=None)
        expect(page.locator("#pipeline")).to_have_text("other")
        expect(page.locator("#plan")).to_be_hidden()


def test_a_plan_travels_with_the_snapshot() -> None:
    one = replace(snapshot(), plan=PLAN)
    assert Snapshot.from_json(one.to_json()).plan == PLAN
