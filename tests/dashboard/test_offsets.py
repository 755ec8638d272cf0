"""Offsets and lag of Kafka partitions on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.chromium import chromium
from playwright.sync_api import expect
from tests.runtime.snapshots import snapshot

from daybreak.dashboard.server import Dashboard


@pytest.mark.browser
def test_every_partition_is_listed_with_its_lag() -> None:
    shown = [snapshot()]

    def ask(_command: str, _values: Mapping[str, Any]) -> Any:
        known = shown[0].to_json()
        return known if known["offsets"] else {k: v for k, v in known.items() if k != "offsets"}

    with Dashboard(ask, every_s=0.05) as served, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{served.url}#network")
        rows = page.locator("#offsets tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0).locator("td")).to_have_text(
            ["readings", "weather", "0", "1 234 567", "1 254 567", "20 k"]
        )
        expect(rows.nth(1).locator("td")).to_have_text(
            ["readings", "weather", "1", "90", "–", "–"]  # a dash, as shown
        )
        expect(page.locator("#vitals")).to_contain_text("Kafka lag")
        # A run without Kafka has no such table, nor has one of an earlier version.
        shown[0] = replace(shown[0], pipeline="other", offsets=())
        expect(page.locator("#pipeline")).to_have_text("other")
        expect(page.locator("#offsets")).to_be_hidden()
