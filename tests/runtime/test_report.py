"""Run reports: derived figures, and that what is stored comes back."""

import math
from pathlib import Path

import numpy as np
import pytest

from daybreak.model import ConfigError
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.laws import assert_same, busy_network
from daybreak.simulation.simulate import simulate


@pytest.fixture(scope="module")
def report() -> RunReport:
    network = busy_network()
    return simulate(network, make_policy_with("fcfs"), draw_schedule(network, 1.0, 1))


def test_what_is_stored_comes_back(report: RunReport, tmp_path: Path) -> None:
    again = RunReport.load(report.save(tmp_path / "run"))
    assert_same(report, again)
    assert again.manifest == report.manifest
    assert again.qos == report.qos
    assert str(again.by_query()) == str(report.by_query())
    assert np.array_equal(again.backlog.pending, report.backlog.pending)


def test_classes_and_queries_count_every_result_once(report: RunReport) -> None:
    assert sum(s.count for s in report.by_class().values()) == len(report.outputs)
    assert sum(s.count for s in report.by_query().values()) == len(report.outputs)


def test_utility_per_application_is_the_mean_of_the_queries_means(report: RunReport) -> None:
    means = [s.utility for s in report.by_query().values() if not math.isnan(s.utility)]
    assert len(means) < len(report.queries), "some queries declare no graph"
    assert report.utility_per_application == pytest.approx(sum(means) / len(means))


def test_over_time_averages_to_the_whole(report: RunReport) -> None:
    columns = report.over_time(slots=1)
    for name, summary in report.by_class().items():
        assert columns[f"response_s/{name}"][0] == pytest.approx(summary.mean_s)


def test_a_run_without_results_has_a_report(tmp_path: Path) -> None:
    network = busy_network()
    empty = simulate(network, make_policy_with("fcfs"), draw_schedule(network, 1e-9, 1))
    again = RunReport.load(empty.save(tmp_path))
    assert again.overall().count == 0
    assert math.isnan(again.overall().mean_s)


def test_a_folder_without_a_report_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no readable run report"):
        RunReport.load(tmp_path)
