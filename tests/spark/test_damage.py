"""Run directories that somebody or something has damaged: Daybreak's own clear errors, or none."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.soaking.fuzz import answer_all, application, work
from benchmarks.soaking.nonsense import damage

from daybreak.model.errors import ConfigError, DaybreakError
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS = 6


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for _ in range(SEGMENTS):
        work(folder)
    assert len(list((folder / "run/segments/s").iterdir())) == SEGMENTS
    return folder


@pytest.mark.slow
def test_whatever_is_damaged_the_error_is_ours(sound: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    files = sorted(p.relative_to(sound) for p in (sound / "run").rglob("*") if p.is_file())
    refused = 0
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(sound, folder)
        victim = chance.choice(files)
        kind = damage(folder / victim, chance)
        try:
            work(folder)
        except ConfigError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{kind} of {victim}: {type(error).__name__}: {error}")
        shutil.rmtree(folder)
    assert refused > 10, "damage is noticed"


def test_a_log_with_a_hole_is_refused_before_anything_starts(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    next(iter((folder / "run/segments/s").iterdir())).unlink()
    before = {p: p.stat().st_mtime_ns for p in (folder / "out").rglob("*")}
    with pytest.raises(DaybreakError, match="is missing"):
        work(folder)
    assert {p: p.stat().st_mtime_ns for p in (folder / "out").rglob("*")} == before


def test_a_newer_layout_is_left_alone(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    described = folder / "run/daybreak.json"
    described.write_text(json.dumps({**json.loads(described.read_text()), "layout": 99}))
    content = (folder / "run/state.db").read_bytes()
    with pytest.raises(DaybreakError, match="newer than this Daybreak"):
        work(folder)
    assert (folder / "run/state.db").read_bytes() == content


def test_a_cursor_is_given_up_with_its_range_recorded(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "state.db")
    log.register_query("q", "1", {"s": Cursor(0, 0)})
    log.give_up("full", [(CursorMove("q", "s", Cursor(0, 0), Cursor(2, 5)), 25)])
    log.give_up("full", [(CursorMove("q", "s", Cursor(2, 5), Cursor(3, 0)), 5)])
    assert log.cursors() == {("q", "s"): Cursor(3, 0)}
    assert log.losses() == {"q": {"full": 30}}
    ranges = [(tuple(e["from"]), tuple(e["to"]), e["rows"]) for e in log.lost()]
    assert ranges == [((0, 0), (2, 5), 25), ((2, 5), (3, 0), 5)]
    log.close()


def test_rows_kept_aside_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "state.db")
    (tmp_path / "s").mkdir()
    (tmp_path / "s/1.parquet").write_bytes(b"no parquet")
    with pytest.raises(ConfigError, match=r"1\.parquet: is damaged"):
        DeadLetters(tmp_path, log).count("s")
    log.close()


@pytest.mark.spark
def test_a_damaged_checkpoint_is_named(spark: SparkSession, tmp_path: Path) -> None:
    run, arriving = tmp_path / "run", tmp_path / "in"
    answer_all(application(spark, tmp_path, arriving, ingest="spark"), run)
    (run / "checkpoints/s/metadata").write_bytes(b"x" * 300)
    with pytest.raises(
        ConfigError, match=r"stream 's': Spark does not start it from .*checkpoints"
    ):
        answer_all(application(spark, tmp_path, arriving, ingest="spark"), run)
    with pytest.raises(ConfigError, match=r"stream 's': .*checkpoints/s/metadata cannot be read"):
        answer_all(application(spark, tmp_path, arriving), run)
