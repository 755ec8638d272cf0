"""What a scheduling policy is, what it is shown, and what it answers.

One thread calls every method of a policy. A policy keeps its own state; what it is shown (the
``View``) is read-only. It is told of arrivals and completions as they happen, so a policy with
an O(1) structure really decides in O(1): nothing copies the state of ten thousand boxes per
decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S
from daybreak.policies.reasons import Reason

Granularity = Literal["tuple", "box", "query", "class"]


class Step(NamedTuple):
    """One box call: at most ``limit`` tuples, and at most this fraction of what is queued."""

    box: int
    limit: int | None = None
    fraction: float = 1.0


class Plan(NamedTuple):
    """What one worker executes without asking again: boxes in order, each with its train."""

    steps: tuple[Step, ...]
    #: The steps are one superbox, and charged as one; else they are merely a list.
    superbox: bool = False
    #: Stop before a further step once this much time has been spent.
    quota_ns: int | None = None


class Wait(NamedTuple):
    """Nothing now: ask again at this instant, or at the next event if that comes first."""

    until_ns: int


#: What a policy answers: a plan, nothing until an instant, or nothing until the next event.
Decision = Plan | Wait | None


class JobCost(NamedTuple):
    """What a job costs in a worker's time, and how sure that is.

    A job of one query and ``riders`` more on n tuples each takes ``fixed + per_tuple x n +
    riders x (per_rider + per_rider_tuple x n)``.
    """

    fixed_ns: float
    per_tuple_ns: float
    per_rider_ns: float = 0.0
    per_rider_tuple_ns: float = 0.0
    #: Standard errors of the first two. Jobs that are all of one length cannot tell them apart.
    fixed_error_ns: float = 0.0
    per_tuple_error_ns: float = 0.0
    #: Below 0 where one is too low if the other is too high, as jobs show their sum best.
    error_correlation: float = 0.0

    def of(self, tuples: float, riders: int = 0) -> float:
        """The expected time (ns) of a job."""
        rider_ns = self.per_rider_ns + self.per_rider_tuple_ns * tuples
        return self.fixed_ns + self.per_tuple_ns * tuples + riders * rider_ns

    def times(self, factor: float) -> JobCost:
        """So many times as much, as surely."""
        return JobCost._make((*(factor * x for x in self[:-1]), self.error_correlation))


class Cell(NamedTuple):
    """Queries that run as one job when they are at the same place of their streams."""

    queries: tuple[int, ...]
    cost: JobCost
    #: How far apart the windows close that these queries answer; 0 where they answer rows.
    slide_ns: int = 0


class ProcessorUse(NamedTuple):
    """What all cores of the machine have done so far, whoever used them."""

    cores: int
    busy_ns: int
    idle_ns: int


class Change(NamedTuple):
    """Something declared has changed; the view already shows the new value."""

    what: Literal["class-priority", "query-class", "weight", "paused", "resumed"]
    #: Index of the class or query concerned.
    subject: int


class View(Protocol):
    """What a policy may look at. Sequences are indexed by box, query or class.

    The sequences are live: read them, never write or keep a copy across calls.
    """

    @property
    def network(self) -> Network:
        """Streams, boxes, queries and classes as declared."""

    @property
    def workers(self) -> int:
        """How many workers ask for decisions; they are numbered from 0."""

    @property
    def processor(self) -> ProcessorUse | None:
        """The use of the cores that workers share; None where that is no limit, or not known."""

    @property
    def rides(self) -> bool:
        """Whether boxes may be taken along by another's job here."""

    @property
    def polls(self) -> bool:
        """Whether boxes are called here to see if they hold anything; else plans must hold some."""

    @property
    def pending(self) -> Sequence[int]:
        """Tuples queued at each box."""

    @property
    def head_ns(self) -> Sequence[int]:
        """Arrival of the tuple at the head of each box's queue, where one is pending."""

    @property
    def arrival_sum_ns(self) -> Sequence[int]:
        """Sum of the arrival times of the tuples queued at each box."""

    @property
    def running(self) -> Sequence[bool]:
        """Whether a worker holds the box now; such a box cannot be planned again."""

    @property
    def cost_ns(self) -> Sequence[float]:
        """Estimated work per tuple of each box: declared first, then as measured."""

    @property
    def selectivity(self) -> Sequence[float]:
        """Estimated outputs per input of each box."""

    @property
    def calls(self) -> Sequence[int]:
        """Calls of each box that have ended so far."""

    @property
    def tuples_in(self) -> Sequence[int]:
        """Tuples each box has worked on so far."""

    @property
    def work_ns(self) -> Sequence[int]:
        """Time each box has worked so far, without the overhead of calling it."""

    @property
    def arrived(self) -> Sequence[int]:
        """Tuples that came to each box so far."""

    @property
    def cells(self) -> Sequence[Cell]:
        """Which queries run together, and what a job of them costs; a query is in one cell.

        Cells change when queries come, go, change their class or have to run alone.
        """

    @property
    def class_priority(self) -> Sequence[float]:
        """The present priority of each class, above 0; the larger, the more important."""

    @property
    def query_class(self) -> Sequence[int]:
        """The present class of each query."""

    @property
    def query_weight(self) -> Sequence[float]:
        """The present freshness weight of each query, in (0, 1]."""


