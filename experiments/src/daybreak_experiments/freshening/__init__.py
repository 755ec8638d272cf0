"""Experiments of the Aurora thesis, chapter 2 and section 6.2: freshening mirrors."""

from __future__ import annotations

from daybreak_experiments.core import Experiment
from daybreak_experiments.freshening import (
    bandwidth,
    clustering,
    hops,
    ideal,
    learning,
    partitioning,
    replacement,
    sizes,
    split,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    *ideal.EXPERIMENTS,
    *partitioning.EXPERIMENTS,
    *clustering.EXPERIMENTS,
    *sizes.EXPERIMENTS,
    *bandwidth.EXPERIMENTS,
    *learning.EXPERIMENTS,
    *split.EXPERIMENTS,
    hops.EXPERIMENTS[0],
    *replacement.EXPERIMENTS,
    hops.EXPERIMENTS[1],
)
