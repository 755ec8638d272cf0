"""Experiments of the Aurora thesis, chapters 3, 4 and 6.3."""

from __future__ import annotations

from daybreak_experiments.aurora.batching import BATCHING
from daybreak_experiments.aurora.both import BEYOND
from daybreak_experiments.aurora.buckets import BUCKETS
from daybreak_experiments.aurora.comparing import COMPARING
from daybreak_experiments.aurora.compositing import COMPOSITING
from daybreak_experiments.aurora.examples import EXAMPLES
from daybreak_experiments.aurora.overlap import OVERLAPPING
from daybreak_experiments.aurora.overload import OVERLOAD
from daybreak_experiments.aurora.schedules import SCHEDULING
from daybreak_experiments.aurora.shedding import SHEDDING
from daybreak_experiments.aurora.traversal import TRAVERSING
from daybreak_experiments.aurora.waiting import WAITING
from daybreak_experiments.aurora.windows import WINDOWED
from daybreak_experiments.core import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *EXAMPLES,
    *BATCHING,
    *TRAVERSING,
    *SCHEDULING,
    *COMPARING,
    *BUCKETS,
    *OVERLOAD,
    *BEYOND,
    *WINDOWED,
    *OVERLAPPING,
    *COMPOSITING,
    *WAITING,
    *SHEDDING,
)
