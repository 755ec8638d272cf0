"""Jobs that a policy has begun, and when they may be expected to end."""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.policies.base import Cell
from daybreak.policies.parts.planned.plan_reasons import TurnTaken


@dataclass(slots=True)
class JobUnderWay:
    """One of them."""

    cell: Cell
    begun_ns: int
    expected_ns: int
    #: The first box of the query that was asked, and how many tuples it had taken before.
    box: int
    before: int
    #: What workers had spent on all jobs before.
    spent_ns: float = 0.0
    riders: int = 0
    #: It takes longer than worthier cells can wait.
    forced: bool = False
    #: It takes a good part of the longest that is planned.
    long: bool = False
    #: A long one, with so many more tuples than any before that nobody knows how long it takes.
    unforeseen: bool = False
    #: It shows what a cell costs that the plan does not serve.
    trial: bool = False
    #: How it came to begin: what its oldest tuple had waited for.
    taken: TurnTaken | None = None

    def end_ns(self, now_ns: int, overrun: float = 1.0) -> int:
        """When it has ended, as long jobs turn out; one that is overdue takes half as long again.

        Long jobs on all workers at once would block everybody.
        """
        expected_ns = round(overrun * self.expected_ns)
        return max(self.begun_ns + expected_ns, now_ns + (now_ns - self.begun_ns) // 2)

    def overdue(self, now_ns: int, overrun: float) -> bool:
        """Whether it takes longer than long jobs do, so that nobody knows when it ends."""
        return now_ns > self.begun_ns + overrun * self.expected_ns


class Overrun:
    """How many times longer than expected nearly all jobs end, and 1 at least.

    It rises fast with a job that takes longer and falls slowly with others: about one of
    ``RISE / FALL`` jobs takes longer still.
    """

    RISE, FALL, MOST = 0.3, 0.02, 3.0

    def __init__(self) -> None:
        self.factor = 1.0

    def ended(self, off: float) -> None:
        """A job took ``off`` times as long as expected."""
        off = min(max(off, 1.0), self.MOST)
        self.factor += (self.RISE if off > self.factor else self.FALL) * (off - self.factor)


class WorkerTime:
    """What workers have spent on jobs so far: elapsed, and as the cores suffice for it."""

    def __init__(self) -> None:
        self._at_ns = self._jobs = 0
        self.elapsed_ns = 0.0
        #: More jobs than cores share these, so that no more than the cores count.
        self.shared_ns = 0.0

    def until(self, now_ns: int, jobs: int, cores: float) -> None:
        """From now on so many jobs are under way."""
        passed_ns, self._at_ns = now_ns - self._at_ns, now_ns
        self.elapsed_ns += passed_ns * self._jobs
        self.shared_ns += passed_ns * min(self._jobs, cores)
        self._jobs = jobs
