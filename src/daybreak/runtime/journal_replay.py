"""Replays of recorded journals: a run's decisions are taken again by the code of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from daybreak.engine.engine import Engine
from daybreak.engine.events import AddQuery
from daybreak.engine.journal_format import Recorded
from daybreak.engine.replay import decide, engine_of
from daybreak.policies.base import BasePolicy
from daybreak.policies.reasons import Reason
from daybreak.runtime.journal_file import load_journal


class Side(NamedTuple):
    """What one of two engines decided, and why as far as its policy says."""

    policy: str
    decisions: list[Any]
    reasons: Mapping[str, Reason]

    def as_json(self) -> dict[str, Any]:
        reasons = {name: reason.as_json() for name, reason in self.reasons.items()}
        return {"policy": self.policy, "decisions": self.decisions, "reasons": reasons}


class Divergence(NamedTuple):
    """The first entry of a journal that is decided in another way."""

    number: int
    at_ns: int
    #: Names of the events' types.
    events: list[str]
    recorded: Side
    now: Side


@dataclass(frozen=True)
class DecisionReplay:
    """How far a replay took the decisions of its run."""

    place: str
    policy: str
    #: Entries that were replayed, and decisions among them.
    entries: int
    decisions: int
    #: By index: all queries that there were.
    names: Mapping[int, str]
    divergence: Divergence | None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run": self.place, "policy": self.policy, "entries": self.entries,
            "decisions": self.decisions, "equal": self.divergence is None,
            "queries": {str(box): name for box, name in self.names.items()},
        }  # fmt: skip
        if self.divergence is not None:
            number, at_ns, events, recorded, now = self.divergence
            found["first_difference"] = {
                "entry": number, "at_ns": at_ns, "events": events,
                "recorded": recorded.as_json(), "now": now.as_json(),
            }  # fmt: skip
        return found


def replay_run(run: Path, policy: BasePolicy | None = None) -> DecisionReplay:
    """Replays the journal of a run, under another policy if one is given.

    It ends at the first entry whose decisions differ: what came after followed from others.
    ``ConfigError`` if there is no journal, or if it is not whole.
    """
    journal = load_journal(run)
    twin = engine_of(journal.origin)  # decides as the run did, and can say why
    engine = twin if policy is None else engine_of(journal.origin, policy)
    used = engine.view.policy.name
    names = {box: facts.name for box, facts in enumerate(journal.origin.facts)}
    entries = taken = 0
    for entry in journal.entries():
        for event in entry.events:
            if isinstance(event, AddQuery):
                names[event.box] = event.facts.name
        was = entry.decisions
        now = decide(engine, entry)
        if engine is not twin:
            decide(twin, entry)
        if now != was:
            divergence = _divergence(entry, now, engine, twin, names)
            return DecisionReplay(journal.place, used, entries, taken, names, divergence)
        entries, taken = entries + 1, taken + len(now)
    return DecisionReplay(journal.place, used, entries, taken, names, None)


def _divergence(
    entry: Recorded, now: list[Any], engine: Engine, twin: Engine, names: Mapping[int, str]
) -> Divergence:
    """Both sides say why of every query that only one of them began a job of."""
    was = entry.decisions
    begun = _begun(was) ^ _begun(now)

    def reasons(of: Engine) -> dict[str, Reason]:
        told = {names[box]: of.explain(box, entry.now_ns) for box in sorted(begun)}
        return {name: reason for name, reason in told.items() if reason is not None}

    # Without another policy nothing of today decides as the run did.
    recorded = reasons(twin) if engine is not twin else {}
    return Divergence(
        entry.number, entry.now_ns, [type(event).__name__ for event in entry.events],
        Side(twin.view.policy.name, was, recorded),
        Side(engine.view.policy.name, now, reasons(engine)),
    )  # fmt: skip


def _begun(said: list[Any]) -> set[int]:
    """The queries that decisions begin jobs of."""
    jobs = [fields for kind, *fields in said if kind == "StartJob"]
    return {group[0][0] for _, _, groups in jobs for group in groups}


def decision_text(said: list[Any], names: Mapping[int, str]) -> str:
    """One decision in words."""
    kind, *fields = said
    if kind != "StartJob":
        return f"{kind} {' '.join(str(field) for field in fields)}"
    _, worker, groups = fields
    return f"StartJob on worker {worker}: {'; '.join(_job_text(g, names) for g in groups)}"


def _job_text(group: list[Any], names: Mapping[int, str]) -> str:
    boxes, taken, *_ = group
    along = f" with {len(boxes) - 1} more" if len(boxes) > 1 else ""
    return f"{names[boxes[0]]} {sum(item[2] for item in taken)} tuples{along}"
