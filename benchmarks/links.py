"""Links: what a scheduling decision costs, and the real link beside the simulator.

    python benchmarks/links.py              # about three minutes
    python benchmarks/links.py --json

The receiver runs as a process of its own (`daybreak link serve`), the sender in this one, over
loopback. Every scheduler plays the traffic of section 4 of the text, four times faster, and the
simulator runs the very same arrivals. It needs a machine with a core to spare: a thread that is
kept waiting sends late.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from time import monotonic, perf_counter_ns
from typing import Any

from rich.console import Console

from daybreak.links.classes import SECTION_4
from daybreak.links.playback import forecast, play
from daybreak.links.registry import SCHEDULERS, make_scheduler
from daybreak.links.scenario import LinkScenario
from daybreak.links.sender import LinkSender, parse_address
from daybreak.links.tuples import LinkTuple
from daybreak.report.text import table

QUEUES = (100, 1_000, 10_000)
#: The belt looks at every slot up to the latest one: ten thousand would take minutes.
BELT_QUEUES = (100, 1_000)


def decision_costs(decisions: int = 10_000) -> list[dict[str, Any]]:
    """Nanoseconds for one arrival and one pick, with this many tuples waiting all the time."""
    found = []
    for name in SCHEDULERS:
        # A bandwidth that makes the hybrid minimum slack; the belt is measured by itself.
        for waiting in BELT_QUEUES if name == "conveyor-belt" else QUEUES:
            found.append(
                {"scheduler": name, "waiting": waiting, "ns": _cost(name, waiting, decisions)}
            )
    return found


def _cost(name: str, waiting: int, decisions: int) -> float:
    if name == "conveyor-belt":
        decisions //= 10
    scheduler = make_scheduler(name, SECTION_4, 1e6)
    slot_ns = int(500 * scheduler.ns_per_byte)
    # Every tuple is due once all that wait before it are sent: nothing expires, nothing idles.
    items = [
        LinkTuple(i % 2, i // 2, 0, (waiting + i + 2) * slot_ns, 500, True, 0)
        for i in range(waiting + decisions)
    ]
    for item in items[:waiting]:
        scheduler.arrive(item, 0)
    began = perf_counter_ns()
    now = 0
    for item in items[waiting:]:
        scheduler.arrive(item, now)
        scheduler.pick(now)
        now += slot_ns
    return (perf_counter_ns() - began) / decisions


def real_links(seconds: float) -> list[dict[str, Any]]:
    found = []
    for name in SCHEDULERS:
        base = LinkScenario(scheduler=name).faster(4)
        found.append(_real(replace(base, duration_s=seconds), "section 4, x 4"))
    # Five hundred transfers a second: pacing must not depend on how exactly a thread wakes up.
    quick = LinkScenario(scheduler="due").faster(100)
    found.append(_real(replace(quick, duration_s=seconds), "section 4, x 100"))
    return found


def _real(scenario: LinkScenario, label: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "daybreak", "link", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--once", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stderr is not None
        address = parse_address(serving.stderr.readline().split()[-1], "receiver")
        sender = LinkSender(
            address, scenario.classes, scenario.bandwidth_bytes_per_s, scenario.scheduler
        )
        with sender:
            began = monotonic()
            play(scenario, 1, sender)
            took_s = monotonic() - began
            sent = sum(c.bytes_sent for c in sender.counters().values())
        received = json.loads(serving.communicate(timeout=30)[0])["classes"]
    simulated = [c.share for c in forecast(scenario, 1)]
    real = [c.share for c in sender.counters().values()]
    return {
        "traffic": label,
        "scheduler": scenario.scheduler,
        "configured_bytes_per_s": scenario.bandwidth_bytes_per_s,
        "achieved_bytes_per_s": sent / took_s,
        "share": real,
        "simulated_share": simulated,
        "points_apart": max(abs(a - b) * 100 for a, b in zip(real, simulated, strict=True)),
        "late": sum(c["late"] for c in received.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="per real run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs = decision_costs()
    links = real_links(options.seconds)
    if options.json:
        print(json.dumps({"costs": costs, "links": links}, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 130)
    rows = [["scheduler", "waiting", "µs per tuple"]]
    rows += [[c["scheduler"], str(c["waiting"]), f"{c['ns'] / 1000:.2f}"] for c in costs]
    console.print(table(rows, "One arrival and one decision"))
    rows = [
        ["traffic", "scheduler", "bytes/s", "achieved", "shares", "simulator", "points", "late"]
    ]
    for r in links:
        shares = [" / ".join(f"{100 * s:.1f}" for s in r[k]) for k in ("share", "simulated_share")]
        achieved = f"{100 * r['achieved_bytes_per_s'] / r['configured_bytes_per_s']:.1f} %"
        what = [r["traffic"], r["scheduler"], f"{r['configured_bytes_per_s']:.0f}", achieved]
        rows.append([*what, *shares, f"{r['points_apart']:.1f}", str(r["late"])])
    console.print(table(rows, "The real link beside the simulator, delivered of arrived, %"))


if __name__ == "__main__":
    main()
