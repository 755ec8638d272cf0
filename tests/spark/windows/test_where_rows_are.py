"""Which rows a window holds is decided alike for rows in memory and for rows that Spark reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from daybreak.spark.jobs.windows import Range
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.event_time import FOREVER, NEVER, Band, Grid, Instants, Times, Windowing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NO_SEGMENT: Any = None
DAY_US = 86_400 * 10**6
#: Before and after 1970, and where windows and watermarks meet.
moments = st.integers(-3 * DAY_US, 3 * DAY_US)
ENDS = [NEVER, NEVER + 1, FOREVER - 1, FOREVER]


class Case(NamedTuple):
    grid: Grid
    begin_us: int
    end_us: int
    before_us: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    length = draw(st.integers(1, DAY_US))
    slide = draw(st.integers(max(1, length // 50), length))
    begin = draw(st.just(NEVER) | moments)
    end = draw(moments)
    return Case(Grid(length, slide, draw(st.integers(0, slide))), begin, end, draw(moments))


def in_memory(at: Instants, known: NDArray[np.bool_], case: Case) -> list[Any]:
    windowing, band = Windowing(case.grid, {}), Windowing(Band("a", "b", 0, 1), {})
    held = Range(NO_SEGMENT, case.begin_us, case.end_us).holds(at)
    return [
        held & known,
        known & windowing.late(at, case.before_us),
        known & band.late(at, case.before_us),
        np.where(known, case.grid.first_end(at), 0),
        np.where(known, case.grid.last_end(at), 0),
    ]


def on_spark(at: Times, case: Case) -> list[Any]:
    windowing, band = Windowing(case.grid, {}), Windowing(Band("a", "b", 0, 1), {})
    held = Range(NO_SEGMENT, case.begin_us, case.end_us).holds(at)
    return [
        F.coalesce(held, F.lit(False)),
        F.coalesce(windowing.late(at, case.before_us), F.lit(False)),
        F.coalesce(band.late(at, case.before_us), F.lit(False)),
        F.coalesce(case.grid.first_end(at).us, F.lit(0)),
        F.coalesce(case.grid.last_end(at).us, F.lit(0)),
    ]


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(cases(), min_size=1, max_size=8),
    st.lists(moments | st.none(), min_size=1, max_size=60),
    st.sampled_from(["UTC", None]),
)
def test_rules_of_windows_agree(
    spark: SparkSession, some: list[Case], times: list[int | None], zone: str | None
) -> None:
    """``zone`` None: timestamps without a time zone."""
    borders = [us for c in some for us in (c.begin_us, c.end_us, c.before_us)]
    borders += [us - 1 for us in borders if us > NEVER]
    # Spark has no exact arithmetic on times without a zone near the ends of time.
    ends = ENDS if zone else []
    near = [us for us in borders if zone or us > NEVER]
    stamps = pa.array([*times, *near, *ends], pa.int64())
    rows: Any = pa.table({"at": stamps.cast(pa.timestamp("us", zone))})
    frame = spark.createDataFrame(rows, "at TIMESTAMP" if zone else "at TIMESTAMP_NTZ")
    seen = Times.of(F.col("at"), frame.schema["at"].dataType)
    columns = [column for case in some for column in on_spark(seen, case)]
    named = [column.alias(f"c{i}") for i, column in enumerate(columns)]
    found = frame.coalesce(1).select(named).toArrow()
    at, known = instants(rows["at"]), is_timed(rows["at"])
    wanted = [column for case in some for column in in_memory(at, known, case)]
    for column, expected in zip(found.columns, wanted, strict=True):
        assert column.to_pylist() == expected.tolist()
