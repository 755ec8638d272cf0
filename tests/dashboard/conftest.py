"""A small finished run, simulated in a blink, for servers that need no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from daybreak.dashboard.server import Dashboard
from daybreak.dashboard.source import RunFolder
from daybreak.model import Arrivals, Box, ConfigError, Network, Query, QueryClass, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.simulate import simulate

#: Names that would do harm if they ever became HTML.
NASTY = "<img src=x onerror=alert(1)>"


class Stage:
    """A run on a stage: tells a recorded snapshot, and notes what it is asked to change."""

    def __init__(self, folder: Path) -> None:
        self.recorded = RunFolder(folder)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def __call__(self, command: str, values: Mapping[str, Any]) -> Any:
        if command == "snapshot":
            return self.recorded(command, values)
        if values.get("query") == "unknown":
            raise ConfigError("query 'unknown'", "is not declared", "did you mean 'a'?")
        self.asked.append((command, values))
        return {"done": command}


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=50))],
        boxes=[Box(name=n, inputs=("s",), cost_ns=1_000_000) for n in ("a", NASTY)],
        queries=[
            Query(name="a", output="a", cls="high"),
            Query(name=NASTY, output=NASTY, cls="low"),
        ],
        classes=[QueryClass(name="high", priority=60), QueryClass(name="low", priority=10)],
    )
    schedule = draw_schedule(network, duration_s=5, seed=1)
    report = simulate(network, make_policy_with("stride"), schedule, about={"world": "simulated"})
    folder = tmp_path_factory.mktemp("record")
    report.save(folder)
    return folder


@pytest.fixture(scope="module")
def _running(record: Path) -> Iterator[tuple[Stage, Dashboard]]:
    stage = Stage(record)
    with Dashboard(stage, every_s=0.05) as dashboard:
        yield stage, dashboard


@pytest.fixture
def stage(_running: tuple[Stage, Dashboard]) -> Stage:
    _running[0].asked.clear()
    return _running[0]


@pytest.fixture
def served(_running: tuple[Stage, Dashboard], stage: Stage) -> Dashboard:
    """One server for all tests of a file; ``stage`` is what it shows."""
    return _running[1]
