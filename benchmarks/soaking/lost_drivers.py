"""The driver is killed with kill -9 and its working directory deleted; another one continues.

Every life has a folder of its own, with nothing but the pipeline file in it. What they share is the
log in PostgreSQL, the store and the folders of the sinks. A life is killed at a random moment after
its first delivery, or while it starts and waits for the lease of the one before.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.servers import PostgresServer
from benchmarks.soaking.application import LOG, delivered, differences, pipeline, start, twice
from benchmarks.soaking.kills import PATIENCE_S, await_delivery, kill
from benchmarks.soaking.quick_jvm import quick_jvm

RATE_PER_S, LAST_RATE_PER_S, LAST_TRAIN = 100, 20_000, 5000
ROWS_PER_LIFE = 1500
#: A life that does not work yet is as often killed as this.
STARTING = 0.2
#: Short, so that the next life need not wait long.
LEASE_S = 2.0
Say = Callable[[str], None]


def lost_drivers(
    count: int, seed: int, folder: Path, url: str, say: Say = lambda _line: None
) -> dict[str, Any]:
    """So many lives, each in a new folder; the last one lives to the end of the input."""
    chance, rows = random.Random(f"{seed}/drivers"), count * ROWS_PER_LIFE
    app = f'name = "drivers"\nlog = "{url}"\nstore = "file://{folder}/store"'
    ended, wrong, began = 0, list[str](), time.monotonic()

    def text(rate_per_s: float, train: int = 200) -> str:
        limits = f"lease_s = {LEASE_S}"
        return pipeline(rows, rate_per_s, train=train, limits=limits, app=app, out=f"{folder}/out")

    for number in range(count):
        home = folder / f"driver{number}"
        home.mkdir()
        (home / "pipeline.toml").write_text(text(RATE_PER_S))
        before = len(delivered(folder, "everything"))
        process = start(home, log=folder / LOG, java_options=quick_jvm())
        starting = chance.random() < STARTING
        try:
            if not starting:
                await_delivery(process, folder, before)
        except BaseException:
            kill(process, jvm=True)  # it must not outlive us
            raise
        time.sleep(chance.uniform(0.0, 8.0 if starting else 2.0))  # the random moment itself
        kill(process, jvm=chance.random() < 0.5)
        code = process.wait()
        shutil.rmtree(home, ignore_errors=True)  # its JVM may still write for a moment
        if code == -signal.SIGKILL:
            ended += 1
        else:
            wrong.append(f"life {number + 1} ended by itself with {code}: see {LOG}")
        wrong += twice(folder)
        files = len(delivered(folder, "everything"))
        say(f"driver {number + 1}/{count} lost, {files} files, {time.monotonic() - began:.0f} s")
        if wrong:
            break
    home = folder / "last"
    home.mkdir()
    (home / "pipeline.toml").write_text(text(LAST_RATE_PER_S, LAST_TRAIN))
    last = start(home, "--until-end", log=folder / LOG, java_options=quick_jvm()).wait(PATIENCE_S)
    wrong += [f"the last life ended with {last}: see {LOG}"] if last else differences(folder, rows)
    return {
        "kills": ended,
        "rows": rows,
        "took_s": round(time.monotonic() - began, 1),
        "seed": seed,
        "wrong": wrong,
    }


def soak_drivers(count: int, seed: int, folder: Path, say: Say) -> dict[str, Any]:
    """The same with a server of its own."""
    server = PostgresServer()
    try:
        server.start()
        return lost_drivers(count, seed, folder, server.dsn, say)
    finally:
        server.close()
