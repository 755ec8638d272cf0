"""FAS-MCQ(beta) whose beta follows a stated goal while it runs (ours; the paper sets it by hand).

Beta trades response time for freshness. A goal bounds one of the two, and the other should be as
good as the bound allows: beta moves a little after every window, towards response time or
freshness, by how far the window's average was from the goal. Or the goal is the knee of the two,
found from the backlogs seen (``daybreak.policies.parts.priorities.knee``), and beta moves towards
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1
from typing import Any, ClassVar, Literal, get_args

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy, Plan, View, Work
from daybreak.policies.fas_mcq import FreshnessAware
from daybreak.policies.parts.priorities.knee import Knee
from daybreak.policies.parts.priorities.prioritised import DrainParams

Goal = Literal["staleness", "response", "knee"]
GOALS: tuple[str, ...] = get_args(Goal)
#: How far beta moves at most after one window.
STEP = 0.1
#: The expected staleness of all queries is taken again after so many decisions.
SAMPLE_EVERY = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalParams(DrainParams):
    """Parameters of fas-mcq-auto."""

    #: What is bounded: the share of time queries are stale, or the mean response time (s);
    #: or the knee of the two.
    goal: Goal = "staleness"
    #: The bound; the knee has none.
    target: float = 0.1
    #: Beta may move once in so much time.
    window_s: float = 1.0

    def __post_init__(self) -> None:
        DrainParams.__post_init__(self)
        if self.goal not in GOALS:
            raise ConfigError("policy", f"goal {self.goal!r}", suggestion(self.goal, GOALS))
        for name in ("target", "window_s"):
            if not getattr(self, name) > 0:
                raise ConfigError("policy", f"{name} {getattr(self, name)}", "give more than 0")


class AutoBeta(FreshnessAware):
    """Keeps a bound on staleness or on response time, and makes the best of the other.

    Or balances the two, where the goal is their knee.
    """

    name = "fas-mcq-auto"
    summary = "fas-mcq with beta moved to keep a goal for staleness or response time, or their knee"
    counts_idle_queries = True  # staleness is a mean over all queries
    Params: ClassVar[type[Any]] = GoalParams
    params: GoalParams  # type: ignore[assignment]

    def __init__(self, params: Any = None) -> None:
        BasePolicy.__init__(self, params)
        self.beta = 0.5

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._decisions = 0
        self._window_ns = round(self.params.window_s * NS_PER_S)
        self._began_ns = self._since_ns = 0
        #: Expected staleness at the last sample, and its integral over the window.
        self._stale, self._stale_ns = 0.0, 0.0
        #: Response times of the window, each by the chance that its update was a result.
        self._response_ns, self._results = 0.0, 0.0
        #: Arrival of the oldest update taken by the plan on each worker.
        self._head_ns: dict[int, int] = {}
        self._knee = Knee()
        #: Queries that were removed: their weights count no longer.
        self._gone: set[int] = set()

    def on_query_added(self, query: int, now_ns: int) -> None:
        super().on_query_added(query, now_ns)
        self._gone.discard(query)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        super().on_query_removed(query, now_ns)
        self._gone.add(query)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        plan = super().decide(now_ns, worker)
        if plan is None or not self._stale or self._decisions % SAMPLE_EVERY == 0:
            self._stale_ns += self._stale * (now_ns - self._since_ns)
            self._stale, self._since_ns = self._expected_staleness(), now_ns
        self._decisions += 1
        if plan is not None:
            view = self.view
            self._head_ns[worker] = min(
                [view.head_ns[step.box] for step in plan.steps if view.pending[step.box]]
            )
        return plan

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        results = self.expected[self._out[worker]][-1][1]
        self._response_ns += results * (now_ns - self._head_ns.pop(worker))
        self._results += results
        super().on_completion(plan, worker, cost_ns, now_ns)
        if now_ns - self._began_ns >= self._window_ns:
            self._move(now_ns)

    def _move(self, now_ns: int) -> None:
        moved = min(max(self.beta + self._step(now_ns), 0.0), 1.0)
        self._began_ns, self._stale_ns = now_ns, 0.0
        self._response_ns = self._results = 0.0
        if moved != self.beta:
            self.beta = moved
            self._ran.update(range(len(self.expected)))

    def _step(self, now_ns: int) -> float:
        """How far to move after this window."""
        self._stale_ns += self._stale * (now_ns - self._since_ns)
        self._since_ns = now_ns
        if self.params.goal == "knee":
            weights = self.view.query_weight
            backlogs = ((weights[q], *self.backlog(q)) for q in range(len(weights)))
            self._knee.see([b for b in backlogs if b[1]])
            knee = self._knee.beta()
            return 0.0 if knee is None else min(max(knee - self.beta, -STEP), STEP)
        if self.params.goal == "staleness":
            # Too stale: towards freshness; else whatever is to spare goes to response time.
            error = self._stale_ns / (now_ns - self._began_ns) / self.params.target - 1
        else:
            mean_s = self._response_ns / max(self._results, 1e-9) / NS_PER_S
            error = 1 - mean_s / self.params.target
        return STEP * min(max(error, -1.0), 1.0)

    def _expected_staleness(self) -> float:
        """The mean over queries, by weight, of the chance to be stale now."""
        weights, gone = self.view.query_weight, self._gone
        stale = (w * -expm1(self.backlog(q)[1]) for q, w in enumerate(weights))
        # What is gone holds no updates and so is not stale; without queries nothing is.
        return sum(stale) / (sum([w for q, w in enumerate(weights) if q not in gone]) or 1.0)
