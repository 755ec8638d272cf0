"""What one scheduling step covers, and what it is charged for."""

import numpy as np
import pytest

from daybreak.model import Arrivals, ConfigError, Network, Overheads, Query, Stream, chain
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate

CHAINS, DEPTH, TUPLES = 3, 4, 5


def run(policy: str, **params: object) -> RunReport:
    """Five tuples wait at the first box of each of three chains of four boxes."""
    network = Network(
        streams=[Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=1)) for i in range(CHAINS)],
        boxes=[b for i in range(CHAINS) for b in chain(f"q{i}", f"s{i}", [1000] * DEPTH)],
        queries=[Query(name=f"q{i}", output=f"q{i}.{DEPTH}") for i in range(CHAINS)],
    )
    schedule = ArrivalSchedule(
        np.zeros(CHAINS * TUPLES, np.int64), np.arange(CHAINS * TUPLES, dtype=np.int32) % CHAINS
    )
    overheads = Overheads(fixed_ns=1_000_000, scan_ns=1, box_call_ns=100)
    return simulate(network, make_policy_with(policy, **params), schedule, overheads=overheads)


@pytest.mark.parametrize(
    ("policy", "steps", "scanned", "calls"),
    [
        # One step per tuple and box, per box, per application; a thread switch scans them all.
        ("taat", 60, 60, 60),
        ("baat", 12, 12, 12),
        ("aaat", 3, 3 + 12, 12),  # reviews each superbox once
        ("thread-per-box", 12, 12 * 12, 12),
    ],
)
def test_steps_scans_and_calls(policy: str, steps: int, scanned: int, calls: int) -> None:
    report = run(policy)
    assert report.spent.scheduling_ns == steps * 1_000_000 + scanned
    assert sum(report.boxes["calls"]) == calls
    assert len(report.outputs) == CHAINS * TUPLES


def test_min_cost_needs_no_review() -> None:
    assert run("aaat", traversal="mc").spent.scheduling_ns == 3 * 1_000_000 + 3


def test_the_granularity_is_what_the_name_says() -> None:
    with pytest.raises(ConfigError, match="level"):
        make_policy_with("baat", level="query")
    with pytest.raises(ConfigError, match="traversal"):
        make_policy_with("aaat", traversal="mx")
