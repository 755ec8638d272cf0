"""A disk that is full again and again: the run directory and the sinks lie on a small tmpfs.

A balloon fills it at random moments, for random spells, up to the last byte or nearly so, while a
generator makes rows and files arrive on another disk; all limits are the default ones. A run waits
for room, so a process that ends by itself is wrong. When the spells are over the sinks are compared
with the oracle.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.soaking.application import LOG, delivered, differences, pipeline, start, twice

SIZE_MB = 96
RATE_PER_S = 60
#: Rows for each spell, so that there is work until the last one.
ROWS_PER_SPELL = 250
LONGEST_S = 3.0
#: Files that arrive before, and while, the disk is full.
FILES_PER_SPELL = 2
#: A stream of files beside the generator's, and a query over it.
FILES = """
[streams.files]
format = "json"
schema = "number BIGINT"
path = "../in"
options = { path = "../in" }
trigger = "100 milliseconds"
[queries.copied]
class = "high"
sql = "SELECT number FROM files"
sink = { format = "json", path = "out/copied" }
"""
Say = Callable[[str], None]


def disk(spells: int, seed: int, folder: Path, say: Say = lambda _line: None) -> dict[str, Any]:
    """Fills the disk so many times while the application works on it."""
    disk, log, chance = folder / "disk", folder / LOG, random.Random(f"{seed}/disk")
    disk.mkdir()
    (folder / "in").mkdir()
    with small_disk(disk) as mounted:
        if not mounted:
            return {"skipped": "no right to mount a tmpfs", "seed": seed, "wrong": []}
        return _disk(spells, seed, disk, log, chance, say)


def _disk(
    spells: int, seed: int, disk: Path, log: Path, chance: random.Random, say: Say
) -> dict[str, Any]:
    rows, starts, files, began = spells * ROWS_PER_SPELL, 1, 0, time.monotonic()
    wrong = []
    (disk / "pipeline.toml").write_text(pipeline(rows, RATE_PER_S) + FILES)
    process = start(disk, "--until-end", log=log)
    try:
        while process.poll() is None and not (disk / "runs/pipeline/control.sock").exists():
            time.sleep(0.1)  # a start on a full disk is refused
        for number in range(spells):
            files = _arrive(disk.parent / "in", files)
            time.sleep(chance.uniform(0.1, LONGEST_S))
            spared, full_s = chance.choice((0, 0, 2**12, 2**16)), chance.uniform(0.1, LONGEST_S)
            with filled(disk / "balloon", spared):
                files = _arrive(disk.parent / "in", files)
                time.sleep(full_s)
            if process.poll() is not None:
                wrong.append(f"spell {number + 1}: it ended by itself with {process.returncode}")
                starts += 1
                process = start(disk, "--until-end", log=log)
            say(f"spell {number + 1}/{spells}: full but {spared} bytes for {full_s:.2f} s; "
                f"{starts} starts")  # fmt: skip
        for life in range(2):  # files may have come after the first had read all there were
            if (code := process.wait(timeout=1200)) != 0:
                wrong.append(f"a life ended with {code}: see {log}")
            if life == 0:
                starts += 1
                process = start(disk, "--until-end", log=log)
        wrong += twice(disk) + differences(disk, rows) + _missing(disk, files)
        if wrong:
            ignored = shutil.ignore_patterns("control.sock")
            shutil.copytree(disk, disk.parent / "kept", ignore=ignored)
    finally:
        if process.poll() is None:
            process.kill()
    return {
        "spells": spells,
        "rows": rows,
        "files": files,
        "starts": starts,
        "took_s": round(time.monotonic() - began, 1),
        "seed": seed,
        "wrong": wrong,
    }


def _arrive(folder: Path, files: int) -> int:
    """So many files are there, and a few more; gives their number."""
    for number in range(files, files + FILES_PER_SPELL):
        path = folder / f"{number}.json"
        path.with_suffix(".partial").write_text(f'{{"number": {number}}}\n')
        path.with_suffix(".partial").rename(path)
    return files + FILES_PER_SPELL


def _missing(disk: Path, files: int) -> list[str]:
    held = [
        json.loads(line)["number"]
        for path in delivered(disk, "copied")
        for line in path.read_text().splitlines()
    ]
    if sorted(held) == list(range(files)):
        return []
    return [f"copied: {len(held)} rows of {files} files, {len(set(held))} different ones"]


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int = SIZE_MB) -> Iterator[bool]:
    """A tmpfs of this size on ``folder`` while the block runs; False without the right to mount."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextlib.contextmanager
def filled(balloon: Path, spared_bytes: int = 0) -> Iterator[None]:
    """A disk that is full, but for so many bytes, while the block runs."""
    with contextlib.suppress(OSError), balloon.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    with contextlib.suppress(OSError), balloon.open("r+b") as file:
        file.truncate(max(0, balloon.stat().st_size - spared_bytes))
    try:
        yield
    finally:
        balloon.unlink(missing_ok=True)
