"""What a reader is shown of the classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daybreak.model import Arrivals, Box, Network, Query, QueryClass, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.report.classes import treatment_table, whiskers
from daybreak.report.figures import save_figure
from daybreak.report.run import as_json, class_table, plot_run
from daybreak.runtime.classes import ClassFigures, schedule_updates_s
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.laws import busy_network
from daybreak.simulation.simulate import simulate


@pytest.fixture(scope="module")
def report() -> RunReport:
    network = busy_network()
    return simulate(network, make_policy_with("stride"), draw_schedule(network, 1.0, 1))


def test_the_table_says_what_the_figures_say(report: RunReport) -> None:
    rows = {row[0]: row[1] for row in treatment_table(report)}
    figures = ClassFigures.of(report)
    assert rows["starvation ratio"] == f"{figures.starvation_ratio:.3g} (c / a)"
    assert f"PrIR {figures.inversion():.3g} at the mean" in rows["priority inversion"]
    assert rows["schedule updates"] == "none"


def test_the_class_table_ends_with_the_mean_by_priority(report: RunReport) -> None:
    heads, *rows = class_table(report)
    assert heads[2:11] == ("results", "mean", "p10", "p25", "p50", "p75", "p90", "p95", "p99")
    assert [r[0] for r in rows] == ["a", "b", "c", "all", "by priority"]
    assert rows[-1][3] == f"{ClassFigures.of(report).weighted_s() * 1e3:.3g} ms"


def test_a_script_gets_the_metrics_and_json_has_no_nan(report: RunReport) -> None:
    found = json.loads(json.dumps(as_json(report)["class_metrics"], allow_nan=False))
    assert found["results"] == {n: s.count for n, s in report.by_class().items()}
    assert found["weighted_response_s"]["mean"] == ClassFigures.of(report).weighted_s()


def test_updates_of_the_schedule_reach_the_report(tmp_path: Path) -> None:
    """ABD corrects an inversion: the cheap low class is faster than the dear high one."""
    network = Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=400))],
        boxes=[
            Box(name="dear", inputs=("s",), cost_ns=1_500_000),
            Box(name="cheap", inputs=("s",), cost_ns=10_000),
        ],
        queries=[
            Query(name="dear", output="dear", cls="high"),
            Query(name="cheap", output="cheap", cls="low"),
        ],
        classes=[QueryClass(name="high", priority=3), QueryClass(name="low", priority=2)],
    )
    run = simulate(network, make_policy_with("abd"), draw_schedule(network, 1.0, 1))
    again = RunReport.load(run.save(tmp_path))
    updates = schedule_updates_s(again)
    assert updates
    assert updates == schedule_updates_s(run)
    assert 0 < updates[0] <= updates[-1] <= again.duration_s
    shown = {row[0]: row[1] for row in treatment_table(again)}["schedule updates"]
    assert shown.startswith(f"{len(updates)}, the last at ")


@pytest.mark.slow
def test_whiskers_show_the_percentiles(report: RunReport, tmp_path: Path) -> None:
    figures = ClassFigures.of(report)
    drawn: list[float] = []

    def draw(figure) -> None:  # type: ignore[no-untyped-def]
        axes = figure.subplots()
        whiskers(axes, figures, unit_s=1e-3)
        drawn.extend(y for line in axes.get_lines() for y in line.get_ydata())

    assert save_figure(draw, tmp_path / "boxes.png").exists()
    for value in figures.response_s[:-1].ravel() * 1e3:  # all but p95, which Figure 2 leaves out
        assert any(y == pytest.approx(value) for y in drawn) or value in _box_edges(figures)
    assert plot_run(report, tmp_path / "run.png").stat().st_size > 10_000


def _box_edges(figures: ClassFigures) -> set[float]:
    """The quartiles are edges of a patch, not lines."""
    return {v * 1e3 for v in figures.response_s[2:5:2].ravel()}
