"""What a console and a notebook show of a report."""

from __future__ import annotations

import pytest

from daybreak.policies.registry import make_policy_with
from daybreak.runtime.display import MOST_ROWS, html_table
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.laws import busy_network
from daybreak.simulation.simulate import simulate


@pytest.fixture(scope="module")
def report() -> RunReport:
    network = busy_network()
    about = {"world": "simulated", "pipeline": "<b>busy</b>"}
    return simulate(network, make_policy_with("fcfs"), draw_schedule(network, 1.0, 1), about=about)


def test_a_report_shows_itself_in_a_line(report: RunReport) -> None:
    """Its fields hold every answer: their arrays once filled the screen."""
    shown = repr(report)
    assert len(shown) < 200
    assert "\n" not in shown
    assert shown.startswith("<RunReport <b>busy</b> under fcfs: ")
    assert " results, mean " in shown


def test_a_notebook_shows_the_classes_and_escapes_names(report: RunReport) -> None:
    html = report._repr_html_()
    for name in (*report.classes, "all"):
        assert f"<td>{name}</td>" in html
    assert "&lt;b&gt;busy" in html
    assert "<b>" not in html


def test_a_report_without_results_shows_itself() -> None:
    network = busy_network()
    empty = simulate(network, make_policy_with("fcfs"), draw_schedule(network, 1e-9, 1))
    assert "0 results" in repr(empty)
    assert "<td>-</td>" in empty._repr_html_()


def test_a_long_table_is_cut() -> None:
    html = html_table("many", [("n",), *((str(i),) for i in range(MOST_ROWS + 3))])
    assert html.count("<td>") == MOST_ROWS
    assert "and 3 more" in html
