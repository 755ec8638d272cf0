"""What would have helped a late query: the last minutes again, with one command changed.

The unchanged minutes come first. Where their worst answer is not about the measured one, replays
say nothing of this lateness, and there is no suggestion.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.jobs import Made
from daybreak.simulation.replay import Replay

#: A replay of the unchanged minutes may miss the measured worst answer by so much.
MOST_ERROR = 0.2
#: Replays in all may take so long; a suggestion for which no time is left is not tried.
BUDGET_S = 5.0
#: Deliveries that are replayed at most: some tenths of a second for each replay. With half as many
#: the minutes become fewer, with twice as many only half of the suggestions fit.
MOST = 20_000
#: A priority is raised to so many times the highest of the others, and trains are cut to so many
#: tuples.
RAISED = 2.0
TRAINS = (1_000, 50_000)


@dataclass(frozen=True)
class Helped:
    """What a change would have done, as far as a replay tells."""

    #: As the operator types it.
    command: str
    worst_s: float
    missed: int


@dataclass(frozen=True)
class Remedies:
    """Suggestions, the best first; or why there are none."""

    seconds: float
    measured_s: float
    #: The worst answer and the missed ones of the unchanged minutes, replayed.
    replayed_s: float
    missed: int
    helped: tuple[Helped, ...]
    #: Suggestions that were not tried, as the time was up.
    untried: int
    why_none: str | None = None

    @property
    def error(self) -> float:
        """By how much the replay of the unchanged minutes misses the measured worst answer."""
        return abs(self.replayed_s - self.measured_s) / self.measured_s if self.measured_s else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "measured_worst_s": round(self.measured_s, 6),
            "replayed_worst_s": round(self.replayed_s, 6),
            "replayed_missed": self.missed,
            "error": round(self.error, 4),
            "untried": self.untried,
            "why_none": self.why_none,
            "suggestions": [
                {"command": h.command, "worst_s": round(h.worst_s, 6), "missed": h.missed}
                for h in self.helped
            ],
        }


@dataclass(frozen=True)
class _Change:
    command: str
    policy: BasePolicy
    workers: int | None = None
    made: Made | None = None
    without: int | None = None


def remedies(
    folder: Path, record: Path, query: str, *, last_s: float, goal_s: float | None,
    neighbour: str | None = None, budget_s: float = BUDGET_S,
) -> Remedies | None:  # fmt: skip
    """Replays the newest stretch of a run, unchanged and with each change that can be typed.

    ``neighbour``: a query that was in the way, and could be paused. None where the record cannot be
    replayed, as one without arrivals.
    """
    end_s = time.monotonic() + budget_s
    try:
        replay = Replay.load(record, last_s=last_s, most=MOST)
    except ConfigError:
        return None
    about = replay.recorded.manifest
    policy, parameters = str(about["policy"]), _given(about)
    q = replay.recorded.queries.index(query)
    measured_s, _ = _worst(replay.recorded, q, goal_s)
    span_s = (replay.end_ns - replay.from_ns) / 1e9
    if not replay.deliveries or not measured_s:
        return None
    began = time.monotonic()
    worst_s, missed = _worst(replay.run(make_policy_with(policy, **parameters)), q, goal_s)
    each_s = time.monotonic() - began
    found = Remedies(span_s, measured_s, worst_s, missed, (), 0)
    if found.error > MOST_ERROR:
        return Remedies(span_s, measured_s, worst_s, missed, (), 0, _too_far(found))
    helped, untried = [], 0
    for change in _changes(folder, replay, q, policy, parameters, neighbour):
        if time.monotonic() + each_s > end_s:
            untried += 1
            continue
        changed = replay.changed(workers=change.workers, made=change.made, without=change.without)
        helped.append(Helped(change.command, *_worst(changed.run(change.policy), q, goal_s)))
    helped.sort(key=lambda h: (h.missed, h.worst_s))
    return Remedies(span_s, measured_s, worst_s, missed, tuple(helped), untried)


def _too_far(found: Remedies) -> str:
    return (
        f"a replay of the unchanged {found.seconds:.3g} s gives {found.replayed_s:.3g} s "
        f"as its worst answer, not {found.measured_s:.3g} s: what made it late is not in the model"
    )


def _changes(
    folder: Path, replay: Replay, q: int, policy: str, parameters: Mapping[str, Any],
    neighbour: str | None,
) -> Iterator[_Change]:  # fmt: skip
    """What an operator can enter, the most likely to help first."""
    recorded, run = replay.recorded, f"daybreak set {quote(str(folder))}"
    if neighbour in recorded.queries and neighbour != recorded.queries[q]:
        yield _Change(
            f"daybreak pause {quote(str(folder))} {quote(neighbour)}",
            make_policy_with(policy, **parameters), without=recorded.queries.index(neighbour),
        )  # fmt: skip
    cls = recorded.query_class[q]
    own = recorded.classes[cls]
    others = [p for c, p in enumerate(recorded.priorities) if c != cls]
    was = recorded.priorities[cls]
    raised = float(f"{max([was, *others]) * RAISED:.4g}")
    if others:
        yield _Change(
            f"{run} {quote(f'class.{own}={raised:g}')}", make_policy_with(policy, **parameters),
            made=Made(0, "class-priority", cls, was, raised),
        )  # fmt: skip
        best = int(np.argmax(recorded.priorities))
        if best != cls:
            name = recorded.queries[q]
            yield _Change(
                f"{run} {quote(f'query.{name}.class={recorded.classes[best]}')}",
                make_policy_with(policy, **parameters),
                made=Made(0, "query-class", q, cls, best),
            )  # fmt: skip
    if "train" in make_policy_with(policy).settings():
        for train in TRAINS:
            if (parameters.get("train") or 2**62) > train:
                given = {**parameters, "train": train}
                text = f"{run} policy='{policy} {{\"train\": {train}}}'"
                yield _Change(text, make_policy_with(policy, **given))
    workers = int(recorded.manifest["workers"])
    yield _Change(
        f"daybreak run PIPELINE --run-dir {quote(str(folder))} --workers {workers + 1}",
        make_policy_with(policy, **parameters), workers=workers + 1,
    )  # fmt: skip


def _given(about: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in about.get("parameters", {}).items() if v is not None}


def _worst(report: RunReport, q: int, goal_s: float | None) -> tuple[float, int]:
    """The longest response time of a query, and its tuples past the goal."""
    mine = report.outputs.query == q
    response_s, tuples = report.response_s[mine], report.outputs.tuples[mine]
    if not len(response_s):
        return 0.0, 0
    missed = 0 if goal_s is None else int(tuples[response_s > goal_s].sum())
    return float(response_s.max()), missed