@dataclass(slots=True)
class Work:
    """How much a policy did to decide. The simulator charges for it as the texts do."""

    #: Times the scheduler proper ran; popping a ready-made schedule is none.
    invocations: int = 0
    scanned: int = 0
    compared: int = 0
    evaluated: int = 0
    queued: int = 0
    buckets: int = 0

    def clear(self) -> None:
        """Sets every counter to 0; called after each decision."""
        self.invocations = self.scanned = self.compared = 0
        self.evaluated = self.queued = self.buckets = 0

    def sorted(self, items: int) -> None:
        """Counts the comparisons of sorting so many items."""
        self.compared += items * max(0, items - 1).bit_length()


class Policy(Protocol):
    """Decides which work runs next. Implementations usually inherit ``BasePolicy``.

    One thread calls all methods, and none concurrently. ``attach`` comes first; events come in the
    order of time; ``decide`` comes whenever a worker is idle, after all events up to that moment. A
    policy takes time and randomness only from its arguments, so that a replay of the same events
    takes the same decisions. ``now_ns`` never goes back, and may leap. An exception ends the run.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    #: The unit it chooses among.
    granularity: ClassVar[Granularity]
    #: Promises that whatever is pending is run eventually, whatever else arrives.
    starves_nothing: ClassVar[bool]
    #: Makes sense for queries on Spark, where a query is one box.
    on_spark: ClassVar[bool]
    #: Wants to be told of results; most do not, and then nothing is spent on telling them.
    watches_results: ClassVar[bool]

    def attach(self, view: View, work: Work, seed: int) -> None:
        """Called once, before anything else. Keep ``view`` and ``work``.

        ``seed``: of all random choices that the policy makes.
        """

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        """``count`` tuples were queued at a box, from a stream or from a box upstream.

        Also called for a box that is running. Not called for a query that is held: ``view.pending``
        shows at ``on_returned`` what arrived meanwhile.
        """

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        """A plan ended; its boxes are free again and may still hold tuples."""

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        """A box cannot be planned until ``on_returned``: it runs in another's job, or is held."""

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        """A withdrawn box can be planned again; its run, if any, cost this in addition."""

    def on_change(self, change: Change, now_ns: int) -> None:
        """A priority, class or weight changed, or a query was paused or resumed."""

    def on_query_added(self, query: int, now_ns: int) -> None:
        """The view shows one more query, or another one at the index of one that was removed.

        What the policy has learned of the others stays. Its tuples arrive after this call.
        """

    def on_query_removed(self, query: int, now_ns: int) -> None:
        """A query is gone: it is not running and holds no tuples, now and later.

        Indices stay as they are.
        """

    def on_results(
        self, query: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int
    ) -> None:
        """Results of a query left, each for so many tuples; only if ``watches_results``."""

    def decide(self, now_ns: int, worker: int) -> Decision:
        """The next plan for this idle worker; None to wait for the next event, or ``Wait``.

        Every box of a plan must be free (not running), and at least one must hold tuples; else
        ``EngineBug`` ends the run. After None, the next call comes with the next event, not on a
        timer.
        """


