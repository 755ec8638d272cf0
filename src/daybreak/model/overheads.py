"""What scheduling and running cost besides the work itself, as parameters.

The named sets bracket Aurora's 2003 prototype (docs/design/simulator.md); every experiment
says which one it used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """All in ns. A decision costs the sum over what its policy says it examined."""

    #: Per invocation of the scheduler.
    fixed_ns: int = 0
    #: Per candidate scanned, per comparison, per evaluation of latency, per bucket visited.
    scan_ns: int = 0
    compare_ns: int = 0
    evaluate_ns: int = 0
    bucket_ns: int = 0
    #: Per queued tuple the scheduler looked at.
    queued_ns: int = 0
    #: Per box call, and per superbox (a plan of more than one box).
    box_call_ns: int = 0
    superbox_ns: int = 0
    #: Storage manager, per box call.
    storage_ns: int = 0


OVERHEADS: dict[str, Overheads] = {
    "none": Overheads(),
    "light": Overheads(
        fixed_ns=10_000, scan_ns=500, compare_ns=100, evaluate_ns=300, queued_ns=50,
        box_call_ns=5_000, bucket_ns=15,
    ),
    "mid": Overheads(
        fixed_ns=20_000, scan_ns=1_000, compare_ns=200, evaluate_ns=1_000, queued_ns=200,
        box_call_ns=15_000, bucket_ns=15,
    ),
    "heavy": Overheads(
        fixed_ns=50_000, scan_ns=2_000, compare_ns=500, evaluate_ns=2_000, queued_ns=500,
        box_call_ns=15_000, bucket_ns=15,
    ),
}  # fmt: skip
