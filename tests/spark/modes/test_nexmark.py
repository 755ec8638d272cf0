"""Nexmark: every query in one application equals a batch over the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.nexmarking.compare import declare, differences, written
from benchmarks.nexmarking.generator import Generator, write_files
from benchmarks.nexmarking.queries import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: One of each kind: an unbounded join, complete mode, windows, sessions, update mode.
SOME = ("q3", "q8", "q9", "q11", "q17")


def unequal(spark: SparkSession, folder: Path, names: tuple[str, ...], events: int) -> object:
    write_files(folder, Generator(seed=7), events, files=2)
    with declare(spark, folder, names).run(run_dir=folder / "run") as run:
        run.drain(flush=True)
    results = {name: written(folder, name) for name in names}
    found = differences(spark, folder, results)
    assert all(results[name].num_rows for name in names), "an empty result shows nothing"
    return {name: why for name, why in found.items() if why is not None}


def test_some_of_nexmark_equals_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    assert unequal(spark, tmp_path, SOME, 1500) == {}


@pytest.mark.soak
def test_all_of_nexmark_equals_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    assert unequal(spark, tmp_path, tuple(QUERIES), 5000) == {}


def test_the_same_seed_gives_the_same_events() -> None:
    one, other = Generator(seed=3), Generator(seed=3)
    first = list(one.events(200))
    assert first == list(other.events(200))
    assert first != list(Generator(seed=4).events(200))
    kinds = [stream for stream, _ in first]
    assert [kinds.count(s) for s in ("person", "auction", "bid")] == [4, 12, 184]
