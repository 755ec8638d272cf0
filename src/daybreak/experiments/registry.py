"""Finds experiments by name. Each source text is a package with an ``EXPERIMENTS`` tuple."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module

from daybreak.experiments.core import Experiment
from daybreak.model.errors import ConfigError, suggestion

#: Source text -> the package that holds its experiments.
SOURCES: dict[str, str] = {
    "aurora": "daybreak.experiments.aurora",
    "freshening": "daybreak.experiments.freshening",
    "links": "daybreak.experiments.links",
    "filters": "daybreak.experiments.filters",
    "fas": "daybreak.experiments.fas",
    "classes": "daybreak.experiments.classes",
    "planned": "daybreak.experiments.planned",
}
#: Results pages that go by another name than their source.
PAGES: dict[str, str] = {"fas": "freshness"}


def all_experiments() -> dict[str, Experiment]:
    """Every experiment by name, in the order the texts print them."""
    found: dict[str, Experiment] = {}
    for package in SOURCES.values():
        for experiment in import_module(package).EXPERIMENTS:
            found[experiment.name] = experiment
    return found


def find_experiments(patterns: list[str]) -> list[Experiment]:
    """The experiments that match any of the names or patterns (``aurora/*``)."""
    everything = all_experiments()
    chosen: dict[str, Experiment] = {}
    for pattern in patterns:
        matches = {n: e for n, e in everything.items() if fnmatchcase(n, pattern)}
        if not matches:
            raise ConfigError(
                "reproduce", f"no experiment matches {pattern!r}", suggestion(pattern, everything)
            )
        chosen.update(matches)
    return list(chosen.values())
