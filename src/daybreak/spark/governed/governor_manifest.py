"""What the report of a governor states beside its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daybreak.spark.governed.gate_driver import GovernedDriver
from daybreak.version import __version__

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor


def manifest_of(governor: Governor, driver: GovernedDriver) -> dict[str, object]:
    """How it stands now; what cannot be governed is counted, too."""
    start_ns, free = driver.roster.start_ns, governor.free
    return {
        "daybreak": __version__,
        "world": "governed",
        "pipeline": governor.name,
        "started_s": round(start_ns / 1e9, 3),
        **governor.policy.report(start_ns),
        "spark": governor.spark_version,
        "governed": len(driver.roster.ever),
        "free": free,
        "free_seen": dict(driver.ever_free) or free,
        "decide_ns": driver.decide_ns,
        "grants": driver.granting.grants.as_json(),
        "changes": list(governor.changes),
        "failures": governor.failures,
    }
