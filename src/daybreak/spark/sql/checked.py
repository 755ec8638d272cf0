"""A query that was checked: what it reads, gives, and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.model.specs import Mode
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.sql.composite import plain_schema
from daybreak.spark.sql.forms import (
    Body,
    Form,
    OverRetained,
    OverRows,
    OverState,
    OverWindows,
    SqlBody,
)

#: "filter": conditions and expressions over one stream, at most one row out per row in.
#: "stateless": also joins with static tables, unions, generators, subqueries.
#: "window": aggregates, joins and set operations over windows of event time.
#: "function": a Python function on DataFrames whose rows stand alone.
#: "stateful": a streaming query of Spark's; "complete": any query, over all that is retained.
Kind = Literal["filter", "stateless", "window", "function", "stateful", "complete"]


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may run."""

    name: str
    #: The streams it reads, sorted; static tables are not among them.
    reads: tuple[str, ...]
    #: The columns of its result.
    schema: StructType
    kind: Kind
    body: Body
    #: How its rows are computed, and with which others.
    form: Form = field(default_factory=OverRows)

    def arrow_schema(self) -> pa.Schema:
        """What its result looks like as Arrow."""
        return plain_schema(to_arrow_schema(self.schema, timezone="UTC"))

    @property
    def windows(self) -> Windowing | None:
        """Its windows; None where each row stands alone."""
        return self.form.windowing if isinstance(self.form, OverWindows) else None

    @property
    def sink_mode(self) -> Mode | None:
        """What its sink is given; None: rows that are added, each once."""
        match self.form:
            case OverState(mode="update"):
                return "update"
            case OverRetained():
                return "complete"
        return None

    @property
    def is_whole(self) -> bool:
        """Whether each result replaces the one before: complete mode."""
        return isinstance(self.form, OverRetained)

    @property
    def reads_through(self) -> tuple[str, ...]:
        """The views that it reads through to their streams."""
        return tuple(v for v, _ in self.body.through) if isinstance(self.body, SqlBody) else ()
