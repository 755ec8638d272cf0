"""Experiments of the class-based-scheduling thesis, chapters 4 to 7."""

from __future__ import annotations

from daybreak.experiments.classes import abd, chapter7, compare, cqc
from daybreak.experiments.core import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *cqc.EXPERIMENTS,
    *abd.EXPERIMENTS,
    *compare.EXPERIMENTS,
    *chapter7.EXPERIMENTS,
)
