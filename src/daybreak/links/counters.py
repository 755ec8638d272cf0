"""Live counters of both ends of a link, per class."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class SenderCounters:
    """``arrived == delivered + expired + evicted + queued + in_flight``, at every moment."""

    arrived: int = 0
    #: Acknowledged by the receiver.
    delivered: int = 0
    #: Too late to send; dropped before they wasted bandwidth.
    expired: int = 0
    evicted: int = 0
    queued: int = 0
    #: Sent, not yet acknowledged.
    in_flight: int = 0
    #: Taken back from a broken connection to be sent again.
    returned: int = 0
    bytes_sent: int = 0

    @property
    def share(self) -> float:
        return self.delivered / self.arrived if self.arrived else 1.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class ReceiverCounters:
    """What came in, by whether it was in time."""

    on_time: int = 0
    late: int = 0
    #: Came again after a reconnection; handed over once only.
    duplicates: int = 0
    bytes_received: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
