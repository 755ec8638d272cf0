"""Experiments of the Aurora thesis, chapters 3, 4 and 6.3."""

from __future__ import annotations

from daybreak.experiments.aurora.batching import BATCHING
from daybreak.experiments.aurora.both import BEYOND
from daybreak.experiments.aurora.buckets import BUCKETS
from daybreak.experiments.aurora.comparing import COMPARING
from daybreak.experiments.aurora.compositing import COMPOSITING
from daybreak.experiments.aurora.examples import EXAMPLES
from daybreak.experiments.aurora.overlap import OVERLAPPING
from daybreak.experiments.aurora.overload import OVERLOAD
from daybreak.experiments.aurora.schedules import SCHEDULING
from daybreak.experiments.aurora.shedding import SHEDDING
from daybreak.experiments.aurora.traversal import TRAVERSING
from daybreak.experiments.aurora.waiting import WAITING
from daybreak.experiments.aurora.windows import WINDOWED
from daybreak.experiments.core import Experiment

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
