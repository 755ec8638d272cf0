"""Fixed-Priority with push-through: a tuple is pushed to the output at once (aurora-thesis 4.5)."""

from __future__ import annotations

from typing import Any, ClassVar

from daybreak.policies.fixed_priority import FixedPriority
from daybreak.policies.parts.queues.execution_list import PathParams


class FixedPriorityPush(FixedPriority):
    """FixedPriorityPushThrough: input boxes in that order, each run through to the output."""

    name = "fixed-priority-push"
    summary = "fixed-priority among input boxes, tuples pushed through to the output"
    on_spark = False  # a query is one box there: the same as fixed-priority
    Params: ClassVar[type[Any]] = PathParams
    list_size = 10
