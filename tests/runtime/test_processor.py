"""How busy the cores of this machine are."""

from __future__ import annotations

import os
from pathlib import Path

from daybreak.policies.base import ProcessorUse
from daybreak.runtime.processor import processor_use

STAT = """cpu  400 10 90 1000 50 0 20 30 200 0
cpu0 200 5 45 500 25 0 10 15 100 0
cpu1 200 5 45 500 25 0 10 15 100 0
intr 1234
"""


def test_waiting_for_a_disk_is_idle_and_stolen_time_is_not(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    busy = 400 + 10 + 90 + 20 + 30  # guests are part of what users took
    assert processor_use(stat) == ProcessorUse(2, busy * tick_ns, 1050 * tick_ns)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert processor_use(tmp_path / "none") is None
