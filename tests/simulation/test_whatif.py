"""Replays of recorded runs: laws, figures and the JSON that a page reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.simulation.recording import jobs, model, record

from daybreak.engine.inbox import Waiting
from daybreak.model import ConfigError
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak.runtime.curves import class_curves
from daybreak.runtime.report import RunReport
from daybreak.simulation.jobs import Made, UnitInbox
from daybreak.simulation.replay import Replay
from daybreak.simulation.whatif import Wanted, utility_of_all, what_if

ON_SPARK = [name for name, p in all_policies().items() if p.on_spark]


@pytest.mark.parametrize("policy", ON_SPARK)
def test_a_record_replayed_under_its_own_policy_is_the_same_run(
    tmp_path: Path, policy: str
) -> None:
    """Every job again, on the same tuples, at the same nanosecond, though costs vary by a third.

    Rows are placed within a job by their number alone, so staleness may differ once; not again.
    """
    first = record(model(span_s=1.0), make_policy_with(policy), tmp_path / "1")
    second = record(Replay.load(tmp_path / "1"), make_policy_with(policy), tmp_path / "2")
    assert jobs(tmp_path / "2") == jobs(tmp_path / "1")
    assert max(pq.read_table(tmp_path / "1/jobs.parquet")["together"].to_pylist()) > 1
    for series in ("query", "arrival_ns", "departure_ns", "tuples"):
        assert np.array_equal(getattr(first.outputs, series), getattr(second.outputs, series))
    assert second.staleness == pytest.approx(first.staleness, abs=0.05)
    third = record(Replay.load(tmp_path / "2"), make_policy_with(policy), tmp_path / "3")
    assert third.staleness == pytest.approx(second.staleness)
    result = what_if(tmp_path / "2", [])
    assert result.calibration.worst == 1.0
    assert result.calibration.staleness == pytest.approx(0.0)


@pytest.mark.parametrize("policy", ["fcfs", "round-robin", "fixed-priority", "planned"])
def test_a_governed_record_replayed_under_its_own_policy_is_the_same_run(
    tmp_path: Path, policy: str
) -> None:
    """What queries had to read is known by their answers alone, and no two share a job."""
    made = model(span_s=0.5)
    many = len(made.network.queries)
    alone = replace(
        made,
        recorded=replace(
            made.recorded, manifest={**made.recorded.manifest, "kin": {}, "unit_rows": {}}
        ),
        queries=replace(made.queries, share_keys=[None] * many, unit_tuples=[1.0] * many),
    )
    first = record(alone, make_policy_with(policy), tmp_path / "1")
    nothing = pa.table({"stream": pa.array([], pa.string()), "at_ns": [], "tuples": []})
    pq.write_table(nothing, tmp_path / "1/arrivals.parquet")
    second = record(Replay.load(tmp_path / "1"), make_policy_with(policy), tmp_path / "2")
    assert jobs(tmp_path / "2") == jobs(tmp_path / "1")
    for series in ("query", "arrival_ns", "departure_ns", "tuples"):
        assert np.array_equal(getattr(first.outputs, series), getattr(second.outputs, series))
    assert what_if(tmp_path / "1", []).calibration.worst == 1.0


@pytest.mark.parametrize("policy", ["stride", "lottery", "fas-mcq", "mbd"])
def test_what_an_operator_changed_is_changed_again(tmp_path: Path, policy: str) -> None:
    """At its instant, from the value it had: also where the record tells of the end only."""
    changes = (
        Made(1_000_000_000, "class-priority", 1, 10.0, 200.0),
        Made(1_500_000_000, "query-class", 2, 1, 0),
        Made(2_000_000_000, "weight", 3, 1.0, 0.1),
        Made(2_500_000_000, "class-priority", 1, 200.0, 50.0),
    )
    changed = model(changes=changes)
    first = record(changed, make_policy_with(policy), tmp_path / "1")
    assert (first.priorities, first.query_class[2], first.weights[3]) == ((60.0, 50.0), 0, 0.1)
    replay = Replay.load(tmp_path / "1")
    assert replay.changes == changes
    assert not replay.caveats
    record(replay, make_policy_with(policy), tmp_path / "2")
    assert jobs(tmp_path / "2") == jobs(tmp_path / "1")
    record(model(), make_policy_with(policy), tmp_path / "3")
    assert jobs(tmp_path / "3") != jobs(tmp_path / "1"), "the changes matter"


def test_costs_without_noise_are_found_again_for_another_policy(tmp_path: Path) -> None:
    """Recorded under one policy, replayed under another: as if it had run under that one."""
    exact = model(noise=0.0)
    record(exact, make_policy_with("stride"), tmp_path)
    fcfs = make_policy_with("fcfs")
    truly, replayed = exact.run(fcfs), Replay.load(tmp_path).run(make_policy_with("fcfs"))
    for cls in truly.classes:
        was, found = truly.by_class()[cls], replayed.by_class()[cls]
        assert found.count == was.count
        assert found.mean_s == pytest.approx(was.mean_s, rel=1e-3)
        assert found.percentiles_s[95] == pytest.approx(was.percentiles_s[95], rel=1e-3)
    stride = what_if(tmp_path, [Wanted("fcfs")]).outcomes[1]
    assert stride.report.by_class()["low"].mean_s > 1.01 * truly.by_class()["low"].mean_s


def test_only_the_newest_is_replayed_beyond_the_cap_and_the_result_says_so(
    tmp_path: Path,
) -> None:
    whole = record(model(noise=0.1), make_policy_with("stride"), tmp_path)
    steps: list[tuple[int, int]] = []
    result = what_if(
        tmp_path, [Wanted("fcfs")], most=800, progress=lambda done, of: steps.append((done, of))
    )
    assert result.capped
    assert 600 < result.deliveries <= 800 + 20  # and what waited when it began
    assert result.from_s > 0
    assert any("are left out" in caveat for caveat in result.caveats)
    assert steps[-1][0] == steps[-1][1]
    assert all(a[0] < b[0] for a, b in pairwise(steps))
    kept = result.outcomes[0].report
    late = whole.outputs.departure_ns >= round(result.from_s * 1e9)
    assert kept.overall().count == whole.outputs.tuples[late].sum()
    for outcome in result.outcomes[1:]:
        assert outcome.report.overall().count == kept.overall().count, "all is answered in the end"
    assert 0.8 < result.calibration.worst < 1.25
    assert what_if(tmp_path, [], last_s=12.0).from_s == pytest.approx(2.0)


def test_a_run_that_was_cut_off_is_replayed_up_to_the_same_instant(tmp_path: Path) -> None:
    """With what waited then: unfinished business counts in neither."""
    busy = replace(model(rate_per_s=60.0), end_ns=3_000_000_000, drained=False)
    record(busy, make_policy_with("stride"), tmp_path)
    result = what_if(tmp_path, [Wanted("fcfs")])
    for outcome in result.outcomes:
        assert outcome.report.duration_s == 3.0
        assert outcome.waiting > 100
        assert outcome.report.outputs.departure_ns.max() <= 3e9
    recorded, own = (o.report for o in result.outcomes[:2])
    assert own.overall().count == pytest.approx(recorded.overall().count, rel=0.05)


def test_a_policy_with_endless_jobs_is_ended_and_the_result_says_so(tmp_path: Path) -> None:
    record(model(), make_policy_with("stride"), tmp_path)
    result = what_if(tmp_path, [Wanted("round-robin", {"train": 1})], most=300)
    assert any("round-robin was replayed up to" in c for c in result.caveats)
    ended = result.as_json()["runs"][2]
    assert ended["until_s"] < result.as_json()["to_s"]


def test_the_json_holds_curves_on_one_grid(tmp_path: Path) -> None:
    record(model(), make_policy_with("stride"), tmp_path)
    wanted = [Wanted("fcfs"), Wanted("stride"), Wanted("round-robin", {"train": 50})]
    told = json.loads(json.dumps(what_if(tmp_path, wanted, buckets=30).as_json(), allow_nan=False))
    names = [run["name"] for run in told["runs"]]
    assert names == [
        "recorded", "stride, replayed", "fcfs, replayed", "round-robin, replayed"
    ]  # fmt: skip
    assert told["runs"][3]["parameters"]["train"] == 50
    assert told["classes"] == ["high", "low"]
    assert len(told["time_s"]) == 30
    assert told["calibration"]["policy"] == "stride"
    assert told["calibration"]["ratios"]["high"]["p95"] == 1.0
    for run in told["runs"]:
        assert run["curves"].keys() == {"high", "low"}
        for cls, curves in run["curves"].items():
            assert {len(column) for column in curves.values()} == {30}
            assert sum(curves["results"]) == run["summary"]["classes"][cls]["results"]
            assert all(s is None or 0 <= s <= 1 for s in curves["staleness"])
    assert told["runs"][0]["summary"] == told["runs"][1]["summary"] | {
        "staleness": told["runs"][0]["summary"]["staleness"],
        "busy": told["runs"][0]["summary"]["busy"],
        "classes": told["runs"][0]["summary"]["classes"],
    }


def test_unanswered_tuples_count_as_zero_by_priority_and_weight(tmp_path: Path) -> None:
    report = record(model(span_s=2.0), make_policy_with("stride"), tmp_path / "1")
    asked = np.zeros(len(report.queries), dtype=np.int64)
    gained = np.zeros(len(report.queries))
    for q in range(len(report.queries)):
        mine = report.outputs.query == q
        asked[q] = report.outputs.tuples[mine].sum()
        gained[q] = (np.nan_to_num(report.utility) * report.outputs.tuples)[mine].sum()
    graded = [q for q, graph in enumerate(report.qos) if graph is not None]
    assert graded, "there is something to grade"
    weight = {q: report.priorities[report.query_class[q]] * report.weights[q] for q in graded}
    expected = sum(weight[q] * gained[q] for q in graded)
    expected /= sum(weight[q] * asked[q] for q in graded)
    assert utility_of_all(report, asked) == pytest.approx(expected)
    assert utility_of_all(report, 2 * asked) == pytest.approx(expected / 2), "half is unanswered"


def test_curves_add_up_to_the_report(tmp_path: Path) -> None:
    report = record(model(), make_policy_with("stride"), tmp_path)
    edges_s = np.linspace(0, report.duration_s, 41)
    curves = class_curves(report, edges_s)
    assert report.stale is not None
    for c, cls in enumerate(report.classes):
        of = np.array(report.query_class) == c
        mean = float(np.mean(curves[cls].staleness))
        assert mean == pytest.approx(float(np.mean(report.staleness[of])))
        whole = class_curves(report, np.array([0.0, report.duration_s]))[cls]
        summary = report.by_class()[cls]
        assert {p: v[0] for p, v in whole.response_s.items()} == {
            p: summary.percentiles_s[p] for p in whole.response_s
        }
        worth = float(whole.utility[0])
        assert worth == summary.utility or (math.isnan(worth) and math.isnan(summary.utility))


def test_what_a_run_was_told_on_the_way_becomes_a_caveat(tmp_path: Path) -> None:
    report = record(model(), make_policy_with("stride"), tmp_path)
    told = {
        "changes": [
            {"at_s": 2.0, "what": "policy", "subject": "fcfs", "was": "stride", "value": {}},
            {"at_s": 2.1, "what": "weight", "subject": "hot1", "value": 0.5},
            {"at_s": 3.0, "what": "dropped", "subject": "cold1"},
        ],
        "failures": {"both": "OSError"},
        "lost": {"hot1": {"full": 9}},
    }
    replace(report, manifest={**report.manifest, **told}).save_head(tmp_path)
    result = what_if(tmp_path, [])
    said = " / ".join(result.caveats)
    for part in ("policy, weight", "failed", "both", "given up", "hot1"):
        assert part in said
    arrivals = pq.read_table(tmp_path / "arrivals.parquet").to_pylist()
    early = sum(a["tuples"] for a in arrivals if a["stream"] == "readings" and a["at_ns"] < 3e9)
    assert result.outcomes[1].report.by_query()["cold1"].count == early


@pytest.mark.slow
def test_windows_are_answered_when_they_had_closed(tmp_path: Path) -> None:
    """What arrived together is taken as a whole, from the instants at which windows closed."""
    report = record(model(span_s=1.0), make_policy_with("stride"), tmp_path)
    closed = replace(report, manifest={**report.manifest, "windows": ["both"]})
    closed.save_head(tmp_path)
    replayed = Replay.load(tmp_path).run(make_policy_with("round-robin", train=1))
    q = report.queries.index("both")

    def of(one: RunReport) -> dict[int, int]:
        mine = one.outputs.query == q
        sums: dict[int, int] = {}
        pairs = zip(one.outputs.arrival_ns[mine], one.outputs.tuples[mine], strict=True)
        for at_ns, tuples in pairs:
            sums[int(at_ns)] = sums.get(int(at_ns), 0) + int(tuples)
        return sums

    assert of(replayed) == of(report)
    assert replayed.boxes["calls"][q] <= len(of(report)) + 1


def test_folders_without_a_record_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no readable run report"):
        what_if(tmp_path, [])
    (tmp_path / "daybreak.json").write_text("{}")
    with pytest.raises(ConfigError, match="nothing yet; wait"):
        what_if(tmp_path, [])
    record(model(span_s=1.0), make_policy_with("stride"), tmp_path)
    with pytest.raises(ConfigError, match="not registered"):
        what_if(tmp_path, [Wanted("stirde")])
    useless = next(name for name, p in all_policies().items() if not p.on_spark)
    with pytest.raises(ConfigError, match="makes no sense on Spark"):
        what_if(tmp_path, [Wanted(useless)])
    empty = pq.read_table(tmp_path / "arrivals.parquet").slice(0, 0)
    pq.write_table(pa.table(empty), tmp_path / "arrivals.parquet")
    with pytest.raises(ConfigError, match="no arrivals yet"):
        what_if(tmp_path, [])
    (tmp_path / "jobs.parquet").unlink()
    with pytest.raises(ConfigError, match="no record of a run on Spark"):
        what_if(tmp_path, [])


def test_a_micro_batch_takes_whole_files_and_one_at_least() -> None:
    inbox = UnitInbox(unit_tuples=10.0)
    for at_ns in (1, 2):
        inbox.put(Waiting(at_ns, "", 30, -1))

    def took(limit: int | None) -> int:
        return sum(item.tuples for item in inbox.take(limit))

    assert [took(limit) for limit in (25, 3, 0)] == [20, 10, 0]
    assert took(None) == 30
