"""Experiments of the report on scheduling tuples through filter services, chapter 6."""

from __future__ import annotations

from daybreak_experiments.core import Experiment
from daybreak_experiments.filters import assumptions, extensions, latency, parameters, rates

EXPERIMENTS: tuple[Experiment, ...] = tuple(
    sorted(
        (
            *latency.EXPERIMENTS,
            *rates.EXPERIMENTS,
            *parameters.EXPERIMENTS,
            *extensions.EXPERIMENTS,
            *assumptions.EXPERIMENTS,
        ),
        key=lambda e: e.name,
    )
)
