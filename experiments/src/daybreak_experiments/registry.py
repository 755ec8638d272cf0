"""Finds experiments by name. Each source text is a package with an ``EXPERIMENTS`` tuple."""

from __future__ import annotations

from importlib import import_module

from daybreak_experiments.core import Experiment

#: Source text -> the package that holds its experiments.
SOURCES: dict[str, str] = {
    "aurora": "daybreak_experiments.aurora",
    "freshening": "daybreak_experiments.freshening",
    "links": "daybreak_experiments.links",
    "filters": "daybreak_experiments.filters",
    "fas": "daybreak_experiments.fas",
    "classes": "daybreak_experiments.classes",
    "planned": "daybreak_experiments.planned",
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
