"""A disk that is full again and again: the run directory and the sinks lie on a small tmpfs.

A balloon fills it at random moments, for random spells, up to the last byte or nearly so. A
process that ends by itself is started again, as a supervisor would; when the spells are over the
sinks are compared with the oracle.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.soaking.application import LOG, differences, pipeline, start, twice

SIZE_MB = 96
RATE_PER_S = 60
#: Rows for each spell, so that there is work until the last one.
ROWS_PER_SPELL = 250
LONGEST_S = 3.0
#: A sink that refuses so often must not park its query: what is tested is that nothing is lost.
PATIENT = "retries = 1000\nretry_s = 0.05"
Say = Callable[[str], None]


def disk(spells: int, seed: int, folder: Path, say: Say = lambda _line: None) -> dict[str, Any]:
    """Fills the disk so many times while the application works on it."""
    disk, log, chance = folder / "disk", folder / LOG, random.Random(f"{seed}/disk")
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return {"skipped": "no right to mount a tmpfs", "seed": seed, "wrong": []}
    rows, starts, began = spells * ROWS_PER_SPELL, 1, time.monotonic()
    (disk / "pipeline.toml").write_text(pipeline(rows, RATE_PER_S, limits=PATIENT))
    process = start(disk, "--until-end", log=log)
    try:
        for number in range(spells):
            time.sleep(chance.uniform(0.1, LONGEST_S))
            spared, full_s = chance.choice((0, 0, 2**12, 2**16)), chance.uniform(0.1, LONGEST_S)
            blow(disk / "balloon", spared, full_s)
            if process.poll() is not None:
                starts += 1
                process = start(disk, "--until-end", log=log)
            say(f"spell {number + 1}/{spells}: full but {spared} bytes for {full_s:.2f} s; "
                f"{starts} starts")  # fmt: skip
        while (code := process.wait(timeout=1200)) != 0 and starts < 2 * spells:
            starts += 1
            process = start(disk, "--until-end", log=log)
        wrong = [] if code == 0 else [f"the last life ended with {code}: see {log}"]
        wrong += twice(disk) + differences(disk, rows)
        if wrong:
            shutil.copytree(disk, folder / "kept", ignore=shutil.ignore_patterns("control.sock"))
    finally:
        if process.poll() is None:
            process.kill()
        subprocess.run(["umount", "-l", str(disk)], check=False)
    return {
        "spells": spells,
        "rows": rows,
        "starts": starts,
        "took_s": round(time.monotonic() - began, 1),
        "seed": seed,
        "wrong": wrong,
    }


def blow(balloon: Path, spared_bytes: int, seconds: float) -> None:
    """Fills the disk, but for so many bytes, for so long."""
    with contextlib.suppress(OSError), balloon.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    with contextlib.suppress(OSError), balloon.open("r+b") as file:
        file.truncate(max(0, balloon.stat().st_size - spared_bytes))
    time.sleep(seconds)  # the spell
    balloon.unlink(missing_ok=True)
