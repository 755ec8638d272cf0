"""What an experiment is: a function from seeds to judged claims, a table and a figure.

A line of its verdicts is one of three:

* a ``Claim`` is a statement of a text with the rule that judges it here. Its ``kind`` is
  ``robust`` if it must hold (``daybreak reproduce`` fails if it does not), or ``published`` if it
  is judged and printed, and may fail;
* a ``Note`` is a number of ours for which the text prints none: it has no verdict;
* a ``Skipped`` claim could not be judged (a trace file was not given, say).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from daybreak.suites import ClaimRecord
from daybreak_experiments.rules import Rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

In = TypeVar("In")
Out = TypeVar("Out")

#: Robust claims must hold; published ones compare with what a text prints.
Kind = Literal["robust", "published"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a text, and the rule by which it holds here or fails."""

    claim: str
    kind: Kind
    #: What the text prints, and what we got; both as a reader wants to see them.
    paper: str
    ours: str
    rule: Rule

    def __post_init__(self) -> None:
        # A bare bool would be a verdict without a rule.
        if not isinstance(self.rule, Rule):
            raise TypeError(f"claim {self.claim!r} has no rule, only {self.rule!r}")

    @property
    def holds(self) -> bool:
        return self.rule.met


@dataclass(frozen=True, slots=True)
class Note:
    """A number of ours without a counterpart in the text, which is why it has no verdict."""

    claim: str
    ours: str

    kind: ClassVar[Literal["note"]] = "note"
    paper: ClassVar[str] = "-"
    holds: ClassVar[None] = None
    rule: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A claim that this run could not judge; ``ours`` is the reason."""

    claim: str
    paper: str
    ours: str

    kind: ClassVar[Literal["skipped"]] = "skipped"
    holds: ClassVar[None] = None
    rule: ClassVar[None] = None


Line = Claim | Note | Skipped


def as_json(line: Line) -> ClaimRecord:
    return {
        "claim": line.claim,
        "kind": line.kind,
        "paper": line.paper,
        "ours": line.ours,
        "rule": line.rule.requires if line.rule is not None else None,
        "holds": line.holds,
    }


@dataclass(frozen=True)
class Outcome:
    """What one experiment came to."""

    claims: Sequence[Line]
    #: A table to print: the first row holds the headings.
    table: Sequence[Sequence[str]] = ()
    #: Draws the figure; called only when a picture is wanted and matplotlib is there.
    draw: Callable[[Figure], None] | None = None
    #: What differs from the text and why, in plain sentences.
    notes: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.claims if c.kind == "robust")


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment, such as ``aurora/fig3.6``."""

    name: str
    title: str
    run: Callable[[Context], Outcome]
    #: How many seeds it takes by default; 1 for what has no randomness.
    seeds: int = 5


@dataclass
class Context:
    """What an experiment may use: its seeds, all cores, and files named by the user."""

    seeds: Sequence[int]
    #: Files given by ``--trace NAME=FILE``.
    traces: Mapping[str, Path] = field(default_factory=dict)
    workers: int = 0
    on_progress: Callable[[int, int], None] = lambda _done, _total: None

    def map(self, function: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
        """``[function(i) for i in items]`` over all cores; function and items must pickle."""
        work = list(items)
        workers = min(self.workers or os.cpu_count() or 1, len(work))
        self.on_progress(0, len(work))
        results: list[Out] = []
        if workers <= 1:
            for item in work:
                results.append(function(item))
                self.on_progress(len(results), len(work))
            return results
        # Spawned, not forked: a fork would copy the threads' locks of whoever runs us.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for result in pool.map(function, work):
                results.append(result)
                self.on_progress(len(results), len(work))
        return results
