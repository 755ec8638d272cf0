"""SlopeSlack with push-through: a tuple is pushed to the output at once (aurora-thesis 4.5)."""

from __future__ import annotations

from typing import Any, ClassVar

from daybreak.policies.parts.priorities.urgency import UrgencyPathParams
from daybreak.policies.slope_slack import SlopeSlack


class SlopeSlackPush(SlopeSlack):
    """SlopeSlackPushThrough: input boxes by p-tuple, each run through to the output."""

    name = "slope-slack-push"
    summary = "slope-slack among input boxes, tuples pushed through to the output"
    on_spark = True
    Params: ClassVar[type[Any]] = UrgencyPathParams
