"""Experiments of the FAS-MCQ paper, sections 6 and 7."""

from __future__ import annotations

from daybreak_experiments.core import Experiment
from daybreak_experiments.fas import auto, load, optimum, real, saturation, sensitivity, weighted

EXPERIMENTS: tuple[Experiment, ...] = (
    *load.EXPERIMENTS,
    *saturation.EXPERIMENTS,
    *sensitivity.EXPERIMENTS,
    *real.EXPERIMENTS,
    *optimum.EXPERIMENTS,
    *auto.EXPERIMENTS,
    *weighted.EXPERIMENTS,
)
