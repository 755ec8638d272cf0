"""Policies at and beyond capacity: which one earns the most utility on this machine?

60 queries of three classes over one stream (filters, window aggregates, window joins, joins with a
static table, one expensive function, one whose sink always fails), the filters alone, and the
windows and joins alone. Loads are shares of the *capacity*: the highest rate at which cells in
turn, each started when its oldest tuple has waited for 5 s, keep their backlog. Every figure is of
the run's own record. All runs share one Spark, and keep their files in memory where there is room,
so that nothing depends on what else the disk does (``--folder`` names another place). Exits with 1
if ``planned`` misses a criterion.

The full form takes hours. With ``--resume FILE`` every outcome is kept as soon as it is measured,
and the same command continues where it was interrupted. All policies run once in every case; those
more than 0.1 below the best other one there are not run again.

Hosts of virtual machines share their cores. Beside every run a process takes the time of a small
piece of work again and again: a run is repeated if the machine is more than 1.15 times slower than
while the capacity was measured, up to three runs in all, and the least disturbed one counts.

    python benchmarks/mixed.py --quick [--json] [--docs FOLDER]
    python benchmarks/mixed.py --resume mixed.jsonl
    python benchmarks/mixed.py --capacity 90000 --loads 1.0 --policies planned,stride
    python benchmarks/mixed.py --quick --loads 2 --policies planned,round-robin --busy 1
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from shutil import disk_usage, rmtree
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.loads.judging import Verdict
    from benchmarks.loads.results import Case, Results
    from benchmarks.loads.scoring import Outcome
    from pyspark.sql import SparkSession

#: By the name shown: the policy and its parameters. ``planned`` has three threads for its jobs, the
#: others two, which suits them better; ``-3`` means three.
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "planned": ("planned", {}),
    "round-robin": ("round-robin", {}),
    "round-robin-3": ("round-robin", {}),
    "stride": ("stride", {}),
    "stride-3": ("stride", {}),
    "stride-patient": ("stride", {"patience": 0.5}),
    "mbd": ("mbd", {}),
    "bucketing-clearing": ("bucketing-clearing", {}),
    "fcfs": ("fcfs", {}),
    "fixed-priority": ("fixed-priority", {}),
    "slope-slack-push": ("slope-slack-push", {}),
    "bucketing-push": ("bucketing-push", {}),
    "lottery": ("lottery", {}),
    "rb-mcq": ("rb-mcq", {}),
    "fas-mcq": ("fas-mcq", {}),
    "fas-mcq-auto": ("fas-mcq-auto", {}),
    "cqc": ("cqc", {}),
    "abd": ("abd", {}),
    "mbd-qos": ("mbd-qos", {}),
}
QUICK_POLICIES = ("planned", "round-robin", "round-robin-3", "stride", "fas-mcq")
LOADS, QUICK_LOADS = (0.4, 0.8, 1.0, 1.5, 2.0, 3.0), (0.4, 1.0, 2.0, 3.0)
TOLERANCE, QUICK_TOLERANCE = 0.02, 0.03
HEAD = ["workload", "load", "policy", "utility", "by class", "bound", "critical p95", "answered",
        "scheduling", "jobs", "slower"]  # fmt: skip


#: A file system in memory, and what the runs need of it.
MEMORY, ROOM = Path("/dev/shm"), 6 * 2**30


def row(o: Outcome) -> list[str]:
    bound = "" if o.bound is None else f"{o.bound:.3f}"
    slower = "" if o.slower is None else f"{o.slower:.2f}"
    if o.tries > 1:
        slower += f", best of {o.tries}"
    return [
        o.workload, f"{o.load:g}", o.policy, f"{o.utility:.3f}", f"{o.utility_by_class:.3f}", bound,
        f"{o.critical_p95_s:.2f} s", f"{o.answered:.0%}", f"{o.scheduling:.1%}", f"{o.jobs:,}",
        slower,
    ]  # fmt: skip


def undisturbed(run: Callable[[int], Outcome]) -> Outcome:
    """Repeats a run while the machine is slower than when its capacity was measured."""
    from benchmarks.loads.pace import DISTURBED, TRIES

    outcomes: list[Outcome] = []
    while len(outcomes) < TRIES:
        outcomes.append(run(len(outcomes)))
        slower = outcomes[-1].slower
        if slower is None or slower <= DISTURBED:
            break
        sys.stderr.write(f"the machine was {slower:.2f} times slower: {row(outcomes[-1])}\n")
    return replace(min(outcomes, key=lambda o: o.slower or 0.0), tries=len(outcomes))


def measure(
    spark: SparkSession, run_dir: Path, workload: str, policy: str, load: float, rate_per_s: float,
    piece_ms: float, args: argparse.Namespace, attempt: int,
) -> Outcome:  # fmt: skip
    from benchmarks.loads.neighbours import neighbours
    from benchmarks.loads.pace import paced
    from benchmarks.loads.scoring import TAIL_S, score
    from benchmarks.loads.tracing import add_jobs, traced
    from benchmarks.loads.workload import application

    from daybreak.policies.registry import make_policy_with
    from daybreak.simulation.recorded import RecordedRun

    name, parameters = POLICIES[policy]
    app = application(spark, workload, rate_per_s)
    chosen = make_policy_with(name, **parameters)
    workers = 3 if policy.endswith("-3") else None
    name = f"{workload}-{load:g}-{run_dir.name}-{attempt}.jsonl"
    trace = args.trace / name if args.trace else None
    with (
        neighbours(args.busy),
        paced() as pace,
        app.run(chosen, workers=workers, run_dir=run_dir, on_failure="report") as run,
        traced(chosen, trace),
    ):
        run.wait(args.warm_up + args.seconds + TAIL_S)
    record = RecordedRun.load(run_dir)
    if trace is not None:
        add_jobs(record, trace)
        sys.stderr.write(f"written: {trace}\n")
    rmtree(run_dir)
    outcome = score(record, workload, policy, load, rate_per_s, args.warm_up)
    return replace(outcome, slower=pace.piece_ms / piece_ms if piece_ms else None)


def capacity_of(
    spark: SparkSession, workload: str, folder: Path, args: argparse.Namespace, known: float | None
) -> tuple[float, float]:
    """Measured after a warm-up, which a rate that is known does not spare.

    And what a piece of work took meanwhile, in ms; 0 if the rate is known.
    """
    from benchmarks.loads.capacity import GUESS_PER_S, capacity_per_s, keeps_up
    from benchmarks.loads.pace import paced

    seconds, tried = (30.0 if args.quick else 60.0), 0
    pieces_ms: list[float] = []

    def keeps(rate_per_s: float) -> bool:
        nonlocal tried
        tried += 1
        with paced() as pace:
            kept = keeps_up(spark, workload, rate_per_s, folder / f"{workload}-{tried}", seconds)
        pieces_ms.append(pace.piece_ms)
        sys.stderr.write(f"{workload}: {'keeps' if kept else 'misses'} {rate_per_s:,.0f} rows/s\n")
        return kept

    # Java compiles what runs often, and compiles it better and better: the first runs count for
    # nothing, and a rate is missed only if it is missed again.
    keeps(10_000.0)
    kept = keeps(GUESS_PER_S)
    if known:
        return known, 0.0
    rate_per_s = capacity_per_s(
        lambda rate: keeps(rate) or keeps(rate),
        guess=2 * GUESS_PER_S if kept else GUESS_PER_S,
        within=0.2 if args.quick else 0.1,
    )
    # Neighbours on request compute beside the runs, and not here: the two do not compare.
    return rate_per_s, 0.0 if args.busy else median(pieces_ms)


def run_all(args: argparse.Namespace, results: Results) -> None:
    workloads = [name for name in args.workloads if any(left(name, args, results))]
    if not workloads:
        return

    from benchmarks.loads.workload import prepare

    from daybreak.spark.session import local_session

    spark = local_session("mixed", extra_conf={"spark.driver.memory": "3g"})
    prepare(spark)
    with TemporaryDirectory(dir=args.folder) as scratch:
        for workload in workloads:
            known = results.capacities.get(workload)
            capacity, piece_ms = capacity_of(
                spark, workload, Path(scratch), args, known or args.capacity
            )
            if known is None:
                results.add_capacity(workload, capacity, piece_ms)
            piece_ms = results.pieces_ms[workload]
            sys.stderr.write(f"{workload}: capacity {capacity:,.0f} rows/s\n")
            for _, load, policy, n in left(workload, args, results):
                run_dir, rate_per_s = Path(scratch) / f"{policy}-{n}", load * capacity
                outcome = undisturbed(
                    partial(
                        measure, spark, run_dir, workload, policy, load, rate_per_s, piece_ms, args
                    )
                )
                results.add(outcome, n)
                sys.stderr.write("  ".join(row(outcome)) + "\n")


def left(workload: str, args: argparse.Namespace, results: Results) -> Iterator[Case]:
    """Runs that are still to be made; which ones those are depends on the first of each case."""
    from benchmarks.loads.results import Case

    for n, load, policy in product(range(args.runs), args.loads, args.policies):
        case = Case(workload, load, policy, n)
        if not results.has(case) and wanted(case, results):
            yield case


def wanted(case: Case, results: Results) -> bool:
    from benchmarks.loads.judging import HIGHEST, REPLACED, contends

    if case.load > HIGHEST and case.policy not in ("planned", *REPLACED):
        return False
    return case.n == 0 or contends(case.policy, results.first(case.workload, case.load))


def in_memory() -> Path | None:
    """Where files stay in memory; None: the usual place for temporary files."""
    return MEMORY if MEMORY.is_dir() and disk_usage(MEMORY).free > ROOM else None


def arguments() -> argparse.Namespace:
    from benchmarks.loads.workload import WORKLOADS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def some(text: str) -> list[str]:
        return text.split(",")

    add = parser.add_argument
    add("--folder", type=Path, default=in_memory(), help="where runs keep their files")
    add("--quick", action="store_true", help="under 15 minutes: one workload, 4 loads, 5 policies")
    add("--workloads", type=some, help=f"of {', '.join(WORKLOADS)}")
    add("--policies", type=some, help=f"of {', '.join(POLICIES)}")
    add("--loads", type=lambda text: [float(x) for x in some(text)], help="shares of the capacity")
    add("--capacity", type=float, help="rows per second; left out, it is measured")
    add("--runs", type=int, help="of each case; the median counts; default 3, quick 1")
    add(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep outcomes there, and continue from it; a new one for other code",
    )
    add("--seconds", type=float, help="whose arrivals count, of each run; default 30, quick 12")
    add("--warm-up", type=float, default=10.0, help="seconds before that")
    add("--busy", type=int, default=0, help="processes that compute all the time beside each run")
    add(
        "--trace",
        type=Path,
        metavar="FOLDER",
        help="write each run's jobs there, and the plans of planned, second by second",
    )
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--docs", type=Path, help="write FOLDER/mixed.md")
    args = parser.parse_args()
    quick = args.quick
    args.workloads = args.workloads or (["mixed"] if quick else list(WORKLOADS))
    args.policies = args.policies or list(QUICK_POLICIES if quick else POLICIES)
    args.loads = args.loads or list(QUICK_LOADS if quick else LOADS)
    args.runs = args.runs or (1 if quick else 3)
    args.seconds = args.seconds or (12.0 if quick else 30.0)
    unknown = [p for p in args.policies if p not in POLICIES]
    unknown += [w for w in args.workloads if w not in WORKLOADS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; see --help")
    return args


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """What makes outcomes comparable."""
    return {
        "seconds": args.seconds, "warm_up": args.warm_up, "busy": args.busy,
        "capacity": args.capacity, "cores": os.cpu_count(), "machine": platform.node(),
    }  # fmt: skip


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.loads.judging import judge
    from benchmarks.loads.results import OtherSettings, Results
    from benchmarks.loads.workload import WORKLOADS

    from daybreak.cli.console import console
    from daybreak.report.text import table

    args = arguments()
    if args.trace:
        args.trace.mkdir(parents=True, exist_ok=True)
    try:
        results = Results(args.resume, settings(args))
    except (OtherSettings, OSError, ValueError, LookupError, TypeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    run_all(args, results)
    capacities = results.capacities
    found = sorted(results.outcomes, key=lambda o: (WORKLOADS.index(o.workload), o.load))
    verdicts = list(judge(found, QUICK_TOLERANCE if args.quick else TOLERANCE))
    if args.json:
        document = {
            "capacity_per_s": capacities,
            "runs": [asdict(o) for o in found],
            "criteria": [asdict(v) for v in verdicts],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        console().print(table([HEAD, *map(row, found)], title="Policies at and beyond capacity"))
        for v in verdicts:
            console().print(f"{'holds ' if v.holds else 'MISSED'}  {v.claim}: {v.found}")
    if args.docs:
        page = args.docs / "mixed.md"
        page.write_text(_page(capacities, found, verdicts, args), encoding="utf-8")
        sys.stderr.write(f"written: {page}\n")
    return 0 if all(v.holds for v in verdicts) else 1


def _page(
    capacities: dict[str, float],
    found: list[Outcome],
    verdicts: list[Verdict],
    args: argparse.Namespace,
) -> str:
    from benchmarks.loads.pace import DISTURBED, TRIES

    from daybreak.report.text import markdown

    rates = ", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in capacities.items())
    kept = [["criterion", "verdict", "found"]]
    kept += [[v.claim, "holds" if v.holds else "missed", v.found] for v in verdicts]
    kept_in = "\nThe outcomes are those of all calls that named this file.\n" if args.resume else ""
    busy = f"\nOther processes that computed all the time: {args.busy}.\n" if args.busy else ""
    return f"""# Policies at and beyond capacity

