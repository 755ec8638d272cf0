"""What the engine makes of the gates' reports: who is granted a micro-batch, when and why."""

from __future__ import annotations

import time

import pytest
from tests.spark.governed.scripted import Bench
from tests.until import until

from daybreak.engine.events import Pause, Resume
from daybreak.engine.state import JobState
from daybreak.model.network import Network
from daybreak.model.qos import QoSGraph
from daybreak.runtime.monitor import Monitor
from daybreak.spark.gates.bridge import QueryStarted, Seen, UnitGroup
from daybreak.spark.governed.class_book import Assignment


def state_of(bench: Bench, name: str) -> str:
    assert bench.driver.roster.engine is not None
    return bench.driver.roster.engine.look().states[bench.driver.roster.queries[name].box]


def test_every_query_is_granted_its_first_micro_batch_one_at_a_time() -> None:
    bench = Bench()
    assert bench.start("a") == ["a"]
    assert bench.start("b") == [], "one worker"
    assert bench.hear(bench.ready("a")) == ["b"]
    assert bench.hear(bench.ready("b")) == []


@pytest.mark.parametrize("policy", ["planned", "slope-slack", "fixed-priority"])
def test_the_alarm_goes_first_whatever_came_first(policy: str) -> None:
    bench = Bench(policy)
    bench.driver.roster.book.assign(Assignment("fire", "alarm", QoSGraph.deadline(0.05)))
    bench.driver.roster.book.assign(Assignment("*-log", "archive", QoSGraph.deadline(0.5)))
    names = ["access-log", "error-log", "fire"]
    for name in names:
        bench.running(name)
    order = bench.hear(*(bench.pending(name, 3) for name in names)) or bench.until_granted()
    for _ in names[1:]:
        order += bench.hear(bench.ready(order[-1], 30, 3)) or bench.until_granted()
    assert order[0] == "fire"
    assert sorted(order) == sorted(names)


def test_a_policy_decides_how_much_a_micro_batch_reads() -> None:
    """In files, by the rows that a file held so far; what was not read waits on."""
    bench = Bench("round-robin", train=250)
    bench.running("q")
    assert bench.hear(bench.pending("q", 1)) == ["q"]
    assert not bench.bridge.units["q"], "all there is"
    bench.hear(bench.ready("q", rows=100, units=1))
    assert bench.hear(bench.pending("q", 9)) == ["q"]
    assert list(bench.bridge.units["q"]) == [2]
    left = (UnitGroup(round(time.time() * 1000), 0, 7),)
    assert bench.hear(bench.ready("q", rows=200, units=2, left=left)) == ["q"]
    assert bench.driver.roster.engine is not None
    assert bench.driver.roster.engine.look().tuples_in[0] == 300


def test_a_source_that_gives_nothing_of_what_waits_holds_no_worker() -> None:
    """As one with Kafka's minOffsetsPerTrigger does."""
    bench = Bench()
    bench.running("fire", "alarm")
    bench.running("log", "archive")
    assert bench.hear(bench.pending("fire", 3)) == ["fire"]
    assert bench.hear(bench.pending("log", 3)) == []
    left = bench.pending("fire", 3).groups
    assert bench.hear(bench.ready("fire", left=left)) == ["log"]
    assert bench.hear(bench.ready("log", 30, 3)) == []
    assert bench.hear(bench.pending("fire", 3)) == ["fire"], "when a probe has reported it again"


def test_rows_are_estimated_from_files_and_corrected_by_what_was_read() -> None:
    bench = Bench()
    bench.running("q")
    assert bench.hear(bench.pending("q", 1)) == ["q"]
    bench.hear(bench.ready("q", rows=100, units=1))
    engine = bench.driver.roster.engine
    assert engine is not None
    state = engine.look()
    assert (state.tuples_in[0], state.arrived[0], state.pending[0]) == (100, 100, 0)
    assert bench.hear(bench.pending("q", 4)) == ["q"], "four files are 400 rows by now"
    left = (UnitGroup(round(time.time() * 1000), 0, 3),)
    assert bench.hear(bench.ready("q", rows=90, units=1, left=left)) == ["q"], "three are left"
    state = engine.look()
    assert (state.tuples_in[0], state.arrived[0]) == (190, 190 + 300 - 9), "at 97 rows a file"


def test_a_watermark_is_followed_by_the_micro_batch_that_emits_what_it_closed() -> None:
    bench = Bench()
    bench.running("windows", "archive")
    bench.running("fire", "alarm")
    assert bench.hear(bench.pending("windows", 2)) == ["windows"]
    assert bench.hear(bench.pending("fire", 1)) == []
    assert bench.hear(bench.ready("windows", 10, 2, watermark=True)) == ["fire"], (
        "a turn of its own"
    )
    assert bench.hear(bench.ready("fire", 5, 1)) == ["windows"]
    assert bench.hear(bench.ready("windows", watermark=True)) == [], "one is enough"


