"""The command: which parts to run, what they said, where it is published."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.soaking.disk import disk
from benchmarks.soaking.fuzz import fuzz
from benchmarks.soaking.kafka_kills import soak_kafka
from benchmarks.soaking.kills import kills
from benchmarks.soaking.lost_drivers import soak_drivers
from benchmarks.soaking.present import publish, summary
from benchmarks.soaking.steady import steady
from benchmarks.soaking.table_kills import soak_tables
from rich.console import Console

from daybreak.report.text import table

Part = Callable[[Path], dict[str, Any]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="soak.py",
        description="Kills, a full disk, a long run and nonsense; see the head of soak.py.",
        epilog="Example: python benchmarks/soak.py --only kills --kills 20 --seed 7",
    )
    parts_of_it = ("kills", "drivers", "kafka", "tables", "disk", "steady", "fuzz")
    parser.add_argument("--only", choices=parts_of_it)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--drivers", type=int, default=20, help="lost with their disks")
    parser.add_argument("--kafka-kills", type=int, default=20)
    parser.add_argument("--table-kills", type=int, default=20)
    parser.add_argument("--spells", type=int, default=40, help="how often the disk is filled")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the steady run")
    parser.add_argument("--queries", type=int, default=100, help="of the steady run")
    parser.add_argument("--rate", type=float, default=100.0, help="rows per second of it")
    parser.add_argument("--tries", type=int, default=2000, help="of each kind of nonsense")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--docs", type=Path, help="folder to publish the results in")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    parts: dict[str, Part] = {
        "kills": lambda f: kills(given.kills, given.seed, f, say),
        "drivers": lambda f: soak_drivers(given.drivers, given.seed, f, say),
        "kafka": lambda f: soak_kafka(given.kafka_kills, given.seed, f, say),
        "tables": lambda f: soak_tables(given.table_kills, given.seed, f, say),
        "disk": lambda f: disk(given.spells, given.seed, f, say),
        "steady": lambda f: steady(given.minutes, given.queries, given.rate, f, say),
        "fuzz": lambda f: fuzz(given.tries, given.seed, f, say),
    }
    outcome: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        if given.only in (None, name):
            outcome[name] = in_a_folder(name, part, given.seed)
    if given.docs is not None:
        for path in publish(outcome, given.docs):
            say(f"wrote {path}")
    if given.json:
        print(json.dumps(outcome, indent=2))
    else:
        Console().print(table(summary(outcome)))
    return 1 if any(o["wrong"] for o in outcome.values()) else 0


def in_a_folder(name: str, part: Part, seed: int) -> dict[str, Any]:
    """Runs a part in a new folder, which stays if something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    say(f"{name}, seed {seed}, in {folder}")
    found = part(folder)
    for line in found["wrong"]:
        say(f"WRONG: {line}")
    if not found["wrong"]:
        shutil.rmtree(folder, ignore_errors=True)
    return found
