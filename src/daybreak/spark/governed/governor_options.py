"""What a governor is given, and what it refuses before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.spark.declared.application import usable_on_spark

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor


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


def refuse_second(spark: Any, governors: Mapping[str, Governor]) -> str:
    """Spark's id of the session; ``ConfigError`` if a governor is at work there."""
    session = str(spark._jsparkSession.sessionUUID())
    other = governors.get(session)
    if other is not None and not other.ended:
        raise ConfigError(
            "govern",
            f"this session has a governor already, {other.name!r}",
            "stop that one first: two would decide over the same queries",
        )
    return session
