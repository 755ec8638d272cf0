"""Plays a scenario's traffic in real time into a sender."""

from __future__ import annotations

import time
from collections.abc import Callable

from daybreak.links.scenario import LinkScenario
from daybreak.links.sender import LinkSender
from daybreak.links.traffic import draw_traffic
from daybreak.links.wire import HEADER_BYTES
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


def _tell(start_ns: int, told: int, on_second: Callable[[float], None]) -> int:
    elapsed_s = (time.monotonic_ns() - start_ns) / NS_PER_S
    if elapsed_s >= told + 1:
        on_second(elapsed_s)
        return int(elapsed_s)
    return told
