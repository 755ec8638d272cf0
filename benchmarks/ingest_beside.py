"""Critical filters beside the backfill of another stream: what one costs the other.

25 critical filters read 800 rows/s. Beside them another stream gets 1.5 million rows at once, for
queries of the lowest class: as one file of a gigabyte, and as 1 000 files. Measured are the filters
alone, each backfill alone and both together, each in a fresh process, in interleaved rounds; a
figure is the median of its rounds.

Stated before measuring: beside a backfill the filters' p95, from a row's creation to its visible
result, is at most 1.3 times what it is alone; a backfill takes at most 1.5 times as long as alone;
no row is missing or there twice. Exits with 0 only if all of it holds.

    python benchmarks/ingest_beside.py --quick --json   # 200 000 rows, one round: five minutes
    python benchmarks/ingest_beside.py --json           # half an hour; --resume goes on
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

LATENCY, DURATION = 1.3, 1.5
QUIET_LOAD, QUIET_WAIT_S = 1.0, 120.0
ALONE = "filters alone"

Record = dict[str, Any]


class Verdict(NamedTuple):
    """A rule, and whether the measurements obey it."""

    goal: str
    holds: bool
    found: str


def steps_of(forms: Sequence[int]) -> list[str]:
    """What a round measures."""
    return [ALONE, *(name for form in forms for name in (alone(form), beside(form)))]


def alone(files: int) -> str:
    return f"backfill of {_files(files)} alone"


def beside(files: int) -> str:
    return f"filters beside a backfill of {_files(files)}"


def _files(files: int) -> str:
    return "one file" if files == 1 else f"{files} files"


def judge(records: Sequence[Record], forms: Sequence[int]) -> list[Verdict]:
    """Every rule, over the medians of all rounds."""
    of = {step: [r for r in records if r["step"] == step] for step in steps_of(forms)}
    failed = [step for step, mine in of.items() if not mine or any("failed" in r for r in mine)]
    if failed:
        return [Verdict("everything runs", False, f"failed: {', '.join(failed)}")]
    found = []
    for form in forms:
        both = of[beside(form)]
        pairs = (
            ("p95_s", LATENCY, of[ALONE], ALONE),
            ("duration_s", DURATION, of[alone(form)], alone(form)),
        )
        for key, most, before, name in pairs:
            mine, other = (float(median(r[key] for r in some)) for some in (both, before))
            what = "p95" if key == "p95_s" else "the backfill"
            goal = f"{beside(form)}: {what} at most {most:g} times that of {name}"
            shown = f"{mine:.3f} s, {other:.3f} s: {mine / other:.2f}"
            found.append(Verdict(goal, mine <= most * other, shown))
    wrong = sum(r["wrong"] for r in records)
    found.append(Verdict("nothing missing, nothing twice", wrong == 0, f"{wrong} rows wrong"))
    return found


def measure(args: argparse.Namespace, record: Record, save: Callable[[], None]) -> None:
    from benchmarks.beside.measuring import FULL, QUICK, backfill, filters_alone
    from benchmarks.beside.workload import Beside

    sizes = QUICK if args.quick else FULL
    task = Beside(str((args.out / "beside").resolve()), ingest=args.ingest)
    known = {(r["round"], r["step"]) for r in record["results"]}
    total, number = sizes.rounds * len(steps_of(sizes.forms)), 0
    calls: dict[str, Callable[[], Record]] = {ALONE: partial(filters_alone, task, sizes)}
    for form in sizes.forms:
        calls[alone(form)] = partial(backfill, task, sizes, form, beside=False)
        calls[beside(form)] = partial(backfill, task, sizes, form, beside=True)
    for turn in range(1, sizes.rounds + 1):
        for step, call in calls.items():
            number += 1
            if (turn, step) in known:
                continue
            wait_until_quiet()
            say(f"{number}/{total}: {step} ...")
            try:
                result = call()
            except RuntimeError as error:
                result = {"failed": str(error)}
            say(f"  {shown(result)}")
            record["results"].append({"round": turn, "step": step, **result})
            save()


def shown(result: Mapping[str, Any]) -> str:
    if "failed" in result:
        return f"failed: {result['failed'].splitlines()[-1]}"
    parts = []
    if "p95_s" in result:
        parts.append(f"critical p50/p95 {result['p50_s']:.3f}/{result['p95_s']:.3f} s")
    if "duration_s" in result:
        parts.append(f"backfill {result['duration_s']:.1f} s")
    return ", ".join([*parts, f"{result['wrong']} rows wrong"])


def wait_until_quiet() -> None:
    until = time.monotonic() + QUIET_WAIT_S
    if os.getloadavg()[0] >= QUIET_LOAD:
        say(f"waiting for a load average below {QUIET_LOAD:g} ...")
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < until:
        time.sleep(1)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ingest_beside.py",
        description="Critical filters beside the backfill of another stream, judged: exits with 0 "
        "only if neither costs the other more than was stated before measuring.",
        epilog="example: python benchmarks/ingest_beside.py --quick --json",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="200 000 rows, one round: about five minutes")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--resume", action="store_true", help="go on where the same command ended")
    add("--ingest", choices=("direct", "spark", "auto"), default="direct")
    add("--out", type=Path, default=Path("reproduced"), help="where the JSON file goes")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.beside.measuring import FULL, QUICK

    from daybreak.spark.session import require_java

    args = parse(argv)
    sizes = QUICK if args.quick else FULL
    require_java()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "ingest-beside.json"
    plan = json.loads(json.dumps({"sizes": asdict(sizes), "ingest": args.ingest}))
    record: Record = {"plan": plan, "load_before": os.getloadavg()[0], "results": []}
    if args.resume and file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        record = before if before["plan"] == plan else record

    def save() -> None:
        file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    measure(args, record, save)
    verdicts = judge(record["results"], sizes.forms)
    record |= {"verdicts": [v._asdict() for v in verdicts], "held": all(v.holds for v in verdicts)}
    save()
    if args.json:
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
    else:
        for verdict in verdicts:
            mark = "holds " if verdict.holds else "MISSED"
            sys.stdout.write(f"{mark} {verdict.goal}: {verdict.found}\n")
    say(f"written: {file}")
    return 0 if record["held"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; --resume goes on")
        sys.exit(130)
