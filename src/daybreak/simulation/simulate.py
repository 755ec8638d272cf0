"""Runs a network under a policy in virtual time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.model.overheads import Overheads
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.loop import SimulationLoop
from daybreak.version import __version__

NO_OVERHEADS = Overheads()


def simulate(
    network: Network,
    policy: BasePolicy,
    schedule: ArrivalSchedule,
    *,
    overheads: Overheads = NO_OVERHEADS,
    workers: int = 1,
    seed: int = 1,
    memory: bool = False,
    shedding: SheddingParams | None = None,
    yields: bool = True,
    about: dict[str, Any] | None = None,
) -> RunReport:
    """Runs until every arrival has been worked off; the same seed gives the same run.

    ``memory`` also records the bytes held in queues over time; ``shedding`` lets tuples be
    dropped at the inputs under overload. With boxes that wait (``wait_ns``), ``yields`` says
    whether a worker runs other boxes meanwhile. All of these combine.
    """
    state = SystemState(network, workers)
    last_ns = int(schedule.at_ns[-1]) if len(schedule) else 0
    monitor = Monitor(network, sample_every_ns=max(last_ns // 200, 1))
    monitor.tell_of_results(policy)
    executor = VirtualExecutor(
        state, schedule, monitor, overheads,
        workers=workers, seed=seed, memory=memory, shedding=shedding, yields=yields,
    )  # fmt: skip
    with collector_paused():
        SimulationLoop(state, policy, executor, seed).run()
    manifest = {
        "daybreak": __version__,
        "world": "simulation",
        **policy.told(),
        "seed": seed,
        "arrivals": len(schedule),
        **({"shedding": asdict(shedding)} if shedding else {}),
        **(about or {}),
    }
    end_ns = executor.now_ns
    return monitor.report(state, end_ns, workers, manifest, executor.offered.until(end_ns))


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection meanwhile: trains are plain lists, and there are millions of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
