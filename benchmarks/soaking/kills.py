"""kill -9 again and again, over all stages of a life; then the sinks are compared with the oracle.

Every life goes on where the last one was ended. How it ends is drawn from the seed:

starting    at a random moment of the first seconds: JVM, checks, recovery;
working     at a random moment after its first delivery;
stopping    told to stop by SIGTERM, and ended before it has;
a stage     in the midst of its work, before or after one of its steps (life.py).

The driver alone is killed, or its JVM with it. The last life is let live to the end of the input.

A life is short and mostly start; see quick_jvm.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.soaking.application import delivered, differences, pipeline, start, twice
from benchmarks.soaking.life import RARE, RENAME, STAGES
from benchmarks.soaking.quick_jvm import quick_jvm

RATE_PER_S, LAST_RATE_PER_S, LAST_TRAIN = 100, 20_000, 5000
#: More than a life sees before it is ended, so that no life but the last reaches the end.
ROWS_PER_LIFE = 2000
#: A stage that has not come by then never will; a machine may be busy, or the process paused.
PATIENCE_S = 1800.0
LIFE = Path(__file__).with_name("life.py")
Say = Callable[[str], None]


class Death(NamedTuple):
    """How a life is to end."""

    stage: str
    #: The so-manieth time of a stage; else the seconds after which it is killed.
    when: float
    #: Before or after that time; empty where it is killed after so many seconds.
    moment: str
    #: Whether the JVM is killed in the same instant; else it notices by itself.
    jvm: bool

    def __str__(self) -> str:
        how = f"{self.moment} call {self.when:.0f}" if self.moment else f"after {self.when:.2f} s"
        return f"{self.stage}, {how}{', JVM too' if self.jvm else ''}"


def deaths(count: int, seed: int) -> Iterator[Death]:
    """So many deaths: every stage in turn, in a random order, until there are enough."""
    chance = random.Random(f"{seed}/deaths")
    stages = ["starting", "working", "working", "stopping", RENAME, *STAGES]
    left: list[str] = []
    for _ in range(count):
        if not left:
            left = chance.sample(stages, len(stages))
        stage = left.pop()
        times = chance.randint(1, 12)
        moment, jvm = chance.choice(("before", "after")), chance.random() < 0.5
        longest_s = {"starting": 8.0, "working": 2.0, "stopping": 1.5}.get(stage)
        if longest_s is not None:
            yield Death(stage, chance.uniform(0.0, longest_s), "", jvm)
        else:
            yield Death(stage, min(times, RARE.get(stage, times)), moment, jvm=False)


def kills(count: int, seed: int, folder: Path, say: Say = lambda _line: None) -> dict[str, Any]:
    """So many lives, each ended as drawn; the last one lives to the end."""
    rows = count * ROWS_PER_LIFE
    (folder / "pipeline.toml").write_text(pipeline(rows, RATE_PER_S))
    ended = end_lives(
        folder,
        deaths(count, seed),
        lambda death: end_a_life(folder, death, "--until-end"),
        lambda: twice(folder),
        pipeline(rows, LAST_RATE_PER_S, train=LAST_TRAIN),
        lambda: differences(folder, rows),
        say,
    )
    return {**ended, "rows": rows, "seed": seed}


def end_lives(
    folder: Path,
    drawn: Iterable[Death],
    end: Callable[[Death], int],
    faults: Callable[[], list[str]],
    last_pipeline: str,
    last_faults: Callable[[], list[str]],
    say: Say,
) -> dict[str, Any]:
    """Lives of one application, each ended as drawn; the last one lives until it has read all.

    ``end`` gives the code of a life's process; ``faults``: what is wrong after one, and
    ``last_faults``, after the last.
    """
    planned, ended, wrong, began = [*drawn], Counter[str](), list[str](), time.monotonic()
    for number, death in enumerate(planned, 1):
        code = end(death)
        if code == -signal.SIGKILL:
            ended[death.stage] += 1
        else:
            wrong.append(f"life {number} ({death}) ended by itself with {code}: see log.txt")
        wrong += faults()
        took_s = time.monotonic() - began
        say(f"kill {number}/{len(planned)}: {death}; {took_s:.0f} s{'; WRONG' if wrong else ''}")
        if wrong:
            break
    (folder / "pipeline.toml").write_text(last_pipeline)
    last = start(folder, "--until-end", java_options=quick_jvm()).wait(timeout=PATIENCE_S)
    wrong += [f"the last life ended with {last}: see log.txt"] if last else last_faults()
    return {
        "kills": ended.total(),
        "by_stage": dict(sorted(ended.items())),
        "took_s": round(time.monotonic() - began, 1),
        "wrong": wrong,
    }


def _files(folder: Path) -> int:
    return len(delivered(folder, "everything"))


def end_a_life(
    folder: Path, death: Death, *options: str, files: Callable[[Path], int] = _files
) -> int:
    """Starts the application and sees to its death; returns the process's code.

    ``options``: of the application; ``files``: how many it has delivered.
    """
    if death.moment:
        wrapper = (str(LIFE), death.stage, f"{death.when:.0f}", death.moment)
        process = start(folder, *options, wrapper=wrapper, java_options=quick_jvm())
        try:
            return process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            kill(process, jvm=True)
            raise AssertionError(f"{death} never came: {folder / 'log.txt'}") from None
    before = files(folder)
    process = start(folder, *options, java_options=quick_jvm())
    if death.stage != "starting":
        try:
            await_delivery(process, folder, before, files)
        except BaseException:
            kill(process, jvm=True)  # it must not outlive us
            raise
    if death.stage == "stopping":
        process.send_signal(signal.SIGTERM)
    time.sleep(death.when)  # the random moment itself
    kill(process, jvm=death.jvm)
    code = process.wait()
    # One that was told to stop may be quicker; and recovery, before it listens, delivers as well.
    told = death.stage == "stopping" and code in (0, -signal.SIGTERM)
    return -signal.SIGKILL if told else code


def await_delivery(
    process: subprocess.Popen[bytes],
    folder: Path,
    before: int,
    files: Callable[[Path], int] = _files,
) -> None:
    """Returns when there is a file more than before: from now on every moment is one of work."""
    deadline = time.monotonic() + PATIENCE_S
    while files(folder) <= before:
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"it delivers nothing: {(folder / 'log.txt').read_text()[-3000:]}")
        time.sleep(0.02)  # polls


def kill(process: subprocess.Popen[bytes], *, jvm: bool) -> None:
    """SIGKILL to the driver, or to all of its process group."""
    with suppress(ProcessLookupError):  # it was quicker
        (os.killpg if jvm else os.kill)(process.pid, signal.SIGKILL)
