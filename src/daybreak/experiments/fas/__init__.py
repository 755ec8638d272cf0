"""Experiments of the FAS-MCQ paper, sections 6 and 7."""

from __future__ import annotations

from daybreak.experiments.core import Experiment
from daybreak.experiments.fas import auto, load, optimum, real, saturation, sensitivity, weighted

EXPERIMENTS: tuple[Experiment, ...] = (
    *load.EXPERIMENTS,
    *saturation.EXPERIMENTS,
    *sensitivity.EXPERIMENTS,
    *real.EXPERIMENTS,
    *optimum.EXPERIMENTS,
    *auto.EXPERIMENTS,
    *weighted.EXPERIMENTS,
)
