"""Precedence among filters (section 5.3.4): a graph, and per tuple the frontier.

The frontier of a tuple is the set of filters that may take it now. Each tuple counts, for each
filter, how many of its predecessors have passed it (the report's numSatisfied), so that one
result costs as many increments as the filter has successors and no set is ever compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daybreak.model.errors import ConfigError, suggestion


class Dependencies:
    """A directed acyclic graph over filters ``0..n-1``; sets of filters are bit masks."""

    def __init__(self, names: Sequence[str], after: Mapping[str, Sequence[str]]) -> None:
        index = {name: i for i, name in enumerate(names)}
        self.names = tuple(names)
        self.successors: tuple[tuple[int, ...], ...]
        before: list[set[int]] = [set() for _ in names]
        for name, wanted in after.items():
            for other in wanted:
                if other not in index:
                    raise ConfigError(
                        f"filter {name!r}", f"is after {other!r}", suggestion(other, index)
                    )
                before[index[name]].add(index[other])
        #: Edges that end at each filter: what numSatisfied must reach.
        self.needed = tuple(len(b) for b in before)
        self.predecessors = tuple(sum(1 << u for u in b) for b in before)
        self.successors = tuple(
            tuple(v for v, b in enumerate(before) if u in b) for u in range(len(names))
        )
        self.everything = (1 << len(names)) - 1
        #: The frontier of a new tuple: filters that wait for no other.
        self.initial = sum(1 << v for v, b in enumerate(before) if not b)
        self._refuse_cycles(before)

    @property
    def none(self) -> bool:
        """Whether every filter may come first."""
        return self.initial == self.everything

    def allows(self, passed: int, filter_: int) -> bool:
        """Whether a tuple that passed exactly this set may go to the filter next."""
        needed = self.predecessors[filter_]
        return not passed >> filter_ & 1 and passed & needed == needed

    def _refuse_cycles(self, before: Sequence[set[int]]) -> None:
        remaining = {v: set(b) for v, b in enumerate(before)}
        while ready := [v for v, b in remaining.items() if not b]:
            for v in ready:
                del remaining[v]
            for b in remaining.values():
                b.difference_update(ready)
        if remaining:
            # Every filter left has a predecessor left: walking back must meet itself.
            path = [min(remaining)]
            while (earlier := min(remaining[path[-1]])) not in path:
                path.append(earlier)
            cycle = [earlier, *reversed(path[path.index(earlier) :])]
            raise ConfigError(
                "filters",
                "dependencies form a cycle: " + " -> ".join(self.names[v] for v in cycle),
                "take one of these away",
            )