def test_data_that_waits_spares_the_micro_batch_without_data() -> None:
    bench = Bench(train=100)
    bench.running("windows")
    assert bench.hear(bench.pending("windows", 2)) == ["windows"]
    left = (UnitGroup(round(time.time() * 1000), 0, 1),)
    again = bench.hear(bench.ready("windows", 10, 1, watermark=True, left=left))
    assert again == ["windows"]
    assert bench.hear(bench.ready("windows", 10, 1)) == [], "nothing else was asked for"


def test_the_micro_batch_without_data_waits_for_the_interval_of_its_trigger() -> None:
    bench = Bench()
    bench.running("windows")
    assert bench.hear(bench.pending("windows", 1)) == ["windows"]
    due_ms = round(time.time() * 1000) + 300
    ready = bench.ready("windows", 10, 1, watermark=True)._replace(due_ms=due_ms)
    assert bench.hear(ready) == []
    assert bench.until_granted() == ["windows"]
    assert time.time() * 1000 >= due_ms


def test_a_query_that_somebody_waits_for_is_granted_an_empty_micro_batch() -> None:
    bench = Bench()
    bench.running("q")
    assert bench.hear(bench.pending("q", 0, awaited=True)) == ["q"]
    assert bench.hear(bench.ready("q")) == []


def test_a_source_that_cannot_be_seen_is_looked_at_now_and_then() -> None:
    bench = Bench()
    bench.start("q")
    bench.hear(bench.ready("q", 5, probed=False))
    assert bench.until_granted() == ["q"]


def test_reports_from_before_the_present_grant_are_ignored() -> None:
    bench = Bench()
    bench.running("q")
    old = bench.pending("q", 1)
    assert bench.hear(old) == ["q"]
    bench.hear(bench.ready("q", 10, 1))
    assert bench.hear(old) == [], "that file has been read"


def test_a_paused_query_waits_and_is_granted_after_its_pause() -> None:
    bench = Bench()
    bench.running("q")
    box = bench.driver.roster.queries["q"].box
    bench.driver.feed(Pause(box))
    assert bench.hear(bench.pending("q", 1)) == []
    bench.driver.feed(Resume(box))
    assert bench.hear() == ["q"]


def test_another_qos_graph_keeps_the_backlog_and_waits_for_the_job() -> None:
    bench = Bench()
    bench.running("q")
    query = bench.driver.roster.queries["q"]
    assert bench.hear(bench.pending("q", 1)) == ["q"]
    bench.driver.roster.book.assign(Assignment("q", "alarm", QoSGraph.deadline(1.0)))
    query.renew = True
    bench.hear()
    assert query.renew, "it has a job"
    left = (UnitGroup(round(time.time() * 1000), 0, 1),)
    bench.driver.feed(Pause(query.box))
    assert bench.hear(bench.ready("q", 10, 1, left=left)) == []
    assert (query.renew, state_of(bench, "q")) == (False, "paused")
    bench.driver.feed(Resume(query.box))
    assert bench.hear() == ["q"]
    assert bench.driver.roster.class_of(query) == "alarm"


def test_a_report_without_queries_is_empty() -> None:
    nothing = Network(streams=[], boxes=[], queries=[])
    report = Monitor(nothing).report(JobState(nothing, 2), 10**9, 3, {})
    assert (report.queries, report.overall().count) == ((), 0)


def test_a_query_stopped_inside_its_micro_batch_frees_the_worker() -> None:
    bench = Bench()
    bench.running("a")
    bench.running("b")
    assert bench.hear(bench.pending("a", 1), bench.pending("b", 1)) in (["a"], ["b"])
    first = bench.bridge.grants[0]
    assert bench.hear(bench.gone(first)) == [{"a": "b", "b": "a"}[first]]
    assert first not in bench.driver.roster.queries
    assert bench.start(first) == []
    other = {"a": "b", "b": "a"}[first]
    assert bench.hear(bench.ready(other, 1, 1)) == [first], "another of its name, at its place"


def test_a_start_may_be_reported_before_the_end_of_the_run_before() -> None:
    bench = Bench()
    bench.running("q")
    assert bench.start("q", run="q again") == ["q again"]
    assert bench.hear(bench.gone("q")) == []
    assert bench.driver.roster.queries["q"].run == "q again"


