"""The forms of queries: how the rows of a query are computed, and with which others.

======================  ==========================================================  =============
form                    computed from                                               shares a job
======================  ==========================================================  =============
``OverRows``            any range of rows                                           never
``Composable``          any range of rows, by conditions and expressions            with its kin
``OverWindows``         the rows of the windows that closed                         never
``WindowAggregate``     the rows of the windows that closed, grouped                with its kin
``PanedAggregate``      partial aggregates of the panes of those windows            with its kin
======================  ==========================================================  =============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from daybreak.engine.costs import Kind as JobKind
from daybreak.spark.event_time import Windowing
from daybreak.spark.sql.composite import Parts
from daybreak.spark.sql.windows.aggregate import Aggregate
from daybreak.spark.sql.windows.pane_plans import Panes


@dataclass(frozen=True)
class OverRows:
    """Each row stands alone, so any cut of the streams gives the same rows."""

    @property
    def kin(self) -> str | None:
        """What queries that can run as one job have in common; None for one that runs alone."""
        return None

    @property
    def job_kind(self) -> JobKind:
        """What its jobs are like."""
        return "job"


@dataclass(frozen=True)
class Composable(OverRows):
    """A filter, or a join with static tables, that can run as one plan with others."""

    parts: Parts

    @property
    def kin(self) -> str:
        return self.parts.kin

    @property
    def job_kind(self) -> JobKind:
        """Of filters, the rows are evaluated without a Spark job."""
        return "filter" if self.parts.source.parsed is None else "job"


@dataclass(frozen=True)
class OverWindows:
    """Windows are computed when they close: joins, set operations and any aggregate."""

    windowing: Windowing

    @property
    def kin(self) -> str | None:
        return None

    @property
    def job_kind(self) -> JobKind:
        return "window"


@dataclass(frozen=True)
class WindowAggregate(OverWindows):
    """One aggregation over the windows of one stream, which can run as one plan with others."""

    aggregate: Aggregate

    @property
    def kin(self) -> str:
        return self.aggregate.kin


@dataclass(frozen=True)
class PanedAggregate(WindowAggregate):
    """Long or overlapping windows: each pane is aggregated once, and windows merge panes."""

    panes: Panes

    @property
    def kin(self) -> str:
        return f"{self.aggregate.kin} from panes"


Form: TypeAlias = OverRows | OverWindows
