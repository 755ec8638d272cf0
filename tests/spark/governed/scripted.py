"""A driver whose gates do what a test says: what would happen in Spark, without it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from daybreak.model.limits import Limits
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.eventlog import silent
from daybreak.runtime.record import RecordParts
from daybreak.spark.gates.bridge import (
    GateEvent,
    Gone,
    NoBridge,
    Pending,
    QueryStarted,
    Ready,
    SourceRead,
    UnitGroup,
)
from daybreak.spark.governed.class_book import ClassBook
from daybreak.spark.governed.gate_driver import GovernedDriver
from daybreak.spark.governed.governed_record import RecordOnDisk

FOLDER = "FileStreamSource[in]"
CLASSES = {"alarm": 60.0, "archive": 10.0}


class Scripted(NoBridge):
    """Reports what it is given, and remembers grants."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[GateEvent] = []
        self.grants: list[str] = []
        #: What each query was allowed to read at its last grant.
        self.units: dict[str, tuple[int, ...]] = {}
        self.cancelled: list[str] = []

    def poll(self, ms: int) -> list[GateEvent]:
        events, self.events = self.events, []
        return events

    def grant(self, run: str, units: Sequence[int] = ()) -> bool:
        self.grants.append(run)
        self.units[run] = tuple(units)
        return True

    def cancel(self, run: str) -> None:
        self.cancelled.append(run)


class Bench:
    """A driver, and queries by name; a query's run has its name until it is restarted."""

    def __init__(
        self,
        policy: str = "fixed-priority",
        classes: Mapping[str, float] = CLASSES,
        train: int = 0,
        record: Path | None = None,
        **limits: Any,
    ) -> None:
        self.bridge = Scripted()
        params = {"train": train} if train else {}
        self.driver = GovernedDriver(
            self.bridge, make_policy_with(policy, **params), ClassBook(classes), silent,
            workers=1, seed=1, limits=Limits(**limits), idle_grant_s=0.01,
        )  # fmt: skip
        self._turns: dict[str, int] = {}
        self.record: RecordOnDisk | None = None
        if record is not None:
            roster = self.driver.roster
            about = lambda: {"world": "governed", **roster.policy.report(roster.start_ns)}  # noqa: E731
            self.driver.record = self.record = RecordOnDisk(
                RecordParts(record, 2**20), roster, 1, about
            )

    def hear(self, *events: GateEvent) -> list[str]:
        """The grants that follow."""
        self.bridge.events += events
        self.bridge.grants.clear()
        self.driver.advance()
        return list(self.bridge.grants)

    def start(
        self, name: str, cls: str | None = None, run: str = "", restart: str | None = None
    ) -> list[str]:
        """A query starts, and is parked before its first micro-batch."""
        self._turns[run or name] = 0
        started = QueryStarted(run or name, f"id of {name}", name, cls, restart, None)
        return self.hear(started, Ready(run or name, 0, sources=(SourceRead(FOLDER, True),)))

    def ready(self, run: str, rows: int = 0, units: int = 0, **about: Any) -> Ready:
        """A grant was used, on so many rows of so many files."""
        self._turns[run] += 1
        source = SourceRead(FOLDER, about.pop("probed", True), rows, units)
        ran = about.pop("ran", rows > 0)
        return Ready(run, self._turns[run], 0, (source,), ran=ran, ms=100 * ran, **about)

    def running(self, name: str, cls: str | None = None) -> None:
        """A query that has used its first grant and has nothing to do."""
        assert (self.start(name, cls) or self.until_granted()) == [name]
        assert self.hear(self.ready(name)) == []

    def pending(self, run: str, units: int, *, awaited: bool = False) -> Pending:
        groups = (UnitGroup(round(time.time() * 1000), 0, units),) if units else ()
        return Pending(run, self._turns[run], groups, awaited)

    def gone(self, run: str, error: str | None = None) -> Gone:
        return Gone(run, error)

    def until_granted(self, within_s: float = 5.0) -> list[str]:
        """Time passes until the next grant."""
        end_s = time.monotonic() + within_s
        while not (granted := self.hear()):
            assert time.monotonic() < end_s, "nobody was granted anything"
            time.sleep(0.002)
        return granted