def test_a_failed_query_of_the_program_is_reported_and_others_continue() -> None:
    bench = Bench()
    bench.running("bad")
    bench.running("good")
    assert bench.hear(bench.pending("bad", 1)) == ["bad"]
    bench.hear(bench.pending("good", 1))
    assert bench.hear(bench.gone("bad", "java.lang.Boom: no")) == ["good"]
    assert bench.driver.roster.queries["bad"].failed is not None
    assert "no" in bench.driver.roster.queries["bad"].failed
    bench.hear(bench.ready("good", 1, 1))
    assert bench.start("bad", run="bad again") == ["bad again"], "the program started it again"
    assert bench.driver.roster.queries["bad"].failed is None


def test_a_query_that_can_be_started_again_is_with_backoff_then_parked() -> None:
    bench = Bench(retries=2, retry_s=0.01)
    starts: list[int] = []
    bench.driver.restarts["token"] = lambda: starts.append(1)
    bench.start("bad", restart="token")
    bench.hear(bench.gone("bad", "first"))
    for attempt in (1, 2):
        until(lambda n=attempt: bench.hear() == [] and len(starts) == n, "a restart")  # type: ignore[misc]
        assert bench.start("bad", run=f"bad {attempt}") == [f"bad {attempt}"]
        bench.hear(bench.gone(f"bad {attempt}", f"failure {attempt}"))
    assert state_of(bench, "bad") == "parked"
    assert len(starts) == 2


def test_a_restart_that_works_continues_where_the_query_failed() -> None:
    bench = Bench(retries=2, retry_s=0.01)
    bench.driver.restarts["token"] = lambda: None
    bench.start("q", restart="token")
    bench.hear(bench.gone("q", "once"))
    until(
        lambda: not bench.hear() and bench.driver.roster.queries["q"].job is not None, "its order"
    )
    assert bench.start("q", run="q again") == ["q again"]
    bench.hear(bench.ready("q again", 7, 1))
    assert state_of(bench, "q") == "running"
    assert bench.driver.roster.engine is not None
    assert bench.driver.roster.engine.look().tuples_in[0] == 7


def test_queries_that_run_free_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daybreak.spark.governed.gate_driver.ANNOUNCED_S", 0.01)
    bench = Bench()
    bench.hear(QueryStarted("r1", "i1", "once", None, None, "trigger AvailableNow"))
    bench.hear(Seen("r2", "elsewhere"))
    until(lambda: not bench.hear() and "r2" in bench.driver.free, "the other session's")
    assert {q.name for q in bench.driver.free.values()} == {"once", "elsewhere"}
    bench.hear(Seen("r2", "", ended=True), bench.gone("r1"))
    assert bench.driver.free == {}
    assert set(bench.driver.ever_free) == {"once", "elsewhere"}


def test_a_query_without_a_name_goes_by_its_id() -> None:
    bench = Bench()
    bench.hear(QueryStarted("run", "0aa-1", None, None, None, None))
    assert list(bench.driver.roster.queries) == ["0aa-1"]


def test_a_micro_batch_beyond_its_time_limit_is_cancelled() -> None:
    bench = Bench(job_timeout_s=0.01)
    bench.start("slow")
    until(lambda: not bench.hear() and bench.bridge.cancelled == ["slow"], "its cancellation")


def test_a_query_that_hangs_costs_a_worker_once_and_is_listed() -> None:
    """Its gate is not granted again: it would run what nobody decides, once the hang ends."""
    bench = Bench(job_timeout_s=0.01, retry_s=0.001)
    bench.running("other")
    bench.running("hangs")
    grants = bench.hear(bench.pending("hangs", 1))
    assert grants == ["hangs"]
    assert bench.hear(bench.pending("other", 1)) == []
    roster = bench.driver.roster
    assert roster.engine is not None
    engine, box = roster.engine, roster.queries["hangs"].box
    # As if ``GRACE_S`` had passed: the engine gives its micro-batch up.
    order = next(iter(roster.engine.orders.values()))
    order.began_ns -= 10 * 10**9
    assert bench.until_granted() == ["other"], "the worker is free"
    assert "hangs" in bench.bridge.cancelled
    assert list(roster.failures()) == ["hangs"]
    assert bench.hear(bench.ready("other", 1, 1)) == []
    until(lambda: bench.hear() == [] and engine.look().states[box] == "running", "its retry")
    for _ in range(5):
        assert bench.hear(bench.pending("hangs", 3)) == [], "no grant while it hangs"
    assert bench.hear(bench.pending("other", 1)) == ["other"], "nor a worker"
    bench.hear(bench.ready("other", 1, 1))
    left = (UnitGroup(round(time.time() * 1000), 0, 2),)
    assert bench.hear(bench.ready("hangs", 1, 1, left=left)) == ["hangs"], "what waits is known"
    assert roster.failures() == {}
    assert bench.hear(bench.ready("hangs", 2, 2)) == []
    assert engine.look().failures[box] == 0
