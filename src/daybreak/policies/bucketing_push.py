"""Bucketing with push-through: a tuple is pushed to the output at once (aurora-thesis 4.5)."""

from __future__ import annotations

from typing import Any, ClassVar

from daybreak.policies.bucketing import Bucketing, BucketingPathParams


class BucketingPush(Bucketing):
    """BucketingPushThrough: input boxes by bucket, each run through to the output."""

    name = "bucketing-push"
    summary = "bucketing among input boxes, tuples pushed through to the output"
    on_spark = True
    Params: ClassVar[type[Any]] = BucketingPathParams
