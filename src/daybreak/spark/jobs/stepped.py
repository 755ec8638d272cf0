"""What a runner asks of stateful queries, which Spark runs as streaming queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from daybreak.engine.events import Failure
from daybreak.engine.inbox import Waiting
from daybreak.spark.log.rows import Move

if TYPE_CHECKING:
    from daybreak.spark.jobs.runnable import Runnable

#: Commits the rows of a micro-batch with its moves: when that was, and whose sink failed then.
Commit: TypeAlias = Callable[[pa.Table, Sequence[Move]], tuple[int, dict[str, Failure]]]


class Stepped(NamedTuple):
    """A job of a stateful query."""

    rows: int
    #: What of the rows that were taken it read, and what it left.
    read: tuple[Waiting, ...]
    left: tuple[Waiting, ...]
    commit_ns: int
    committed_at_ns: int
    undelivered: Mapping[str, Failure]


class StatefulJobs(Protocol):
    """Runs the jobs of stateful queries."""

    def run(self, query: Runnable, taken: Sequence[Waiting], commit: Commit, tag: str) -> Stepped:
        """One micro-batch of what was taken, and those that follow from it; tagged."""
