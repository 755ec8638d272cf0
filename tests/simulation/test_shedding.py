"""Shedding in virtual time, what reports say of it, and the two kinds of overload."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.model import (
    OVERHEADS,
    Arrivals,
    ConfigError,
    Network,
    Pipeline,
    QoSGraph,
    Query,
    Stream,
    chain,
)
from daybreak.model.shedding import SheddingParams
from daybreak.policies.registry import make_policy_with
from daybreak.report.overload import dropped_table, overload_lines
from daybreak.runtime.overload import overload
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule, load_scale
from daybreak.simulation.laws import assert_same, busy_network
from daybreak.simulation.simulate import simulate

COSTS_NS = (100_000, 400_000, 1_600_000)


def chains(deadline_s: float = 0.5, **arrivals: float) -> Network:
    """Three queries that differ in cost alone: what they are worth per cost differs by 4."""
    rate = Arrivals(rate_per_s=1.0, **arrivals)  # type: ignore[arg-type]
    return Network(
        streams=[Stream(name=f"s{i}", arrivals=rate) for i in range(3)],
        boxes=[b for i, c in enumerate(COSTS_NS) for b in chain(f"q{i}", f"s{i}", [c // 2] * 2)],
        queries=[
            Query(name=f"q{i}", output=f"q{i}.2", qos=QoSGraph.deadline(deadline_s))
            for i in range(3)
        ],
    )


def arrivals(network: Network, load: float, seconds: float = 20.0) -> ArrivalSchedule:
    return draw_schedule(network, seconds, 3, load_scale(network, load, workers=1))


def run(network: Network, load: float, shedding: SheddingParams | None) -> RunReport:
    schedule = arrivals(network, load)
    policy = make_policy_with("fcfs")
    return simulate(network, policy, schedule, overheads=OVERHEADS["light"], shedding=shedding)


def test_nothing_is_dropped_unless_asked_for() -> None:
    report = run(chains(), 1.5, None)
    assert report.dropped == (0, 0, 0)
    assert dropped_table(report) == []
    assert len(report.outputs) == report.manifest["arrivals"]


def test_without_overload_shedding_changes_nothing() -> None:
    network = busy_network()
    schedule = draw_schedule(network, 2.0, 3, load_scale(network, 0.7, workers=2))
    reports = [
        simulate(network, make_policy_with("stride"), schedule, workers=2, shedding=shedding)
        for shedding in (None, SheddingParams())
    ]
    assert_same(*reports)
    assert not any(reports[1].dropped)


def test_under_overload_the_least_worth_per_cost_is_dropped() -> None:
    network = chains()
    schedule = arrivals(network, 1.5)
    without, report = run(network, 1.5, None), run(network, 1.5, SheddingParams())
    # All that arrived was either worked on or counted as dropped.
    offered = np.bincount(schedule.stream, minlength=3)
    inputs = [network.box_index[f"q{i}.1"] for i in range(3)]
    worked = [report.boxes["tuples_in"][b] for b in inputs]
    assert (np.array(worked) + report.dropped).tolist() == offered.tolist()
    # A third of the work goes; the dearest query holds three quarters of it.
    assert report.dropped[:2] == (0, 0)
    assert report.dropped[2] / offered[2] == pytest.approx(1 - (0.95 / 1.5 - 0.24) / 0.76, abs=0.07)
    assert report.overall().utility > 0.95
    assert without.overall().utility < 0.3


def test_the_drop_ends_with_the_overload() -> None:
    network = chains()
    busy = arrivals(network, 1.5, 10.0)
    calm = arrivals(network, 0.5, 10.0)
    schedule = ArrivalSchedule(
        np.concatenate([busy.at_ns, calm.at_ns + 10**10]),
        np.concatenate([busy.stream, calm.stream]),
    )
    report = simulate(network, make_policy_with("fcfs"), schedule, shedding=SheddingParams())
    late = report.outputs.arrival_ns > 12 * 10**9
    assert late.sum() == (schedule.at_ns > 12 * 10**9).sum()
    assert sum(report.dropped) > 0


def test_a_share_can_be_kept_of_every_input() -> None:
    report = run(chains(), 3.0, SheddingParams(keep=0.3))
    offered = np.bincount(arrivals(chains(), 3.0).stream, minlength=3)
    kept = 1 - np.array(report.dropped) / offered
    assert (kept > 0.25).all()
    assert kept[2] == pytest.approx(0.3, abs=0.08)


def test_uniform_shedding_drops_everywhere() -> None:
    report = run(chains(), 1.5, SheddingParams(by="uniform"))
    offered = np.bincount(arrivals(chains(), 1.5).stream, minlength=3)
    assert np.array(report.dropped) / offered == pytest.approx([1 - 0.95 / 1.5] * 3, abs=0.07)


def test_what_was_dropped_is_stored(tmp_path: Path) -> None:
    report = run(chains(), 1.5, SheddingParams())
    again = RunReport.load(report.save(tmp_path))
    assert again.dropped == report.dropped
    assert again.manifest["shedding"]["headroom"] == 0.95
    assert overload(again).states == overload(report).states


def test_reports_from_before_shedding_are_still_read(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    report = run(chains(), 0.5, None)
    report.save(tmp_path)
    data = json.loads((tmp_path / "report.json").read_text())
    for query in data["queries"]:
        del query["dropped"]
    (tmp_path / "report.json").write_text(json.dumps(data))
    backlog = pq.read_table(tmp_path / "backlog.parquet")
    old = backlog.drop_columns(["work.done_ns", "work.offered_ns", "work.shed_ns"])
    pq.write_table(old, tmp_path / "backlog.parquet")
    again = RunReport.load(tmp_path)
    assert_same(report, again)
    assert again.dropped == (0, 0, 0)
    assert overload(again).states == ()
    assert overload_lines(again) == []


@pytest.mark.parametrize(
    ("load", "deadline_s", "batch_s", "kind"),
    [
        (0.5, 0.5, None, "fine"),
        (1.5, 0.5, None, "capacity"),
        # Half a second's tuples at once, due in 20 ms: capacity suffices, deadlines do not.
        (0.5, 0.02, 0.5, "qos"),
    ],
)
def test_the_kinds_of_overload_are_told_apart(
    load: float, deadline_s: float, batch_s: float | None, kind: str
) -> None:
    network = chains(deadline_s, **({"batch_s": batch_s} if batch_s else {}))
    report = run(network, load, None)
    found = overload(report)
    shares = {s: found.share(s) for s in ("fine", "capacity", "qos")}
    assert shares[kind] >= 0.9, shares
    during = found.at_s < 20
    assert found.offered[during].mean() == pytest.approx(load, rel=0.1)
    assert [line.split(" ")[0].lower() for line in overload_lines(report)][:1] == (
        [kind] if kind != "fine" else []
    )


def test_what_was_dropped_counts_as_offered() -> None:
    """Shedding saves the utility; capacity was short all the same, and the report says so."""
    report = run(chains(), 1.5, SheddingParams())
    found = overload(report)
    assert report.overall().utility > 0.95
    assert found.offered[found.at_s < 20].mean() == pytest.approx(1.5, rel=0.1)
    assert found.share("capacity") >= 0.9


def test_catching_up_belongs_to_the_overload() -> None:
    network = chains()
    busy, calm = arrivals(network, 2.0, 5.0), arrivals(network, 0.1, 15.0)
    schedule = ArrivalSchedule(
        np.concatenate([busy.at_ns, calm.at_ns + 5 * 10**9]),
        np.concatenate([busy.stream, calm.stream]),
    )
    found = overload(simulate(network, make_policy_with("fcfs"), schedule))
    # 5 s at twice the capacity, then 5 s of backlog worked off at 0.9 of it.
    assert found.states.count("capacity") == pytest.approx((5 + 5 / 0.9) / 20 * 20, abs=2)
    assert found.states[0] == "capacity"
    assert found.states[-3:] == ("fine",) * 3


PIPELINE = """
[app]
policy = "fcfs"
[streams.s]
arrivals = { process = "poisson", rate_per_s = 200 }
[queries.q]
from = "s"
chain = [{ cost_us = 10000 }]
qos = [[0, 1.0], [0.5, 1.0], [1.0, 0.0]]
[simulation]
duration_s = 5
"""


@pytest.mark.slow
def test_a_pipeline_declares_shedding_and_the_command_line_overrules_it(tmp_path: Path) -> None:
    plain, shedding = tmp_path / "plain.toml", tmp_path / "shedding.toml"
    plain.write_text(PIPELINE)
    shedding.write_text(PIPELINE + "[shedding]\nheadroom = 0.8\n")
    assert Pipeline.read(plain).shedding is None
    assert Pipeline.read(shedding).shedding == replace(SheddingParams(), headroom=0.8)

    def told(*arguments: str) -> str:
        out = CliRunner().invoke(app, ["simulate", *arguments, "--out", str(tmp_path / "out")])
        assert out.exit_code == 0, out.output
        return " ".join(out.output.split())

    assert "dropped by load shedding" not in (quiet := told(str(plain)))
    assert "capacity overload" in quiet
    assert json.loads(told(str(plain), "--shed", "--json"))["fcfs"]["queries"]["q"]["dropped"] > 0
    assert "dropped by load shedding" not in told(str(shedding), "--no-shed")
    assert "dropped by load shedding" in told(str(shedding))
    report = CliRunner().invoke(app, ["report", str(tmp_path / "out" / "fcfs")])
    assert "dropped by load shedding" in report.output


def test_a_wrong_key_of_shedding_is_refused() -> None:
    with pytest.raises(ConfigError, match="headroom"):
        Pipeline.parse(PIPELINE + "[shedding]\nheadroom = 2.0\n")
    with pytest.raises(ConfigError, match="unknown key"):
        Pipeline.parse(PIPELINE + "[shedding]\nheadrom = 0.5\n")
