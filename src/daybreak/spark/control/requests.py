"""What an operator may ask of a run, as types: the same from Python, a terminal or a web page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from daybreak.engine.admission import Verdict
from daybreak.model.specs import QuerySpec
from daybreak.policies.base import BasePolicy

#: Where a registered query begins: with the next segment, or with the oldest that is kept.
Start = Literal["next", "earliest"]


@dataclass(frozen=True, slots=True)
class PauseQuery:
    """Starts no further job of a query; what arrives waits. Lasts beyond a restart."""

    query: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Ends a pause, or tries a parked query again; ``skip`` first gives up what it failed on.

    That is rows of its streams, or one result that its sink refuses.
    The name may also be that of a stream that has stopped: its source is started again.
    """

    query: str
    skip: bool = False


@dataclass(frozen=True, slots=True)
class DropQuery:
    """Forgets a query and its place in the streams; its results stay. A job of it ends first."""

    query: str


@dataclass(frozen=True, slots=True)
class RegisterQuery:
    """A new query. Refused if there is no capacity for it, unless ``force``; ``dry`` only asks."""

    spec: QuerySpec
    start: Start = "next"
    force: bool = False
    dry: bool = False


@dataclass(frozen=True, slots=True)
class SetClassPriority:
    cls: str
    priority: float


@dataclass(frozen=True, slots=True)
class SetQueryClass:
    query: str
    cls: str


@dataclass(frozen=True, slots=True)
class SetQueryWeight:
    query: str
    weight: float


@dataclass(frozen=True, slots=True)
class SetQuerySubscribers:
    query: str
    count: int


@dataclass(frozen=True, slots=True)
class UsePolicy:
    """Jobs under way end under the policy before."""

    policy: BasePolicy
    seed: int = 1


Request: TypeAlias = (
    PauseQuery
    | ResumeQuery
    | DropQuery
    | RegisterQuery
    | SetClassPriority
    | SetQueryClass
    | SetQueryWeight
    | SetQuerySubscribers
    | UsePolicy
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request that was carried out."""

    #: Rows that were given up.
    skipped: int = 0
    #: What a registered query takes of the capacity.
    verdict: Verdict | None = None
