"""What direct ingest has to reach: which measurements, in which order, and the rules they face.

Rounds are interleaved: each measures every case on every side once, after the machine has become
quiet; a figure is the median of its rounds. The rules were stated before anything was measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from benchmarks.versus.measure import Timing, measure
from benchmarks.versus.workload import Task

Record = dict[str, Any]

OURS, TODAY = "direct", "today"
#: Programs by hand that do not wait for the disk, as Spark itself does not.
BY_HAND = ("np-nosync", "hand-nosync")
#: Critical p95 of ours, by queries, is at most so much of the best program by hand.
LATENCY: Mapping[int, float] = {25: 0.25, 250: 0.4, 1000: 0.3}
#: CPU per 1 000 rows of ours, by queries, is at most so much of today's.
CPU: Mapping[int, float] = {25: 0.25, 250: 0.5}
IDLE_CORES = 0.02
MANY_FILES, KAFKA = 1.2, 0.5
#: A round begins when the load average is below this, or after so long.
QUIET_LOAD, QUIET_WAIT_S = 1.0, 300.0
QUICK_WAIT_S = 60.0

#: At most so long it takes to read a file that was there before the start.
OLD_FILE_S = 0.01

QUICK_TIMING = Timing(prime_s=20, warmup_s=6, seconds=10, drain_s=5)
FULL_TIMING = Timing(prime_s=120, warmup_s=20, seconds=40, drain_s=30)
QUICK_ROUNDS, FULL_ROUNDS = 2, 3


@dataclass(frozen=True)
class Case:
    """One workload, and who faces it."""

    name: str
    queries: int
    sides: tuple[str, ...]
    rate_per_s: float = 800.0
    #: Files that are in the source's folder before the start, and have no row that a query wants.
    old_files: int = 0
    kafka: bool = False
    #: So long nothing comes in, after all has arrived; 0: not measured.
    idle_s: float = 0.0


_SIDES = (OURS, "np-nosync", TODAY)
QUICK = (Case("25 filters", 25, _SIDES), Case("250 filters", 250, _SIDES))
FULL = (
    Case("25 filters", 25, (OURS, *BY_HAND, "np", TODAY)),
    # One more thread for the top class: shown, not judged; see docs/classes.md.
    Case("250 filters", 250, (OURS, *BY_HAND, "np", TODAY, "direct-express"), idle_s=30.0),
    Case("1 000 filters", 1000, (OURS, "np-nosync", "np")),
    Case("4 000 rows/s", 250, (OURS, TODAY), rate_per_s=4000.0),
    Case("100 files in the folder", 25, (OURS,), old_files=100),
    Case("100 000 files in the folder", 25, (OURS,), old_files=100_000),
    Case("Kafka", 25, (OURS, "np-nosync"), kafka=True),
)


@dataclass(frozen=True)
class Verdict:
    """A rule, and whether the measurements obey it."""

    goal: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Rounds:
    """Measures every case on every side, round after round."""

    base: Task
    timing: Timing
    rounds: int
    wait_s: float
    show: Callable[[str], None]
    keep: Callable[[Record], None]
    #: What an earlier run of the same plan has measured, which is not measured again.
    done: Sequence[Record] = ()
    #: Lends a broker while a case on Kafka is measured.
    broker: Callable[[], Any] = nullcontext

    def run(self, cases: Sequence[Case]) -> list[Record]:
        found = list(self.done)
        known = {(r["round"], r["case"], r["side"]) for r in found}
        total, number = self.rounds * sum(len(case.sides) for case in cases), 0
        for turn in range(1, self.rounds + 1):
            waited = False
            for case in cases:
                for side in case.sides:
                    number += 1
                    if (turn, case.name, side) in known:
                        continue
                    if not waited:
                        waited = True
                        self._wait_until_quiet()
                    self.show(f"{number}/{total}: round {turn}, {case.name}, {side} ...")
                    found.append({"round": turn, "case": case.name, **self._one(case, side)})
                    self.keep(found[-1])
        return found

    def _one(self, case: Case, side: str) -> Record:
        load = os.getloadavg()[0]
        task = replace(
            self.base, side=side, queries=case.queries, rate_per_s=case.rate_per_s,
            old_files=case.old_files,
        )  # fmt: skip
        timing = replace(
            self.timing,
            idle_s=case.idle_s if side == OURS else 0.0,
            prime_s=max(self.timing.prime_s, case.old_files * OLD_FILE_S),
        )
        try:
            with self.broker() if case.kafka else nullcontext("") as servers:
                result = measure(replace(task, servers=servers), timing)
        except RuntimeError as error:  # one side's failure is a finding, not the end
            self.show(f"  failed: {str(error).splitlines()[-1]}")
            return {**asdict(task), "failed": str(error), "load_before": load}
        record = {**result.as_json(), "load_before": load, "cpu_per_1000_rows_s": None}
        if result.cpu_s is not None:
            rows = task.rate_per_s * timing.seconds
            record["cpu_per_1000_rows_s"] = 1000 * result.cpu_s / rows
        critical = result.classes["critical"]
        self.show(f"  critical p50/p95 {critical.p50_s:.3f}/{critical.p95_s:.3f} s")
        return record

    def _wait_until_quiet(self) -> None:
        until = time.monotonic() + self.wait_s
        if os.getloadavg()[0] >= QUIET_LOAD:
            self.show(f"waiting for a load average below {QUIET_LOAD:g} ...")
        while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < until:
            time.sleep(1)


def rows(records: Sequence[Record]) -> list[list[str]]:
    """One row per case and side: medians of the rounds."""
    shown = [
        ["case", "side", "critical p50", "p95", "CPU s per 1 000 rows", "files", "idle cores",
         "missing, twice, wrong", "load before"]
    ]  # fmt: skip
    for case, side in dict.fromkeys((r["case"], r["side"]) for r in records):
        mine = [r for r in records if (r["case"], r["side"]) == (case, side)]
        good = [r for r in mine if "failed" not in r]
        if len(good) < len(mine) or not good:
            shown.append([case, side, *["failed"] * 6, "-"])
            continue
        wrong = (sum(r[key] for r in good) for key in ("lost", "duplicates", "unexpected"))
        shown.append(
            [
                case,
                side,
                *(f"{1000 * _critical(good, key):.0f} ms" for key in ("p50_s", "p95_s")),
                _figure(good, "cpu_per_1000_rows_s"),
                f"{median(r['files'] for r in good):.0f}",
                _figure(good, "idle_cores"),
                ", ".join(map(str, wrong)),
                f"{max(r['load_before'] for r in good):.1f}",
            ]
        )
    return shown


def verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    held = (["yes" if v.holds else "NO", v.goal, v.found] for v in verdicts)
    return [["holds", "goal", "found"], *held]


def judge(records: Sequence[Record], cases: Sequence[Case]) -> list[Verdict]:
    """Every rule that these cases can be held against."""
    return [verdict for case in cases for verdict in _judged(records, case, cases)]


def _judged(records: Sequence[Record], case: Case, cases: Sequence[Case]) -> Iterator[Verdict]:
    of = {side: _of(records, case.name, side) for side in case.sides}
    failed = [side for side, mine in of.items() if not mine or any("failed" in r for r in mine)]
    if failed:
        yield Verdict(f"{case.name}: every side runs", False, f"{', '.join(failed)} failed")
        return
    hands = [side for side in case.sides if side in BY_HAND]
    if hands:
        best = min(hands, key=lambda side: _critical(of[side], "p95_s"))
        share = KAFKA if case.kafka else LATENCY[case.queries]
        yield _at_most(f"{case.name}: critical p95", of[OURS], of[best], share, best)
    if TODAY in case.sides:
        if case.queries in CPU and case.rate_per_s == Case.rate_per_s:
            yield _cpu(case, of[OURS], of[TODAY])
        else:
            yield _at_most(f"{case.name}: critical p95", of[OURS], of[TODAY], 1.0, TODAY)
    few = next((c for c in cases if 0 < c.old_files < case.old_files), None)
    if few is not None:
        before = [r for r in _of(records, few.name, OURS) if "failed" not in r]
        if before:
            yield _at_most(f"{case.name}: critical p95", of[OURS], before, MANY_FILES, few.name)
    if case.idle_s:
        idle = median(r["idle_cores"] for r in of[OURS])
        yield Verdict(
            f"{case.name}: below {IDLE_CORES} cores while idle", idle < IDLE_CORES, f"{idle:.3f}"
        )
    yield _exact(case, [r for side in (OURS, TODAY) for r in of.get(side, ())])


def _at_most(
    what: str, ours: Sequence[Record], theirs: Sequence[Record], share: float, name: str
) -> Verdict:
    mine, other = (_critical(some, "p95_s") for some in (ours, theirs))
    found = f"{1000 * mine:.0f} ms, {1000 * other:.0f} ms: {mine / other:.2f}"
    return Verdict(f"{what} at most {share:g} of {name}", mine <= share * other, found)


def _cpu(case: Case, ours: Sequence[Record], today: Sequence[Record]) -> Verdict:
    key, share = "cpu_per_1000_rows_s", CPU[case.queries]
    goal = f"{case.name}: CPU per 1 000 rows at most {share:g} of {TODAY}"
    if any(r[key] is None for r in (*ours, *today)):
        return Verdict(goal, False, "no /proc to tell CPU time by")
    mine, other = (median(r[key] for r in some) for some in (ours, today))
    return Verdict(goal, mine <= share * other, f"{mine:.2f} s, {other:.2f} s: {mine / other:.2f}")


def _exact(case: Case, ours: Sequence[Record]) -> Verdict:
    """The results are those of a batch over all rows that were fed."""
    keys = ("lost", "duplicates", "unexpected")
    found = {key: sum(r[key] for r in ours) for key in keys}
    goal = f"{case.name}: nothing missing, nothing twice, nothing else"
    return Verdict(goal, not any(found.values()), ", ".join(f"{found[k]} {k}" for k in keys))


def _of(records: Sequence[Record], case: str, side: str) -> list[Record]:
    return [r for r in records if (r["case"], r["side"]) == (case, side)]


def _critical(records: Sequence[Record], key: str) -> float:
    return float(median(r["classes"]["critical"][key] for r in records))


def _figure(records: Sequence[Record], key: str) -> str:
    values = [r[key] for r in records if r.get(key) is not None]
    return f"{median(values):.3f}" if values else "-"
