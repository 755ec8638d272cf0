"""What a governor is given, and what it refuses before it starts."""

from __future__ import annotations

from math import isfinite
from typing import Any

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.spark.application import usable_on_spark


def chosen_policy(policy: str | BasePolicy) -> BasePolicy:
    """The policy; ``ConfigError`` if it is unknown or makes no sense on Spark."""
    found = policy if isinstance(policy, BasePolicy) else make_policy_with(policy)
    return usable_on_spark(found)


def refuse_options(spark: Any, workers: int | None, probe_s: float, idle_grant_s: float) -> None:
    """``ConfigError`` where a governor could not work."""
    if not hasattr(spark, "_jsparkSession"):
        raise ConfigError(
            "govern", "a Spark Connect session has no access to the driver",
            "govern a session of the driver's own process",
        )  # fmt: skip
    if workers is not None and workers < 1:
        raise ConfigError("govern", f"{workers} workers", "give at least one")
    for name, value in (("probe_s", probe_s), ("idle_grant_s", idle_grant_s)):
        if not (isfinite(value) and value > 0):
            raise ConfigError("govern", f"{name} {value}", "give more than 0 seconds")
