"""Makes records like those of runs on Spark, from a model with known costs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from daybreak.engine.inbox import Waiting
from daybreak.engine.state import SystemState
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.qos import QoSGraph
from daybreak.policies.base import BasePolicy
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.report import RunReport
from daybreak.simulation.jobs import Delivery, Made, ReplayedQueries
from daybreak.simulation.replay import Replay

MS = 1_000_000
READS = {
    **{f"hot{i}": ("readings",) for i in range(6)},
    **{f"cold{i}": ("readings",) for i in range(4)},
    **{f"other{i}": ("others",) for i in range(3)},
    "both": ("others", "readings"),
}
URGENT = QoSGraph(((0.0, 1.0), (0.5, 1.0), (2.0, 0.0)))


class Noisy:
    """Jobs whose costs vary by up to a third, the first ones slow."""

    def __init__(self, fixed_ms: float, noise: float) -> None:
        self._fixed_ns = fixed_ms * MS
        self._noise = noise

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        cost = self._fixed_ns + 4_000 * tuples + riders * (0.4 * MS + 20 * tuples)
        off = random.Random(job).uniform(-self._noise, self._noise)
        return round(cost * (1 + off) * (1 + 3 * self._noise * (job == 0)))


def model(
    *,
    span_s: float = 4.0,
    rate_per_s: float = 15.0,
    noise: float = 0.3,
    workers: int = 2,
    express: int = 0,
    changes: Sequence[Made] = (),
) -> Replay:
    """Segments of two streams, filters of two classes and a query that runs by itself."""
    network = Network(
        streams=[Stream(name="others"), Stream(name="readings")],
        boxes=[Box(name=n, inputs=r, kind="filter") for n, r in READS.items()],
        queries=[
            Query(name=n, output=n, cls="low" if n in ("both", "cold0", "cold1") else "high",
                  qos=URGENT if n.startswith("hot") else None)
            for n in READS
        ],
        classes=[QueryClass(name="high", priority=60), QueryClass(name="low", priority=10)],
    )  # fmt: skip
    names = [q.name for q in network.queries]
    kin = {n: r[0] for n, r in READS.items() if len(r) == 1}
    costs = {"both": Noisy(25.0, noise), "rest": Noisy(12.0, noise)}
    deliveries = _deliveries(network, span_s, rate_per_s)
    state = SystemState(network, workers)
    manifest = {
        "pipeline": "made", "reads": {n: list(r) for n, r in READS.items()}, "kin": kin,
        "windows": [], "express": express, "rider_bound_s": 0.1,
        "changes": [_told(network, c) for c in changes],
    }  # fmt: skip
    tuples = 100 * len(deliveries)
    return Replay(
        recorded=Monitor(network).report(state, 0, workers, manifest),
        network=network,
        queries=ReplayedQueries(
            share_keys=[kin.get(n) for n in names],
            windows=[False] * len(names),
            kinds=["both" if n == "both" else "rest" for n in names],
            costs=lambda kind: costs[str(kind)],
            passing=[np.arange(3, tuples, 7 + 20 * q) for q in range(len(names))],
        ),
        deliveries=deliveries,
        from_ns=0,
        end_ns=round((span_s + 10) * 1e9),
        drained=True,
        known=len(deliveries),
        bound_ns=100 * MS,
        decide_ns=200_000,
        changes=tuple(changes),
        caveats=(),
    )


def _told(network: Network, change: Made) -> dict[str, object]:
    """As the manifest of a run has it."""
    of: Sequence[Query | QueryClass] = network.queries
    was: object = change.was
    now: object = change.now
    if change.what == "class-priority":
        of = network.classes
    elif change.what == "query-class":
        was, now = (network.classes[int(v)].name for v in (change.was, change.now))
    subject = of[change.subject].name
    return {
        "at_s": change.at_ns / 1e9, "what": change.what, "subject": subject, "was": was,
        "value": now,
    }  # fmt: skip


def _deliveries(network: Network, span_s: float, rate_per_s: float) -> list[Delivery]:
    drawn = random.Random(3)
    found: list[Delivery] = []
    for s, stream in enumerate(network.streams):
        at_s = 0.0
        while (at_s := at_s + drawn.expovariate(rate_per_s)) < span_s:
            at_ns = round(at_s * 1e9)
            item = Waiting(at_ns, stream.name, drawn.randrange(1, 200), len(found))
            found.append(Delivery(at_ns, network.stream_boxes[s], item))
    return sorted(found, key=lambda d: d.at_ns)


def record(replay: Replay, policy: BasePolicy, folder: Path) -> RunReport:
    """Runs the model and leaves its record."""
    recorder = Recorder()
    report = replay.run(policy, recorder=recorder)
    report.save(folder)
    for file, table in recorder.take().items():
        pq.write_table(table, folder / file)
    return report


def jobs(folder: Path) -> Sequence[dict[str, object]]:
    """What was recorded of the jobs."""
    found: Sequence[dict[str, object]] = pq.read_table(folder / "jobs.parquet").to_pylist()
    return found
