"""Filters as a user declares them: what a service costs, how wide it is, how much it lets pass.

The names are the report's (chapter 2 and 4): service time ``st_i``, parallelism ``threads_i``,
capacity ``r_i = threads_i / st_i``, selectivity ``p_i`` (its sigma_i), precedence ``after``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daybreak.model.errors import ConfigError
from daybreak.model.tables import Document


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a router knows, or believes, about one filter service."""

    service_time_s: float
    threads: float
    selectivity: float

    @property
    def capacity_per_s(self) -> float:
        """Tuples the service can take per second, r_i."""
        return self.threads / self.service_time_s

    @property
    def rank_s(self) -> float:
        """cost / (1 - selectivity): seconds of service spent per tuple dropped."""
        drops = 1.0 - self.selectivity
        return math.inf if drops <= 0 else self.service_time_s / drops

    @property
    def negated(self) -> Estimate:
        """The same service in a disjunction, where the others see what it rejects."""
        return replace(self, selectivity=1.0 - self.selectivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One filter service of the conjunction."""

    name: str
    service_time_s: float
    #: The fraction of tuples it lets pass.
    selectivity: float
    #: Tuples it works on at the same time.
    threads: int = 1
    #: Filters that must have passed a tuple before this one may see it (section 5.3.4).
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        place = f"filter {self.name!r}"
        if not 0 < self.service_time_s < 1e6:
            raise ConfigError(
                place, f"service time {self.service_time_s} s", "give a time above 0, below 1e6 s"
            )
        if not 0 <= self.selectivity <= 1:
            raise ConfigError(
                place, f"selectivity {self.selectivity}", "give the fraction that passes, 0 to 1"
            )
        if not 1 <= self.threads <= 100_000:
            raise ConfigError(place, f"{self.threads} threads", "give 1 to 100 000 threads")

    @property
    def estimate(self) -> Estimate:
        """What is known of it when the declaration is the truth."""
        return Estimate(self.service_time_s, self.threads, self.selectivity)

    @property
    def capacity_per_s(self) -> float:
        return self.threads / self.service_time_s


def check_names(names: Sequence[str]) -> None:
    """Refuses an empty conjunction and two filters of one name."""
    if not names:
        raise ConfigError("filters", "no filter is declared", "declare at least one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError("filters", f"{twice[0]!r} is declared twice", "give each its own name")


def load_filters(path: Path) -> tuple[Filter, ...]:
    """Reads ``[filters.NAME]`` tables: service_time_ms, selectivity, threads, after."""
    table = Document.read(path).table()
    found: list[Filter] = []
    for name, row in table.children("filters"):
        time_ms = row.need("service_time_ms", float, "give the time that one tuple takes")
        selectivity = row.need("selectivity", float, "give the fraction that passes")
        threads = row.get("threads", int, 1) or 0
        after = row.strings("after") or ()
        row.done()
        try:
            made = Filter(
                name=name,
                service_time_s=time_ms / 1e3,
                selectivity=selectivity,
                threads=threads,
                after=after,
            )
        except ConfigError as error:
            raise row.error(error.finding, error.remedy) from error
        found.append(made)
    table.done()
    check_names([f.name for f in found])
    return tuple(found)
