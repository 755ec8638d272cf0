"""Outcomes that outlive the command: a benchmark of hours can be interrupted and resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.loads.scoring import Outcome

#: Of the file: outcomes in one of another format were measured by other rules.
FORMAT = 2


class Case(NamedTuple):
    """One run: the n-th of a policy at a load, from 0."""

    workload: str
    load: float
    policy: str
    n: int


class OtherSettings(Exception):
    """The file holds outcomes that cannot be compared with those of this call."""


class Results:
    """Capacities and outcomes, each a line of JSON that is written as soon as it is known.

    Without a path they are kept in memory alone.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        """``settings``: what outcomes depend on; ``OtherSettings`` if the file has others."""
        self._path = path
        self.capacities: dict[str, float] = {}
        #: By workload: what a piece of work took meanwhile, in ms (``pace``).
        self.pieces_ms: dict[str, float] = {}
        self._outcomes: dict[Case, Outcome] = {}
        present = {"format": FORMAT, **settings}
        lines = _lines(path) if path is not None and path.exists() else []
        if not lines:
            self._write({"settings": present})
        elif lines[0].get("settings") != present:
            raise OtherSettings(
                f"{path} was measured with {lines[0].get('settings')}, and this call has "
                f"{present}; name another file, or call with the same settings on that machine"
            )
        for line in lines[1:]:
            if "capacity" in line:
                self.capacities[line["workload"]] = line["capacity"]
                self.pieces_ms[line["workload"]] = line["piece_ms"]
            else:
                outcome = Outcome(**line["outcome"])
                self._outcomes[_case(outcome, line["n"])] = outcome

    @property
    def outcomes(self) -> list[Outcome]:
        """In the order in which they were measured."""
        return list(self._outcomes.values())

    def has(self, case: Case) -> bool:
        return case in self._outcomes

    def first(self, workload: str, load: float) -> list[Outcome]:
        """The first run of each policy there."""
        return [
            outcome for case, outcome in self._outcomes.items()
            if (case.workload, case.load, case.n) == (workload, load, 0)
        ]  # fmt: skip

    def add_capacity(self, workload: str, rate_per_s: float, piece_ms: float = 0.0) -> None:
        """``piece_ms``: 0 if it was given, so that nothing is known of the machine then."""
        self.capacities[workload] = rate_per_s
        self.pieces_ms[workload] = piece_ms
        self._write({"workload": workload, "capacity": rate_per_s, "piece_ms": piece_ms})

    def add(self, outcome: Outcome, n: int) -> None:
        self._outcomes[_case(outcome, n)] = outcome
        self._write({"n": n, "outcome": asdict(outcome)})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _case(outcome: Outcome, n: int) -> Case:
    return Case(outcome.workload, outcome.load, outcome.policy, n)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines; a last one that a kill has cut is removed: its run is repeated."""
    whole, _, cut = path.read_bytes().rpartition(b"\n")
    if cut:
        os.truncate(path, len(whole) + 1 if whole else 0)
    return [json.loads(line) for line in whole.splitlines()]
