"""The reasons of a decision, as trees: node, verdict, figures, and the reasons below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

#: What an answer can lose time to. The set is closed, since it labels a metric.
Cause = Literal[
    "source", "ingest", "paused", "retrying", "own-job", "turn", "unplanned", "yielded", "busy",
    "overrun", "handover", "compile", "run", "disk", "delivery", "shed", "unexplained",
]  # fmt: skip
CAUSES: tuple[Cause, ...] = get_args(Cause)


@dataclass(frozen=True, slots=True)
class Reason:
    """One node of the tree that explains a decision.

    A policy makes it from the figures by which it decides, so that both cannot differ.
    """

    #: Names the part of the policy that decides here.
    node: str
    #: Says in a sentence what it found.
    verdict: str
    #: With units in their names.
    figures: Mapping[str, float | str] = field(default_factory=dict)
    because: tuple[Reason, ...] = ()
    #: Where it stands for a part of a wait: what the time was lost to, from when to when.
    cause: Cause | None = None
    span_ns: tuple[int, int] | None = None
    #: The worker that was not free, and when it was given its job.
    worker: tuple[int, int] | None = None

    def parts(self) -> Iterator[Reason]:
        """The reasons in the tree that stand for parts of a wait, in its order."""
        return (r for r in self.every() if r.span_ns is not None and r.cause is not None)

    def every(self) -> Iterator[Reason]:
        """The reason and all below it."""
        yield self
        for reason in self.because:
            yield from reason.every()

    def as_json(self) -> dict[str, Any]:
        """Without instants: they are on the clock of a process."""
        found: dict[str, Any] = {"node": self.node, "verdict": self.verdict}
        if self.figures:
            found["figures"] = dict(self.figures)
        if self.cause is not None:
            found["cause"] = self.cause
        if self.because:
            found["because"] = [reason.as_json() for reason in self.because]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reason:
        return cls(
            node=data["node"],
            verdict=data["verdict"],
            figures=data.get("figures", {}),
            because=tuple(cls.from_json(reason) for reason in data.get("because", ())),
            cause=data.get("cause"),
        )
