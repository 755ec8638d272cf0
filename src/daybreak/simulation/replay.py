"""Replays a recorded Spark run in virtual time, under the same policy or another.

The record holds every arrival and every job. A job of a query on n tuples is modelled as
``call + n x cost``, both fitted per query to its shares of the jobs that were measured, and the
recorded arrivals come again at their instants. As in the record, every answered tuple counts,
so boxes let everything pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.overheads import Overheads
from daybreak.policies.base import BasePolicy
from daybreak.runtime.record import ARRIVALS_FILE, JOBS_FILE
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate


@dataclass(frozen=True)
class Replay:
    """A recorded run as a model."""

    recorded: RunReport
    network: Network
    schedule: ArrivalSchedule
    overheads: Overheads

    @classmethod
    def load(cls, folder: Path) -> Replay:
        """From the folder of a run on Spark, or its ``record`` folder."""
        import pyarrow.parquet as pq

        record = folder / "record" if (folder / "record").is_dir() else folder
        recorded = RunReport.load(record)
        try:
            arrivals = pq.read_table(record / ARRIVALS_FILE).to_pydict()
            jobs = pq.read_table(record / JOBS_FILE).to_pydict()
        except (OSError, ValueError) as error:
            raise ConfigError(
                str(folder), f"holds no record of a Spark run ({error})", "name a run on Spark"
            ) from error
        network = _network(recorded, jobs)
        decisions = max(1, int(recorded.manifest["decisions"]))
        return cls(
            recorded,
            network,
            _schedule(network, arrivals),
            Overheads(fixed_ns=recorded.spent.scheduling_ns // decisions),
        )

    def run(self, policy: BasePolicy, seed: int = 1) -> RunReport:
        """What the recorded arrivals would have met under this policy."""
        return simulate(
            self.network,
            policy,
            self.schedule,
            overheads=self.overheads,
            workers=int(self.recorded.manifest["workers"]),
            seed=seed,
            about={"pipeline": self.recorded.manifest.get("pipeline"), "replay": True},
        )


def _network(recorded: RunReport, jobs: dict[str, Any]) -> Network:
    reads = recorded.manifest["reads"]
    names = np.array(jobs["query"], dtype=object)
    tuples = np.array(jobs["tuples"], dtype=np.float64)
    cost = np.array(jobs["cost_ns"], dtype=np.float64)
    typical = fit(tuples, cost)
    boxes = []
    for name in recorded.queries:
        mine = names == name
        call, each = fit(tuples[mine], cost[mine]) if mine.sum() >= 3 else typical
        boxes.append(
            Box(name=name, inputs=tuple(reads[name]), cost_ns=round(each), call_ns=round(call))
        )
    return Network(
        streams=[Stream(name=s) for s in sorted({s for r in reads.values() for s in r})],
        boxes=boxes,
        queries=[
            Query(name=n, output=n, cls=recorded.classes[c], qos=g)
            for n, c, g in zip(recorded.queries, recorded.query_class, recorded.qos, strict=True)
        ],
        classes=[
            QueryClass(name=n, priority=p)
            for n, p in zip(recorded.classes, recorded.priorities, strict=True)
        ],
    )


def fit(tuples: NDArray[np.float64], cost_ns: NDArray[np.float64]) -> tuple[float, float]:
    """Least squares of ``cost = call + tuples x each`` with neither below zero."""
    if not len(tuples):
        return 0.0, 0.0
    spread = float(((tuples - tuples.mean()) ** 2).sum())
    covariance = float(((tuples - tuples.mean()) * (cost_ns - cost_ns.mean())).sum())
    each = max(0.0, covariance / spread) if spread else 0.0
    call = float(cost_ns.mean() - each * tuples.mean())
    if call < 0:
        return 0.0, float((tuples * cost_ns).sum() / (tuples**2).sum())
    return call, each


def _schedule(network: Network, arrivals: dict[str, Any]) -> ArrivalSchedule:
    at = np.array(arrivals["at_ns"], dtype=np.int64)
    stream = np.array([network.stream_index.get(s, -1) for s in arrivals["stream"]], dtype=np.int32)
    tuples = np.array(arrivals["tuples"], dtype=np.int64)
    read = stream >= 0
    order = np.argsort(at[read], kind="stable")
    times = np.repeat(np.maximum(at[read][order], 0), tuples[read][order])
    return ArrivalSchedule(times, np.repeat(stream[read][order], tuples[read][order]))
