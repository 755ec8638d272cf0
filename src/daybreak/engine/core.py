"""What the parts of an engine share: the queries, the policy, the time, and what is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from daybreak.engine.compositing import Compositor
from daybreak.engine.events import Ran
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.instructions import Instruction, Notice
from daybreak.engine.queries import Owner, Queries, QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.limits import Limits
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine works, beside its state, its queries and its policy."""

    seed: int = 1
    #: How much queries that run along may delay the one that was asked for; 0: none run along.
    rider_bound_ns: int = 100_000_000
    limits: Limits = field(default_factory=Limits)
    #: Give up tuples under overload; None: never.
    shedding: SheddingParams | None = None
    #: A view in which only numbers are others is made this often. One costs about 0.1 ms for 250
    #: queries, 0.2 % of a loop's time. Half as long doubles that; twice as long, and a status shows
    #: numbers that are a tenth of a second old.
    view_every_ns: int = 50_000_000


class Core:
    """One thread uses it, through the engine."""

    def __init__(
        self,
        state: JobState,
        facts: Sequence[QueryFacts],
        inboxes: Sequence[Inbox],
        policy: BasePolicy,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.state = state
        self.queries = Queries(self.state, facts, inboxes)
        known = self.queries.facts
        self.compositor = Compositor(
            state,
            lambda b: known[b].share_key,
            lambda b: known[b].answers == "windows",
            bound_ns=settings.rider_bound_ns,
            kind=lambda b: known[b].kind,
            slide_ns=lambda b: known[b].slide_ns,
        )
        state.cells_now = self.compositor.cells
        self.policy = policy
        #: Counts policies: orders of an earlier one are not this one's.
        self.epoch = 0
        self.work = Work()
        #: The engine's one clock. It never goes back, so that policies need not expect it.
        self.now_ns = 0
        self.out: list[Instruction] = []
        policy.attach(self.state, self.work, settings.seed)

    def emit(self, instruction: Instruction) -> None:
        self.out.append(instruction)

    def notice(
        self, event: str, message: str, box: int | None = None, *, level: int = 20, **fields: object
    ) -> None:
        self.emit(Notice(event, message, box, level, fields))

    def withdraw(self, box: int, owner: Owner) -> None:
        """Takes an idle query from the policy's sight."""
        self.queries.own(box, owner)
        self.policy.on_withdrawn(box, self.now_ns)

    def give_back(self, box: int, cost_ns: int = 0) -> None:
        """Lets the policy have a query that was withdrawn."""
        self.queries.own(box, Owner.IDLE)
        self.policy.on_returned(box, cost_ns, self.now_ns)

    def arrived(self, box: int, tuples: int) -> None:
        """So many tuples are pending that were not before."""
        if tuples and not self.queries.status[box].held:
            self.queries.show(box)
            self.policy.on_arrival(box, tuples, self.now_ns)

    def switch(self, policy: BasePolicy, seed: int) -> None:
        """Lets another policy decide from now on.

        It never hears of plans it did not make: what runs or is held now is withdrawn from it.
        """
        self.policy = policy
        self.epoch += 1
        policy.attach(self.state, self.work, seed)
        for box in range(len(self.queries)):
            owner = self.queries.owner(box)
            if owner is not Owner.IDLE:
                if owner is Owner.PLANNED:  # by another: to this one, somebody took it along
                    self.queries.own(box, Owner.RIDING)
                policy.on_withdrawn(box, self.now_ns)
            elif self.state.pending[box]:
                policy.on_arrival(box, self.state.pending[box], self.now_ns)

    def tell_results(self, boxes: Sequence[int], taken: Sequence[Waiting], ran: Ran) -> None:
        """Policies that watch results hear of them as they leave."""
        if self.policy.watches_results:
            left = (ran.committed_at_ns,)
            for box in boxes:
                for item in taken:
                    self.policy.on_results(box, (item.arrival_ns,), left, item.tuples)
