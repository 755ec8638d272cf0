"""A tuple on its way through the filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from daybreak.filters.dependencies import Dependencies


@dataclass(slots=True, eq=False)
class StreamTuple:
    """What the scheduler keeps per tuple; sets of filters are bit masks (the report's bitmap)."""

    #: Order of arrival; also breaks every tie.
    sequence: int
    value: Any
    arrived_s: float
    #: Filters that let it pass, that may take it now, and that work on it now.
    passed: int = 0
    frontier: int = 0
    running: int = 0
    #: numProcessed and numCurrThread of section 5.3.
    num_passed: int = 0
    num_running: int = 0
    decided: bool = False
    #: Order given to it in advance, by routers that do so.
    route: tuple[int, ...] = ()
    #: What services returned, by filter.
    found: dict[int, Any] = field(default_factory=dict)
    #: Per filter, how many predecessors passed it; only kept where there are dependencies.
    _satisfied: list[int] | None = None

    def enter(self, dependencies: Dependencies) -> None:
        """Sets the first frontier."""
        self.frontier = dependencies.initial
        if not dependencies.none:
            self._satisfied = [0] * len(dependencies.names)

    def start(self, filter_: int) -> None:
        self.running |= 1 << filter_
        self.num_running += 1

    def stop(self, filter_: int) -> None:
        self.running &= ~(1 << filter_)
        self.num_running -= 1

    def pass_(self, filter_: int, dependencies: Dependencies) -> None:
        """The filter let it pass: what waited for that may come now."""
        self.passed |= 1 << filter_
        self.num_passed += 1
        self.frontier &= ~(1 << filter_)
        if self._satisfied is not None:
            for v in dependencies.successors[filter_]:
                self._satisfied[v] += 1
                if self._satisfied[v] == dependencies.needed[v]:
                    self.frontier |= 1 << v

    def may_go_to(self, filter_: int) -> bool:
        """Whether a thread of the filter may take it now."""
        return bool((self.frontier & ~self.running) >> filter_ & 1)
