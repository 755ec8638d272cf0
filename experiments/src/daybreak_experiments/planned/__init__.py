"""The policy ``planned``, which no source text has: beside all others that run on Spark."""

from __future__ import annotations

from daybreak_experiments.core import Experiment
from daybreak_experiments.planned.hard import HARD
from daybreak_experiments.planned.loads import LOADS_EXPERIMENT

EXPERIMENTS: tuple[Experiment, ...] = (LOADS_EXPERIMENT, HARD)
