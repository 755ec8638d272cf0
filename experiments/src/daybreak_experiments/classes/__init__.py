"""Experiments of the class-based-scheduling thesis, chapters 4 to 7."""

from __future__ import annotations

from daybreak_experiments.classes import (
    abd,
    beyond,
    changing,
    chapter7,
    compare,
    cqc,
    cqc_load,
    low_input,
    scale,
    sources,
)
from daybreak_experiments.core import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *cqc.EXPERIMENTS,
    *abd.EXPERIMENTS,
    *cqc_load.EXPERIMENTS,
    *compare.EXPERIMENTS,
    *scale.EXPERIMENTS,
    *low_input.EXPERIMENTS,
    *changing.EXPERIMENTS,
    *sources.EXPERIMENTS,
    *beyond.EXPERIMENTS,
    *chapter7.EXPERIMENTS,
)
