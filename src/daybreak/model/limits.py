"""How far a run on Spark may go before it gives way: time, space, load, patience."""

from __future__ import annotations

from dataclasses import dataclass, fields

from daybreak.model.durations import duration_us
from daybreak.model.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The ``[limits]`` table of a pipeline, and ``[log] max_bytes``."""

    #: A job is cancelled after so long.
    job_timeout_s: float = 600.0
    #: How often a failing query is tried again before it is parked.
    retries: int = 3
    #: How long to wait before the first retry; doubled each time, up to half a minute.
    retry_s: float = 0.5
    #: Segments that wait for queries may take so much room; see ``on_full``.
    log_max_bytes: int = 2**33
    #: A micro-batch that is expected to take more never passes the driver: executors write it.
    driver_batch_bytes: int = 2**25
    #: The run's record may take so much room; its oldest part goes first.
    record_max_bytes: int = 2**28
    #: A query registered while it runs is refused beyond this share of capacity.
    admit_load: float = 0.9
    #: A query that is no longer declared keeps its place in the streams for so long.
    keep_undeclared: str = "7 days"
    #: After so long without a sign of life a driver loses a log in PostgreSQL to one that waits.
    lease_s: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                duration_us(value, "limits", field.name)
                continue
            least = 0 if field.name == "retries" else None
            if not (value > 0 or value == least):
                raise ConfigError("limits", f"{field.name} {value}", "give more than 0")

    @property
    def keep_undeclared_ns(self) -> int:
        return duration_us(self.keep_undeclared, "limits", "keep_undeclared") * 1000

    def wait_ns(self, failures: int) -> int:
        """How long to wait after so many failures in a row."""
        return round(min(self.retry_s * 2.0 ** min(failures - 1, 60), 30.0) * 1e9)
