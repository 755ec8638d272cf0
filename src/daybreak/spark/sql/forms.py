"""The forms of queries: how the rows of a query are computed, and with which others.

A query has a *body*, SQL or a function, and a *form*:

======================  ==========================================================  =============
form                    computed from                                               shares a job
======================  ==========================================================  =============
``OverRows``            any range of rows                                           never
``Composable``          any range of rows, by conditions and expressions            same key
``OverWindows``         the rows of the windows that closed                         never
``WindowAggregate``     the rows of the windows that closed, grouped                same key
``PanedAggregate``      partial aggregates of the panes of those windows            same key
``OverState``           rows as they come, and Spark's state (append, update)       never
``OverRetained``        all rows that the streams retain (complete mode)            never
======================  ==========================================================  =============
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from daybreak.engine.costs import Kind as JobKind
from daybreak.model.specs import Mode
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.sql.catalyst import Plan
from daybreak.spark.sql.composite import Parts
from daybreak.spark.sql.functions import Function, Repeatable
from daybreak.spark.sql.windows.aggregate import Aggregate
from daybreak.spark.sql.windows.pane_plans import Panes


class _Alone:
    """What the engine asks of a form, and the answers of most: a job of its own."""

    @property
    def share_key(self) -> str | None:
        """What queries that can run as one job have in common; None for one that runs alone."""
        return None

    @property
    def job_kind(self) -> JobKind:
        """What its jobs are like."""
        return "job"


@dataclass(frozen=True)
class OverRows(_Alone):
    """Each row stands alone, so any cut of the streams gives the same rows."""


@dataclass(frozen=True)
class Composable(OverRows):
    """A filter, or a join with static tables, that can run as one plan with others."""

    parts: Parts

    @property
    def share_key(self) -> str:
        return self.parts.share_key

    @property
    def job_kind(self) -> JobKind:
        """Of filters, the rows are evaluated without a Spark job."""
        return "filter" if self.parts.source.parsed is None else "job"


@dataclass(frozen=True)
class OverWindows(_Alone):
    """Windows are computed when they close: joins, set operations and any aggregate."""

    windowing: Windowing

    @property
    def job_kind(self) -> JobKind:
        return "window"


@dataclass(frozen=True)
class WindowAggregate(OverWindows):
    """One aggregation over the windows of one stream, which can run as one plan with others."""

    aggregate: Aggregate

    @property
    def share_key(self) -> str:
        return self.aggregate.share_key


@dataclass(frozen=True)
class PanedAggregate(WindowAggregate):
    """Long or overlapping windows: each pane is aggregated once, and windows merge panes."""

    panes: Panes

    @property
    def share_key(self) -> str:
        return f"{self.aggregate.share_key} from panes"


@dataclass(frozen=True)
class OverState(_Alone):
    """A streaming query of Spark's, whose state store holds what earlier rows left."""

    mode: Mode
    #: How late rows may be, by stream: the column with the event time, and the delay.
    watermarks: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class OverRetained(_Alone):
    """The whole result, computed from all that the streams retain: complete mode."""


Form: TypeAlias = OverRows | OverWindows | OverState | OverRetained


@dataclass(frozen=True)
class SqlBody:
    """A query in SQL."""

    #: As it was written, without a closing semicolon.
    text: str
    #: What the parser makes of it, to be analysed where it runs.
    parsed: Plan = field(compare=False, repr=False)
    #: Views that it reads through to their streams, and how they are parsed, in order.
    through: tuple[tuple[str, Plan], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class FunctionBody:
    """A query as a Python function on DataFrames. Equal to itself alone."""

    function: Function = field(repr=False)
    #: The plan that every call must give; None of a stateful query, which is called once a start.
    repeatable: Repeatable | None = field(repr=False)


Body: TypeAlias = SqlBody | FunctionBody


def parts_of(forms: Iterable[Form]) -> list[Parts]:
    """Of queries that run as one plan over rows."""
    return [form.parts for form in forms if isinstance(form, Composable)]


def aggregates_of(forms: Iterable[Form]) -> list[Aggregate]:
    """Of queries that run as one plan over windows."""
    return [form.aggregate for form in forms if isinstance(form, WindowAggregate)]


def panes_in(forms: Iterable[Form]) -> list[Panes]:
    """Of queries that run as one plan over panes."""
    return [form.panes for form in forms if isinstance(form, PanedAggregate)]
