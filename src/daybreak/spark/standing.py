"""How a query stands: at work, paused, waiting to be tried again, parked or dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daybreak.model.limits import Limits

State = Literal["running", "paused", "retrying", "parked", "dropped"]


@dataclass(slots=True)
class Standing:
    """One query's standing. Written by the loop's thread alone."""

    state: State = "running"
    #: What it said when it last failed, while that still matters.
    error: str | None = None
    #: Failures since its last success.
    failures: int = 0
    retry_ns: int = 0
    #: Tuples it took when it last failed: a bad record is among them.
    failed_on: int = 0
    #: Tuples it may take at once: halved by every failure, so that a bad record is found.
    limit: int | None = None
    #: Tuples of the range it last failed on that it has not answered yet.
    doubtful: int = 0
    #: A committed result has not reached its sink; nothing runs before it has.
    behind: bool = False

    @property
    def held(self) -> bool:
        """Whether policies must not see it."""
        return self.state != "running"

    def failed(
        self, error: str, taken: int, limits: Limits, now_ns: int, *, ours: bool = False
    ) -> None:
        """Notes a failure; ``ours``: the run's own disk refused, so it is tried for ever."""
        self.error, self.failed_on = error, taken
        self.doubtful = max(self.doubtful, taken)
        self.failures += 1
        if self.state in ("paused", "dropped"):
            return
        if self.failures > limits.retries and not ours:
            self.state = "parked"
            return
        self.state = "retrying"
        self.retry_ns = now_ns + limits.wait_ns(self.failures)
        if taken and not ours:
            self.limit = max(1, taken // 2)

    def succeeded(self, tuples: int = 0) -> None:
        """Notes that it has answered so many tuples."""
        self.doubtful = max(0, self.doubtful - tuples)
        self.failures, self.error, self.failed_on = 0, None, 0
        if self.limit is not None:  # grows back slowly: the rest of a bad range is near
            self.limit = None if self.limit >= 2**20 else self.limit * 2

    def resume(self, now_ns: int) -> None:
        """Whatever held it, it may run again, once its sink has what it is owed."""
        self.state, self.failures, self.error = "running", 0, None
        if self.behind:
            self.state, self.retry_ns = "retrying", now_ns


def said(failure: BaseException) -> str:
    """A failure in one line."""
    text = (str(failure).strip() or "no message").splitlines()[0]
    return f"{type(failure).__name__}: {text}"
