"""Run directories that somebody or something has damaged: Daybreak's own clear errors, or none."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from daybreak.model.errors import DaybreakError
from daybreak.model.pipeline import SinkSpec
from daybreak.spark.commitlog import CommitLog, Cursor, CursorMove
from daybreak.spark.rundir import RunDirectory
from daybreak.spark.segments import SegmentStore
from daybreak.spark.sinks import make_sink, recover

SEGMENTS = 6


def work(folder: Path) -> None:
    """Opens a run directory as a start does, and takes one step further."""
    with RunDirectory.open(folder / "run", "p") as rundir:
        log = CommitLog(rundir.state_db)
        try:
            store = SegmentStore(rundir, log, small_bytes=0)
            sinks = {"q": make_sink("q", SinkSpec(format="json", path="out"), folder, Path())}
            recover(log, sinks)
            log.register_query("q", "1", {"s": store.end("s")})
            table = pa.table({"n": pa.array(range(50), pa.int64())})
            end = store.end("s")
            store.append("s", "cp", end.seq, [end.seq], table, 1)
            old = log.cursors()["q", "s"]
            rows, new = store.rows("s", old, 70)
            job = log.new_job()
            staged = sinks["q"].stage(job, rows)
            files = log.commit(job, [CursorMove("q", "s", old, new)], [staged] if staged else [])
            for file in files:
                sinks["q"].deliver(file)
        finally:
            log.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for _ in range(SEGMENTS):
        work(folder)
    assert len(list((folder / "run/segments/s").iterdir())) == SEGMENTS
    return folder


def damage(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    kind = chance.choice(["truncate", "flip", "empty", "remove", "replace", "text"])
    if kind == "remove":
        path.unlink()
    elif kind == "truncate":
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    elif kind == "flip":
        changed = bytearray(content)
        for _ in range(chance.randint(1, 200)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed)
    else:
        new = {"empty": b"", "replace": chance.randbytes(300), "text": b'{"layout": "x"}'}[kind]
        path.write_bytes(new)
    return kind


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
        except DaybreakError:
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
