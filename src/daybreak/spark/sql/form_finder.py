"""Finds the form of a checked query: alone, or as a part that runs together with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from daybreak.model import ConfigError
from daybreak.spark.log.event_time import ANCHORS, Band, Windowing
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.composite import quoted, take_apart
from daybreak.spark.sql.forms import (
    Composable,
    OverRows,
    OverWindows,
    PanedAggregate,
    WindowAggregate,
)
from daybreak.spark.sql.plan_rules import Analysed
from daybreak.spark.sql.windows.aggregate import take_apart as take_aggregate
from daybreak.spark.sql.windows.pane_plans import panes_of
from daybreak.spark.sql.windows.parsed import with_anchors


@dataclass(frozen=True)
class FormFinder:
    """Finds forms in the session where queries are analysed."""

    session: SparkSession
    catalyst: Catalyst
    #: Empty frames of the streams.
    frames: Mapping[str, DataFrame]
    #: Whether long and overlapping windows are computed from partial aggregates.
    with_panes: bool

    def over_rows(self, analysed: Analysed, reads: tuple[str, ...], parsed: Plan) -> OverRows:
        """The query taken apart, if it can run together with others."""
        if len(reads) > 1 or analysed.has_subqueries:
            return OverRows()

        def analyse(read: Plan) -> Plan:
            return self.catalyst.frame(read, self.session)._jdf.queryExecution().analyzed()

        try:
            parts = take_apart(self.catalyst, analysed.plan, reads[0], parsed, analyse)
        except (PySparkException, Py4JError):  # what it reads is no query by itself
            return OverRows()
        return OverRows() if parts is None else Composable(parts)

    def over_windows(
        self, analysed: Analysed, reads: tuple[str, ...], windowing: Windowing
    ) -> OverWindows:
        """The query as an aggregate over windows, and as one of panes, if it is such a one."""
        alone = OverWindows(windowing)
        # A subquery over a static table is resolved for each job.
        if len(reads) > 1 or analysed.has_subqueries:
            return alone
        try:
            aggregate = take_aggregate(self.catalyst, analysed.plan, reads[0], windowing)
            if aggregate is None:
                return alone
            alone = WindowAggregate(windowing, aggregate)
            if not self.with_panes:
                return alone
            row = self.frames[reads[0]].schema
            panes = panes_of(aggregate, self.catalyst, self.session, row)
        except (PySparkException, Py4JError):  # not made of parts that stand alone: over rows
            return alone
        if panes is None:
            return alone
        return PanedAggregate(replace(windowing, pane_us=panes.width_us), aggregate, panes)

    def anchored(self, place: str, plan: Plan, parsed: Plan, windowing: Windowing) -> Plan:
        """The query to run: a stream that is joined with itself by a band needs two names."""
        band = self_band(windowing)
        if band is None:
            return parsed
        view = f"{ANCHORS}{band.anchor}"
        self.frames[band.anchor].createOrReplaceTempView(quoted(view))
        new = with_anchors(self.catalyst, parsed, band.anchor, view, on_right=band.on_right)
        again = None if new is None else self.catalyst.frame(new, self.session)
        if again is None or not plan.sameResult(again._jdf.queryExecution().analyzed()):
            raise ConfigError(
                place,
                f"joins stream {band.anchor!r} with itself in a way that cannot be taken apart",
                "name the stream on both sides of the one join: FROM s a JOIN s b ON ...",
            )
        return new


def self_band(windowing: Windowing | None) -> Band | None:
    """The band by which a stream is joined with itself; None where none is."""
    band = None if windowing is None else windowing.over
    return band if isinstance(band, Band) and band.anchor == band.partner else None
