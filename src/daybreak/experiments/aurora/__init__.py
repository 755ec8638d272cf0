"""Experiments of the Aurora thesis, chapters 3, 4 and 6.3."""

from __future__ import annotations

from daybreak.experiments.aurora.batching import BATCHING
from daybreak.experiments.aurora.examples import EXAMPLES
from daybreak.experiments.aurora.overlap import OVERLAPPING
from daybreak.experiments.aurora.shedding import SHEDDING
from daybreak.experiments.aurora.traversal import TRAVERSING
from daybreak.experiments.aurora.windows import WINDOWED
from daybreak.experiments.core import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *EXAMPLES,
    *BATCHING,
    *TRAVERSING,
    *WINDOWED,
    *OVERLAPPING,
    *SHEDDING,
)
