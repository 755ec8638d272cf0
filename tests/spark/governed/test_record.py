"""The record of a governor, with gates that do what the test says: no Spark is needed."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.governed.scripted import FOLDER, Bench

from daybreak.engine.inbox import Waiting
from daybreak.model.errors import ConfigError
from daybreak.runtime.record import ARRIVALS_FILE
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.report import RunReport
from daybreak.runtime.starts import load_run
from daybreak.simulation.whatif import Wanted, WhatIf, what_if
from daybreak.spark.gates.bridge import UnitGroup
from daybreak.spark.governed.backlog import asked
from daybreak.spark.governed.governed_queries import Governed
from daybreak.spark.governed.governed_record import MOST_WAITING, joined
from daybreak.spark.governed.governor_files import GovernorFiles, own_run_dir
from daybreak.spark.governed.source_arrivals import SourceArrivals


def reads(bench: Bench, name: str, files: int, rows: int, at_ms: int | None = None) -> None:
    """So many files come for a query, which reads all of them."""
    groups = (UnitGroup(at_ms or now_ms(), 0, files),)
    came = bench.pending(name, files)._replace(groups=groups)
    assert (bench.hear(came) or bench.until_granted()) == [name]
    bench.hear(bench.ready(name, rows, files))


def now_ms() -> int:
    return round(time.time() * 1000)


def taken(bench: Bench) -> RunReport:
    """What the record holds now, as a governor reads it."""
    assert bench.record is not None
    bench.hear()
    bench.record.take()
    return bench.record.read()


def replayed(folder: Path) -> WhatIf:
    found = what_if(folder, [Wanted("round-robin"), Wanted("fcfs")])
    assert [o.name for o in found.outcomes][1:] == [
        "fixed-priority, replayed", "round-robin, replayed", "fcfs, replayed",
    ]  # fmt: skip
    return found


def test_a_replay_answers_as_many_tuples_as_each_query_has_read(tmp_path: Path) -> None:
    bench = Bench(record=tmp_path)
    assert bench.start("fire", "alarm") == ["fire"]
    bench.hear(bench.ready("fire", 50, 5))  # what was there before it
    bench.running("audit", "archive")
    reads(bench, "fire", 2, 20)
    reads(bench, "audit", 2, 20)
    assert bench.start("late", "archive") == ["late"]
    bench.hear(bench.ready("late", 70, 7))  # all there is by now
    reads(bench, "fire", 1, 10)
    report = taken(bench)
    assert {q: s.count for q, s in report.by_query().items()} == {
        "fire": 80, "audit": 20, "late": 70,
    }  # fmt: skip
    found = replayed(tmp_path)
    for outcome in found.outcomes:
        counts = {q: s.count for q, s in outcome.report.by_query().items()}
        assert counts == {"fire": 80, "audit": 20, "late": 70}, outcome.name
    assert found.tuples == 170
    assert found.calibration.worst >= 1.0
    assert found.as_json()["calibration"]["worst_ratio"] is not None
    newest = what_if(tmp_path, [], most=2)
    assert (newest.capped, newest.known) == (True, 5)
    assert newest.outcomes[1].report.by_query()["fire"].count >= 10


def test_arrivals_are_recorded_once_however_many_queries_read_the_source(tmp_path: Path) -> None:
    bench = Bench(record=tmp_path)
    for name in ("a", "b", "c"):
        assert (bench.start(name) or bench.until_granted()) == [name]
        bench.hear(bench.ready(name, 50, 5))
    at_ms = now_ms() + 1
    for name in ("b", "a", "c"):
        reads(bench, name, 2, 20, at_ms)
    taken(bench)
    arrivals = pq.read_table(tmp_path / ARRIVALS_FILE, partitioning=None).to_pydict()
    assert set(arrivals["stream"]) == {FOLDER}
    assert sum(arrivals["tuples"]) == 70
    (stream,) = snapshot_of_record(tmp_path).streams
    assert (stream.name, stream.arrived) == (FOLDER, 70)


def test_what_waits_at_the_end_is_replayed_and_a_question_is_not(tmp_path: Path) -> None:
    bench = Bench("round-robin", record=tmp_path, train=20)
    bench.running("q")
    bench.running("idle")
    reads(bench, "q", 1, 10)
    left = (UnitGroup(now_ms(), 0, 4),)
    assert bench.hear(bench.pending("q", 6)) == ["q"]
    assert bench.hear(bench.ready("q", 20, 2, left=left)) == ["q"], "the rest, under way at the end"
    bench.driver.roster.ask(bench.driver.roster.queries["idle"])
    report = taken(bench)
    ((_, tuples),) = report.manifest["waiting"]["q"]
    assert tuples == 40
    assert "idle" not in report.manifest["waiting"]
    found = what_if(tmp_path, [Wanted("fcfs")])
    assert found.tuples == 70
    assert any("about 40 tuples, is estimated" in caveat for caveat in found.caveats)


def test_what_a_replay_cannot_model_is_stated(tmp_path: Path) -> None:
    bench = Bench(record=tmp_path)
    bench.running("windows")
    reads(bench, "windows", 1, 10)
    bench.hear(bench.pending("windows", 0, awaited=True))
    bench.hear(bench.ready("windows", ran=True))  # emits what a watermark closed
    bench.driver.restarts["token"] = lambda: None
    bench.start("flaky", restart="token")
    bench.hear(bench.gone("flaky", "once"))
    bench.start("socket")
    bench.hear(bench.ready("socket", 5, probed=False)._replace(due_ms=now_ms() + 60_000))
    taken(bench)
    notes = " | ".join(replayed(tmp_path).caveats)
    assert "micro-batches without data are not replayed: 1 of them took 0.1 s" in notes
    assert "micro-batches that failed cost nothing in replays: flaky" in notes
    assert "rows arrive when they were found: socket" in notes
    assert "do not wait for the intervals of their triggers in replays: socket" in notes


def test_the_record_of_a_governor_that_was_killed_is_read_up_to_its_last_part(
    tmp_path: Path,
) -> None:
    """A part that names a query of which no head was written yet would not be readable."""
    bench = Bench(record=tmp_path)
    assert bench.record is not None
    bench.running("first")
    reads(bench, "first", 1, 10)
    taken(bench)
    bench.running("second")
    reads(bench, "second", 1, 10)
    bench.record.take()

    class KilledError(BaseException):
        pass

    def killed() -> None:
        raise KilledError

    save, bench.record._save_head = bench.record._save_head, killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        bench.record.write()
    assert load_run(tmp_path).overall().count == 10
    bench.record._save_head = save  # type: ignore[method-assign]
    bench.record.write()
    assert load_run(tmp_path).overall().count == 20
    assert replayed(tmp_path).tuples == 20


def test_a_record_without_queries_is_empty(tmp_path: Path) -> None:
    bench = Bench(record=tmp_path)
    assert taken(bench).overall().count == 0
    with pytest.raises(ConfigError, match="has recorded no arrivals yet"):
        what_if(tmp_path, [])


def test_the_class_of_a_query_changes_in_replays_when_it_did(tmp_path: Path) -> None:
    bench = Bench(record=tmp_path)
    bench.running("q", "archive")
    reads(bench, "q", 1, 10)
    at_s = 60.0  # its answers came before
    change = {"at_s": at_s, "what": "query-class", "subject": "q", "was": "alarm"}
    unknown = {"at_s": at_s, "what": "query-class", "subject": "later-*", "was": None}
    record = bench.record
    assert record is not None
    about = record._about
    record._about = lambda: {
        **about(),
        "changes": [{**change, "value": "archive"}, {**unknown, "value": "alarm"}],
    }
    taken(bench)
    found = replayed(tmp_path)
    assert found.outcomes[1].report.by_class()["alarm"].count == 10
    assert not any("changed on the way" in caveat for caveat in found.caveats)


def test_a_run_directory_is_refused_as_that_of_an_application_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/data.csv").touch()
    with pytest.raises(ConfigError, match=r"holds 'data.csv' and no daybreak.json"):
        own_run_dir(tmp_path / "mine", "streams")
    held = GovernorFiles(tmp_path / "runs", "streams")
    with pytest.raises(ConfigError, match="is in use by process"):
        GovernorFiles(tmp_path / "runs", "streams")
    held.close()
    with pytest.raises(ConfigError, match="belongs to application 'streams', not 'others'"):
        own_run_dir(tmp_path / "runs", "others")
    (tmp_path / "runs/state.db").touch()
    with pytest.raises(ConfigError, match="is the run directory of an application"):
        GovernorFiles(tmp_path / "runs", "streams")


def test_a_long_backlog_is_recorded_in_few_items() -> None:
    items = [Waiting(5 + i, "s", 2, 0) for i in range(10 * MOST_WAITING)]
    found = joined(items, 5)
    assert len(found) == MOST_WAITING
    assert found[:2] == [(0, 20), (10, 20)]
    assert sum(tuples for _, tuples in found) == 2 * len(items)


def test_rows_are_new_when_the_first_query_reads_them() -> None:
    arrivals = SourceArrivals()
    early, late = (
        Governed(name, name, None, None, since) for name, since in (("a", 1), ("b", 1000))
    )

    def new(query: Governed, *items: Waiting) -> int:
        return sum(item.tuples for item in arrivals.new_in(query, items))

    def read(ms: int, rows: int) -> Waiting:
        return Waiting(ms * 1_000_000, "s", rows, 0)

    assert new(early, asked("s", 2_000_000)._replace(tuples=30)) == 30, "there at the start"
    assert new(early, read(500, 10)) == 10
    assert new(late, asked("s", 10**9)._replace(tuples=20), read(1000, 20)) == 0, "as before it"
    assert new(late, read(2000, 5)) == 5
    assert new(late, read(2000, 5)) == 5, "the rest of what arrived then"
    assert new(early, read(2000, 10), read(3000, 4)) == 4
    again = Governed("a", "a", None, None, 4000)
    assert new(again, asked("s", 4 * 10**9)._replace(tuples=54)) == 0, "again, from nothing"
    assert new(again, read(5000, 1)) == 1
