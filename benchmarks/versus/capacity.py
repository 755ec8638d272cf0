"""How many rows per second a side can take when it never has to wait for any."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.versus.feeder import Feeder
from benchmarks.versus.measure import Child, wait_for_all
from benchmarks.versus.visible import Delivered
from benchmarks.versus.workload import Task

FIRST_ROWS = 4_000
MOST_ROWS = 4_096_000
ENOUGH_S = 4.0
LIMIT_S = 120.0


def capacity_per_s(task: Task) -> float:
    """Rows per second over a backlog that takes a few seconds to work off.

    Backlogs, each ten files at once, grow fourfold until one takes at least ``ENOUGH_S`` from
    its creation until its last row is visible in the last sink, twice: the first of a size may
    take long because code is compiled for it.
    """
    work = Path(task.work)
    shutil.rmtree(work, ignore_errors=True)
    task.input.mkdir(parents=True)
    child = Child(work, task.as_json())
    try:
        child.wait_ready()
        feeder = Feeder(task.input, task.rate_per_s, task.filters)
        delivered = Delivered(task.output, task.filters)
        for _ in range(3):  # code is loaded and compiled here
            feeder.burst(FIRST_ROWS)
            wait_for_all(child, feeder, delivered, LIMIT_S)
        rows = FIRST_ROWS
        while True:
            took_s = _took_s(child, feeder, delivered, rows)
            if took_s >= ENOUGH_S or rows >= MOST_ROWS:
                took_s = min(took_s, _took_s(child, feeder, delivered, rows))
                if took_s >= ENOUGH_S or rows >= MOST_ROWS:
                    return rows / took_s
            rows *= 4
    finally:
        child.kill()
        shutil.rmtree(work, ignore_errors=True)


def _took_s(child: Child, feeder: Feeder, delivered: Delivered, rows: int) -> float:
    """From the creation of a backlog until all of it is visible."""
    began_us = time.time_ns() // 1000
    feeder.burst(rows)
    wait_for_all(child, feeder, delivered, LIMIT_S)
    return (delivered.last_us - began_us) / 1e6
