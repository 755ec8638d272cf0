"""The command line of the comparison."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.versus import goals, plans, present
from benchmarks.versus import pictures as drawn
from benchmarks.versus.measure import Timing
from benchmarks.versus.sides import SIDES
from benchmarks.versus.topic import lent_broker
from benchmarks.versus.workload import Task

from daybreak.cli.console import console, error_console
from daybreak.model.app_table import DEFAULT_POLICY
from daybreak.report.figures import can_draw
from daybreak.report.text import table
from daybreak.spark.session import require_java

GOALS = "goals"
TITLES = {
    "latency": "Latency at a rate everybody is offered",
    "rates": "Up to which rate",
    "mixed": "Filters beside windows, joins, a costly function and a broken sink",
    "overload": "Daybreak and hand-composited code near and beyond capacity",
    "ablation": "What compositing and scheduling buy",
}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="versus_spark.py",
        description="Daybreak beside Structured Streaming alone: latency from a row's creation to "
        "its visibility in a durable Parquet sink.",
        epilog="example: python benchmarks/versus_spark.py --quick --json",
    )
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help="by itself: the goals of ingest at 25 and 250 queries, two rounds, 10 minutes; exits "
        "with 1 if one is missed. With --only, --queries, --mixed, ...: that study in short, 20 s "
        "each",
    )
    add(
        "--goals",
        action="store_true",
        help="all goals of ingest, three rounds: 25, 250 and 1 000 queries, 4 000 rows/s, 100 000 "
        "files in the folder, Kafka, idle CPU; an hour and a half; exits with 1 if one is missed",
    )
    add("--resume", action="store_true", help="go on with --quick or --goals where it ended")
    add("--rounds", type=int, help="of the goals, default 3, quick 2")
    add("--json", action="store_true", help="print JSON instead of tables")
    add("--only", type=_sides, metavar="NAME,...", help=f"of {', '.join(SIDES)}")
    add("--queries", type=_numbers, metavar="N,...", help="default: 1,25,60,250")
    add("--seconds", type=float, help="measured time of each, default 60, quick 20")
    add("--warmup", type=float, help="fed before that, default 20, quick 5")
    add(
        "--rate",
        type=_rates,
        default=[800.0],
        metavar="R,...",
        help="rows per second, default "
        "800; of several, a side is given the next one if it sustained the one before",
    )
    add("--mixed", action="store_true", help="60 queries, 24 of which are no filters")
    add("--policy", default=DEFAULT_POLICY, help="Daybreak's, default %(default)s")
    add("--cores", default="*", help="Spark's local cores, default all")
    add("--overload", action="store_true", help="near and beyond the hand-composited capacity")
    add("--ablation", action="store_true", help="compositing x policy x load")
    add("--out", type=Path, default=Path("reproduced"), help="where JSON and pictures go")
    add("--docs", type=Path, metavar="FOLDER", help="rewrite FOLDER/spark.md from the JSON files")
    add("--no-run", action="store_true", help="measure nothing: tables and pages from the files")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.goals or _is_quick_alone(args):
        return _judge_goals(args)
    asked = ("ablation", args.ablation), ("overload", args.overload), ("mixed", args.mixed)
    name = next((n for n, is_asked in asked if is_asked), None)
    name = name or ("rates" if len(args.rate) > 1 else "latency")
    if not args.no_run:
        require_java()
        _run(name, args)
    studies = {
        key: json.loads(file.read_text(encoding="utf-8"))
        for key in TITLES
        if (file := _file(args.out, key)).exists()
    }
    pictures = _pictures(studies, args.out)
    written = []
    if name in studies:
        if args.json:
            sys.stdout.write(json.dumps(studies[name], indent=2) + "\n")
        else:
            _print(name, studies[name])
        written = [_file(args.out, name), *([pictures[name]] if name in pictures else [])]
    elif not args.docs:
        error_console().print(f"error: {_file(args.out, name)} does not exist; measure first")
        return 2
    if args.docs:
        written.append(present.write_page(studies, pictures, args.docs / "spark.md"))
    for path in written:
        error_console().print(f"written: {path}")
    return 0


def _run(name: str, args: argparse.Namespace) -> None:
    timing = _timing(args, plans.QUICK_TIMING if args.quick else plans.FULL_TIMING)
    record: dict[str, Any] = {
        "study": name, "title": TITLES[name], "manifest": _manifest(),
        "timing": asdict(timing), "results": [],
    }  # fmt: skip

    work = str((args.out / "work").resolve())
    base = Task(
        "daybreak", 1, args.rate[0], work, cores=args.cores, mixed=args.mixed, policy=args.policy
    )
    to = error_console()
    study = plans.Study(
        base,
        timing,
        lambda text: to.print(text, highlight=False),
        lambda result: _keep(record, result, _file(args.out, name)),
    )
    queries = args.queries[0] if args.queries else 60
    if name == "ablation":
        quick = args.quick
        study.ablation(
            queries,
            plans.POLICIES[:2] if quick else plans.POLICIES,
            plans.LOADS[1:2] if quick else plans.LOADS,
        )
    elif name == "overload":
        study.overload(queries, plans.LOADS[1:] if args.quick else plans.LOADS)
    elif name == "mixed":
        pairs = plans.all_pairs((plans.MIXED_QUERIES,), args.only or plans.MIXED_SIDES)
        study.latency(pairs, args.rate)
    elif args.quick:
        study.latency(plans.quick_pairs(args.queries, args.only), args.rate)
    else:
        study.latency(plans.all_pairs(args.queries or (1, 25, 60, 250), args.only), args.rate)


def _is_quick_alone(args: argparse.Namespace) -> bool:
    other = args.only, args.queries, args.mixed, args.overload, args.ablation, len(args.rate) > 1
    return args.quick and not any(other)


def _judge_goals(args: argparse.Namespace) -> int:
    """Measures what the goals need and judges it: 0 only if all of them hold."""
    cases = goals.QUICK if args.quick else goals.FULL
    file, to = _file(args.out, GOALS), error_console()
    timing = _timing(args, goals.QUICK_TIMING if args.quick else goals.FULL_TIMING)
    rounds = args.rounds or (goals.QUICK_ROUNDS if args.quick else goals.FULL_ROUNDS)
    plan = {"cases": [asdict(case) for case in cases], "timing": asdict(timing), "rounds": rounds}
    record: dict[str, Any] = {"study": GOALS, "manifest": _manifest(), "plan": plan, "results": []}
    if (args.resume or args.no_run) and file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if json.loads(json.dumps(plan)) == before["plan"] or args.no_run:
            record = before
    if not args.no_run:
        require_java()
        measuring = goals.Rounds(
            Task("direct", 1, 800.0, str((args.out / "work").resolve()), cores=args.cores),
            timing,
            rounds,
            goals.QUICK_WAIT_S if args.quick else goals.QUIET_WAIT_S,
            lambda text: to.print(text, highlight=False),
            lambda result: _keep(record, result, file),
            tuple(record["results"]),
            lent_broker,
        )
        measuring.run(cases)
    verdicts = goals.judge(record["results"], cases)
    record |= {"verdicts": [asdict(v) for v in verdicts], "held": all(v.holds for v in verdicts)}
    _save(record, file)
    if args.json:
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
    else:
        console().print(
            table(goals.rows(record["results"]), title="Ingest beside programs by hand")
        )
        console().print(table(goals.verdict_rows(verdicts), title="Goals"))
    to.print(f"written: {file}")
    return 0 if record["held"] else 1


def _keep(record: dict[str, Any], result: dict[str, Any], file: Path) -> None:
    record["results"].append(result)
    _save(record, file)


def _timing(args: argparse.Namespace, usual: Timing) -> Timing:
    return replace(
        usual,
        seconds=args.seconds or usual.seconds,
        warmup_s=usual.warmup_s if args.warmup is None else args.warmup,
    )


def _print(name: str, study: dict[str, Any]) -> None:
    to = console()
    if name in present.BY_LATENCY:
        to.print(table(present.latency_rows(study["results"]), title=study["title"]))
        to.print(table(present.ratio_rows(study["results"]), title="beside Daybreak"))
    else:
        to.print(table(present.load_rows(study["results"]), title=study["title"]))


_PLOTS = {
    "latency": drawn.plot_latency,
    "rates": drawn.plot_rates,
    "mixed": drawn.plot_rates,
    "overload": drawn.plot_loads,
    "ablation": drawn.plot_loads,
}


def _pictures(studies: dict[str, Any], out: Path) -> dict[str, Path]:
    if not can_draw():
        return {}
    made = {}
    for name, study in studies.items():
        if any("failed" not in r for r in study["results"]):
            made[name] = _PLOTS[name](study["results"], out / f"versus-spark-{name}.png")
    return made


def _file(out: Path, name: str) -> Path:
    return out / f"versus-spark-{name}.json"


def _save(record: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def _manifest() -> dict[str, Any]:
    from pyspark import __version__ as spark

    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "command": shlex.join(["python", "benchmarks/versus_spark.py", *sys.argv[1:]]),
        "cores": os.cpu_count(),
        "memory_gb": memory / 2**30,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "spark": spark,
        "java": java[1] if java else "unknown",
        "load_before": os.getloadavg()[0],
    }


def _sides(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SIDES:
            raise argparse.ArgumentTypeError(
                f"unknown side {name!r}; choose from {', '.join(SIDES)}"
            )
    return names


def _rates(text: str) -> list[float]:
    rates = [float(part) for part in text.split(",")]
    if not rates or min(rates) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: give rows per second, above 0")
    return rates


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers above 0")
    return numbers
