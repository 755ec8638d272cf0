"""Experiments of "Priority-Based Bandwidth Allocation in Aurora*"."""

from __future__ import annotations

from daybreak_experiments.core import Experiment
from daybreak_experiments.links import (
    belts,
    chains,
    curves,
    deadlines,
    fluctuation,
    many,
    minima,
    moves,
    nodes,
    reference,
    thresholds,
    windows,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    *belts.EXPERIMENTS,
    *curves.EXPERIMENTS,
    *deadlines.EXPERIMENTS,
    *thresholds.EXPERIMENTS,
    *nodes.EXPERIMENTS,
    *chains.EXPERIMENTS,
    *windows.EXPERIMENTS,
    *many.EXPERIMENTS,
    *moves.EXPERIMENTS,
    *fluctuation.EXPERIMENTS,
    *reference.EXPERIMENTS,
    *minima.EXPERIMENTS,
)
