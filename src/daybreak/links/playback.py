"""Plays a scenario's traffic in real time into a sender, and forecasts what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from daybreak.links.frames import HEADER_BYTES
from daybreak.links.link_simulator import ClassCounts, counts, run_link
from daybreak.links.registry import make_scheduler
from daybreak.links.scenario import LinkScenario
from daybreak.links.sender import LinkSender
from daybreak.links.traffic import draw_traffic
from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S


def play(
    scenario: LinkScenario,
    seed: int,
    sender: LinkSender,
    on_second: Callable[[float], None] = lambda _elapsed_s: None,
) -> None:
    """Offers every tuple at its instant, with the size its class declares.

    ``on_second`` is called about once a second with the time since the start.
    """
    for cls in scenario.classes:
        if cls.size_bytes < HEADER_BYTES:
            raise ConfigError(
                f"link class {cls.name!r}",
                f"tuples of {cls.size_bytes} bytes do not hold a frame's header",
                f"give at least {HEADER_BYTES}",
            )
    arrivals = draw_traffic(scenario.classes, scenario.duration_s, seed, rates=scenario.rates)
    start_ns = time.monotonic_ns()
    told = 0
    for item in arrivals:
        while (ahead_ns := start_ns + item.arrived_ns - time.monotonic_ns()) > 0:
            time.sleep(min(ahead_ns / NS_PER_S, 0.5))
            told = _tell(start_ns, told, on_second)
        payload = bytes(item.size_bytes - HEADER_BYTES)
        sender.offer(scenario.classes[item.cls].name, payload, start_ns + item.arrived_ns)


def forecast(scenario: LinkScenario, seed: int) -> list[ClassCounts]:
    """What the simulator makes of the same arrivals, until the last of them is sent or late."""
    arrivals = draw_traffic(scenario.classes, scenario.duration_s, seed, rates=scenario.rates)
    scheduler = make_scheduler(
        scenario.scheduler, scenario.classes, scenario.bandwidth_bytes_per_s, scenario.params
    )
    longest_s = max(c.deadline_s for c in scenario.classes)
    log = run_link(arrivals, scheduler, scenario.duration_s + longest_s, scenario.bandwidths)
    return counts(log, scenario.classes)


def _tell(start_ns: int, told: int, on_second: Callable[[float], None]) -> int:
    elapsed_s = (time.monotonic_ns() - start_ns) / NS_PER_S
    if elapsed_s >= told + 1:
        on_second(elapsed_s)
        return int(elapsed_s)
    return told
