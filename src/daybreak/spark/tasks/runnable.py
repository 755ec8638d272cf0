"""A checked query with all it takes to run it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sql.checked import CheckedQuery


@dataclass(frozen=True)
class Runnable:
    """A checked query with all it takes to run it."""

    checked: CheckedQuery
    sink: Sink
    #: What its result looks like as Arrow.
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.checked.arrow_schema())

    @property
    def name(self) -> str:
        return self.checked.name