@dataclass(frozen=True, slots=True)
class NoParams:
    """For policies that take no parameters."""


class BasePolicy(ABC):
    """Keeps what ``attach`` gives and ignores every event; see ``Policy`` for the contract.

    A subclass sets ``name`` and ``summary``, implements ``decide`` and overrides the events it
    needs. ``Params`` is a frozen dataclass of its parameters; ``[policy]`` of a pipeline sets them.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    granularity: ClassVar[Granularity] = "box"
    starves_nothing: ClassVar[bool] = False
    on_spark: ClassVar[bool] = True
    watches_results: ClassVar[bool] = False
    #: Its steps say how long jobs are (``Step.limit``). Else the engine keeps them short, since a
    #: job cannot be interrupted by a more important one.
    sizes_trains: ClassVar[bool] = False
    #: Threads on Spark beyond the usual number: some are kept free of long jobs, and cores would be
    #: idle meanwhile. The operating system shares cores between threads, as no job can be cut.
    spare_workers: ClassVar[int] = 0
    #: Whether a query that receives nothing still changes what is decided about the others: as
    #: one more that a share is divided among, or that a mean is taken over.
    counts_idle_queries: ClassVar[bool] = False
    Params: ClassVar[type[Any]] = NoParams

    view: View
    work: Work
    #: When the policy changed its own schedule (an inversion was corrected, a priority followed).
    schedule_updates_ns: list[int]

    def __init__(self, params: Any = None) -> None:
        self.params = params if params is not None else self.Params()
        self.schedule_updates_ns = []

    def attach(self, view: View, work: Work, seed: int) -> None:
        """Keeps ``view`` and ``work``; a policy that draws keeps ``seed`` as well."""
        del seed
        self.view = view
        self.work = work

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        """Ignored."""

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        """Ignored."""

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        """Ignored."""

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        """Treats tuples that arrived meanwhile as an arrival."""
        # What arrived meanwhile was not told, since the box was running.
        if self.view.pending[box]:
            self.on_arrival(box, 0, now_ns)

    def on_change(self, change: Change, now_ns: int) -> None:
        """Ignored: the view shows the new value."""

    def on_query_added(self, query: int, now_ns: int) -> None:
        """Not overridden: the policy is replaced by a fresh one, which begins from nothing."""

    def on_query_removed(self, query: int, now_ns: int) -> None:
        """Ignored."""

    def on_results(
        self, query: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int
    ) -> None:
        """Ignored."""

    @abstractmethod
    def decide(self, now_ns: int, worker: int) -> Decision:
        """The next plan for this idle worker; see ``Policy.decide``."""

    def explain(self, query: int, now_ns: int) -> Reason | None:
        """Says why the query waits, or, while a job of it runs, what it had waited for.

        Computed from the figures by which ``decide`` decides; changes nothing, so that a replay
        that does not ask takes the same decisions. Not overridden: None, and the answer is who was
        served before.
        """
        return None

    @classmethod
    def keeps_learning(cls) -> bool:
        """Whether it takes queries that come while it runs, and keeps what it has learned."""
        return cls.on_query_added is not BasePolicy.on_query_added

    def settings(self) -> Mapping[str, Any]:
        """Its parameters, for the run report."""
        return {f.name: getattr(self.params, f.name) for f in fields(self.params)}

    def told(self, start_ns: int = 0) -> Mapping[str, Any]:
        """What the report of a run that began then says of the policy."""
        said = {"policy": self.name, "parameters": dict(self.settings())}
        if not self.schedule_updates_ns:
            return said
        updates_s = [(ns - start_ns) / NS_PER_S for ns in self.schedule_updates_ns]
        return {**said, "schedule_updates_s": updates_s}
