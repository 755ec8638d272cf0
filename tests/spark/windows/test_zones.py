"""How far days of a time zone are from 24 hours."""

import pytest

from daybreak.spark.sql.windows.expressions import DAY_US, drift_us


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Z", "+09:00", "-5", "GMT+9", "UTC+01:30"])
def test_a_fixed_offset_does_not_drift(zone: str) -> None:
    assert drift_us(zone) == 0


def test_daylight_saving_and_moves_over_the_date_line_count() -> None:
    hour_us = DAY_US // 24
    assert drift_us("America/New_York") == hour_us
    assert drift_us("Europe/Berlin") == 2 * hour_us  # in 1945
    assert drift_us("Pacific/Apia") > DAY_US


def test_a_name_that_only_java_knows_may_drift_by_a_day() -> None:
    assert drift_us("PST") == DAY_US
