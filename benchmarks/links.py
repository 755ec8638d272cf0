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
from functools import partial
from time import perf_counter_ns
from typing import Any

from rich.console import Console

from daybreak.links.frames import HEADER_BYTES
from daybreak.links.link_classes import SECTION_4, LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.playback import forecast, play
from daybreak.links.receiver import LinkReceiver, Received
from daybreak.links.registry import SCHEDULERS, make_scheduler
from daybreak.links.scenario import LinkScenario
from daybreak.links.sender import LinkSender, parse_address
from daybreak.report.text import table

QUEUES = (100, 1_000, 10_000)
#: The belt may look at every slot up to the latest one, which is what the text expects of it.
BELT_QUEUES = (100, 1_000)


def decision_costs(decisions: int = 10_000) -> list[dict[str, Any]]:
    """Nanoseconds for one arrival and one pick, with this many tuples waiting all the time."""
    found = [
        # At this bandwidth the hybrid is minimum slack; the belt is measured by itself.
        {"scheduler": name, "waiting": waiting, "ns": _cost(name, waiting, decisions)}
        for name in SCHEDULERS
        if name != "conveyor-belt"
        for waiting in QUEUES
    ]
    for waiting in BELT_QUEUES:
        worst = _full_belt_cost(waiting, decisions // 10)
        found.append({"scheduler": "conveyor-belt, worst case", "waiting": waiting, "ns": worst})
    return found


def _cost(name: str, waiting: int, decisions: int) -> float:
    scheduler = make_scheduler(name, SECTION_4, 1e6)
    slot_ns = int(500 * scheduler.ns_per_byte)
    # Every tuple is due once all that wait before it are sent: nothing expires, nothing idles.
    items = [
        LinkTuple(i % 2, i // 2, 0, (waiting + i + 2) * slot_ns, 500)
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


def _full_belt_cost(waiting: int, decisions: int) -> float:
    """Every slot is taken by a higher class: the newcomer looks at all of them, in vain."""
    belt = make_scheduler("conveyor-belt", SECTION_4, 1e6)
    slot_ns = int(500 * belt.ns_per_byte)
    for i in range(waiting):
        belt.arrive(LinkTuple(0, 0, 0, (i + 1) * slot_ns, 500), 0)
    newcomers = [LinkTuple(1, i, 0, waiting * slot_ns, 500) for i in range(decisions)]
    began = perf_counter_ns()
    for item in newcomers:
        belt.arrive(item, 0)
    return (perf_counter_ns() - began) / decisions


def pacing(seconds: float = 4.0) -> list[dict[str, Any]]:
    """The bandwidth a sender with a full queue reaches, from its first tuple to its last."""
    found = []
    patient = (LinkClass(name="all", value=1, deadline_s=600, size_bytes=500),)
    for bandwidth in (10_000, 100_000, 1_000_000):
        arrived_ns: list[int] = []
        receiver = LinkReceiver("127.0.0.1", 0, partial(_stamp, arrived_ns))
        with receiver, LinkSender(receiver.address, patient, bandwidth, "fifo") as sender:
            for _ in range(int(bandwidth * seconds / 500)):
                sender.offer("all", bytes(500 - HEADER_BYTES))
            sender.close(drain_s=10 * seconds)
        took_s = (arrived_ns[-1] - arrived_ns[0]) / 1e9
        achieved = 500 * (len(arrived_ns) - 1) / took_s
        found.append({"configured_bytes_per_s": bandwidth, "achieved_bytes_per_s": achieved})
    return found


def _stamp(to: list[int], item: Received) -> None:
    del item
    to.append(perf_counter_ns())


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
            play(scenario, 1, sender)
        received = json.loads(serving.communicate(timeout=30)[0])["classes"]
    simulated = [c.share for c in forecast(scenario, 1)]
    real = [c.share for c in sender.counters().values()]
    return {
        "traffic": label,
        "scheduler": scenario.scheduler,
        "bandwidth_bytes_per_s": scenario.bandwidth_bytes_per_s,
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
    paced = pacing()
    links = real_links(options.seconds)
    if options.json:
        print(json.dumps({"costs": costs, "pacing": paced, "links": links}, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 130)
    rows = [["scheduler", "waiting", "µs per tuple"]]
    rows += [[c["scheduler"], str(c["waiting"]), f"{c['ns'] / 1000:.2f}"] for c in costs]
    console.print(table(rows, "One arrival and one decision"))
    rows = [["configured, bytes/s", "achieved, bytes/s", "off, %"]]
    for p in paced:
        configured, achieved = p["configured_bytes_per_s"], p["achieved_bytes_per_s"]
        off = f"{100 * (achieved / configured - 1):+.2f}"
        rows.append([f"{configured:.0f}", f"{achieved:.0f}", off])
    console.print(table(rows, "Bandwidth of a sender with a full queue"))
    rows = [["traffic", "scheduler", "bytes/s", "shares", "simulator", "points", "late"]]
    for r in links:
        shares = [" / ".join(f"{100 * s:.1f}" for s in r[k]) for k in ("share", "simulated_share")]
        what = [r["traffic"], r["scheduler"], f"{r['bandwidth_bytes_per_s']:.0f}"]
        rows.append([*what, *shares, f"{r['points_apart']:.1f}", str(r["late"])])
    console.print(table(rows, "The real link beside the simulator, delivered of arrived, %"))


if __name__ == "__main__":
    main()
