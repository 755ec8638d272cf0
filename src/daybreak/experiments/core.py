"""What an experiment is: a function from seeds to judged claims, a table and a figure.

A claim's ``kind`` is

* ``robust``: the text's statement must hold here too; ``daybreak reproduce`` fails if not;
* ``published``: a number we print beside the text's, without requiring that they agree;
* ``skipped``: could not be judged, ``ours`` says why (a trace file was not given, say).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

In = TypeVar("In")
Out = TypeVar("Out")

Kind = Literal["robust", "published", "skipped"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a text, and whether it holds here."""

    claim: str
    kind: Kind
    #: What the text prints, and what we got; both as a reader wants to see them.
    paper: str
    ours: str
    holds: bool

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Outcome:
    """What one experiment came to."""

    claims: Sequence[Claim]
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
