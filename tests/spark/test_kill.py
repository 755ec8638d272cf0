"""kill -9 of the whole process, at random moments, again and again: no row lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from daybreak.runtime.report import RunReport

pytestmark = pytest.mark.spark

KILLS = 5
#: More than all lives together can see; the last one is fed faster.
ROWS = 20_000
RATE_PER_S, LAST_RATE_PER_S = 300, 10_000
PIPELINE = f"""
[app]
policy = "stride"
[policy]
train = 200
[classes]
high = 5
low = 1
[streams.readings]
format = "generator"
options = {{ seed = 7, limit = {ROWS} }}
arrivals = {{ rate_per_s = {RATE_PER_S} }}
time = "at"
[queries.everything]
class = "low"
sql = "SELECT reading, station, temperature, at FROM readings"
sink = {{ format = "parquet", path = "out/everything" }}
[queries.warm]
class = "high"
sql = "SELECT reading, temperature FROM readings WHERE temperature > 20"
sink = {{ format = "parquet", path = "out/warm" }}
[queries.windy]
class = "low"
sql = "SELECT reading FROM readings WHERE wind > 45"
sink = {{ format = "parquet", path = "out/windy" }}
[queries.tumbling]
class = "high"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"
sink = {{ format = "parquet", path = "out/tumbling" }}
[queries.sliding]
class = "low"
sql = '''
SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '2 seconds', '1 second')
'''
sink = {{ format = "parquet", path = "out/sliding" }}
"""


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    log = (folder / "log.txt").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "daybreak", "run", "pipeline.toml", "--json", *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def delivered(folder: Path, query: str) -> list[Path]:
    return list((folder / "out" / query).glob("*.parquet"))


def kill_at_random(process: subprocess.Popen[bytes], folder: Path, moment: random.Random) -> None:
    """Lets it deliver something first, so that every kill hits an engine at work."""
    before = len(delivered(folder, "everything"))
    deadline = time.monotonic() + 120
    while len(delivered(folder, "everything")) == before:
        assert process.poll() is None, (folder / "log.txt").read_text()
        assert time.monotonic() < deadline, "it delivers nothing"
        time.sleep(0.01)  # polls for the first delivery
    time.sleep(moment.uniform(0.0, 0.8))  # the random moment itself
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_an_interrupt_ends_in_a_report(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    process = start(tmp_path)
    deadline = time.monotonic() + 120
    while not delivered(tmp_path, "everything"):
        assert process.poll() is None, (tmp_path / "log.txt").read_text()
        assert time.monotonic() < deadline, "it delivers nothing"
        time.sleep(0.05)  # polls for the first delivery
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0, (tmp_path / "log.txt").read_text()
    report = RunReport.load(tmp_path / "runs/pipeline/record")
    read = sum(pq.read_table(f).num_rows for f in delivered(tmp_path, "everything"))
    assert report.by_query()["everything"].count == read > 0


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    moment = random.Random(seed)
    for _ in range(KILLS):
        process = start(tmp_path, "--until-end")
        kill_at_random(process, tmp_path, moment)
    faster = PIPELINE.replace(f"rate_per_s = {RATE_PER_S}", f"rate_per_s = {LAST_RATE_PER_S}")
    (tmp_path / "pipeline.toml").write_text(faster)
    assert start(tmp_path, "--until-end").wait(timeout=300) == 0, (tmp_path / "log.txt").read_text()

    everything = pq.read_table(tmp_path / "out/everything").to_pylist()
    assert sorted(r["reading"] for r in everything) == list(range(ROWS))
    warm = pq.read_table(tmp_path / "out/warm").to_pylist()
    hot = sorted(r["reading"] for r in everything if r["temperature"] > 20)
    assert sorted(r["reading"] for r in warm) == hot
    windy = [r["reading"] for r in pq.read_table(tmp_path / "out/windy").to_pylist()]
    assert len(windy) == len(set(windy))
    assert not list((tmp_path / "out").rglob("_staging/*")), "something was left in staging"
    seconds = Counter(int(r["at"].timestamp()) for r in everything)
    ends = {s + past for s in seconds for past in (1, 2)}
    assert counted(tmp_path, "tumbling") == sorted((s + 1, n) for s, n in seconds.items())
    overlapping = sorted((e, seconds[e - 1] + seconds[e - 2]) for e in ends)
    assert counted(tmp_path, "sliding") == overlapping


def counted(folder: Path, query: str) -> list[tuple[int, int]]:
    """End and count of every window that was delivered."""
    rows = pq.read_table(folder / "out" / query).to_pylist()
    return sorted((int(row["e"].timestamp()), row["n"]) for row in rows)
