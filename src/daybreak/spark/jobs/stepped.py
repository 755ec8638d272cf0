"""What a runner asks of stateful queries, which Spark runs as streaming queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from daybreak.engine.inbox import Waiting

if TYPE_CHECKING:
    from daybreak.spark.jobs.committer import Commits
    from daybreak.spark.tasks.runnable import Runnable


class Stepped(NamedTuple):
    """The rows that a job of a stateful query read of those it was given, and those it left."""

    read: tuple[Waiting, ...]
    left: tuple[Waiting, ...] = ()


class StatefulJobs(Protocol):
    """Runs the jobs of stateful queries."""

    def run(self, query: Runnable, taken: Sequence[Waiting], commits: Commits, tag: str) -> Stepped:
        """One micro-batch of what was taken, and those that follow from it; tagged."""