60 queries of three classes over one stream: 36 filters, 10 window aggregates, 6 window joins, 6
joins with a static table, one expensive function, one whose sink always fails (it is parked while
the others continue, and not counted). Loads are shares of the capacity, the highest rate at which
cells in turn, each started when its oldest tuple has waited for 5 s, keep their backlog: {rates}.
Loads above 2 are shown, and not judged, with one exception: where the bound at 2 is less than 0.1
above `stride` or round-robin, no schedule could be as far ahead as is asked for, and it is asked
for at the next load.

Utility is the sum of w U over all (query, tuple) pairs that arrived over the sum of w: w is the
class's priority, U the worth of the answer at its latency, 0 where there was none by the end of the
run. Counted are tuples of {args.seconds:g} s after a warm-up of {args.warm_up:g} s; the run
continues for 10 s after that. *By class* is the measure of earlier versions of this page, the
mean of the classes' utilities. *Bound* is what no steady schedule of these cells can exceed at the
rates and costs that `planned` has learned, on the workers that the cores could keep busy. Runs per
case: {args.runs}, and one of policies whose first run is more than 0.1 below the best other one's.

Jobs run on two cores. `planned` has three threads for them, one of which is kept free of long jobs;
the others have two, as by default, and three where their name ends in -3. *Scheduling* is the
processor time of the thread that decides, as a share of the elapsed time; the rest of the two cores
is left to jobs and to reading.

*Slower*: how many times longer a small piece of work took during the run than while the capacity
was measured, in processor time. Hosts of virtual machines share their cores. A run with more than
{DISTURBED} is repeated, up to {TRIES} in all, and the least disturbed one counts.
{busy}{kept_in}
Made by `{shlex.join(["python", "benchmarks/mixed.py", *sys.argv[1:]])}`.

{markdown([HEAD, *map(row, found)])}

## Criteria for `planned`

{markdown(kept) if verdicts else "None was judged: `planned` did not run beside others."}
"""


if __name__ == "__main__":
    sys.exit(main())
