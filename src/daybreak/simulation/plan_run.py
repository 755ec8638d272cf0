"""What runs on a worker of the virtual executor."""

from __future__ import annotations

from daybreak.policies.base import Plan


class PlanRun:
    """A plan under way on one worker, and the train of its present step."""

    __slots__ = (
        "arrivals", "began_ns", "ends_ns", "lucks", "plan", "spent_ns", "step", "sum_ns", "through",
        "work_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.plan = Plan(())
        #: Index of the step under way; -1 while the scheduler still decides.
        self.step = -1
        self.spent_ns = 0
        #: Its one tuple goes through all boxes at once (``ShortCuts``).
        self.through = False
        #: The train: arrivals of its tuples, their sum, and lucks.
        self.sum_ns = 0
        self.arrivals: list[int] = []
        self.lucks: list[float] = []
        #: When the work began, how long it takes, and where costs vary, each tuple's end.
        self.began_ns = 0
        self.work_ns = 0
        self.ends_ns: list[int] | None = None

    @property
    def box(self) -> int:
        """The box of the present step."""
        return self.plan.steps[self.step].box

    def departures(self, cost_ns: int, kept: list[int] | None) -> list[int]:
        """When outputs leave, one tuple-cost apart; ``kept``: indices of the tuples that pass."""
        if self.ends_ns is not None:
            ends = self.ends_ns
        elif cost_ns:
            first = self.began_ns + cost_ns
            ends = list(range(first, first + len(self.arrivals) * cost_ns, cost_ns))
        else:
            ends = [self.began_ns] * len(self.arrivals)
        return ends if kept is None else [ends[i] for i in kept]

    def postpone(self, wait_ns: int) -> None:
        """Results leave so much later than the work on them ends."""
        self.began_ns += wait_ns
        if self.ends_ns is not None:
            self.ends_ns = [at + wait_ns for at in self.ends_ns]
