"""How fast the simulator is, beside the same model in SimPy, in one run.

The model: 1 000 chains of 10 boxes, Poisson arrivals, one worker, whole-queue trains, boxes
called round-robin in a fixed random order with a call overhead. Three implementations see the
same arrivals and must agree on the mean response time:

* daybreak: the simulator, its round-robin policy, all statistics and the run report;
* simpy, plain: as one would write it with SimPy's own parts (a process per stream, a Store
  per box, a tuple put and got at a time);
* simpy, lean: SimPy only as the clock (deques, one timeout per train), the fastest we could
  write it.

    python benchmarks/simulator.py [--json] [--chains 1000] [--tuples 100000]
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from time import process_time
from typing import Any

import numpy as np
import simpy

from daybreak.model import OVERHEADS, Arrivals, Network, Query, Stream, chain
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule
from daybreak.simulation.simulate import simulate

DEPTH = 10
COST_NS = 10_000
CALL_NS = OVERHEADS["light"].box_call_ns


@dataclass
class Result:
    """What one implementation did, and how long it took."""

    steps: int
    mean_response_s: float
    cpu_s: float

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.cpu_s


def model(chains: int, tuples: int, load: float) -> tuple[Network, ArrivalSchedule]:
    rate = load / (chains * DEPTH * COST_NS / 1e9)
    network = Network(
        streams=[Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=rate)) for i in range(chains)],
        boxes=[b for i in range(chains) for b in chain(f"q{i}", f"s{i}", [COST_NS] * DEPTH)],
        queries=[Query(name=f"q{i}", output=f"q{i}.{DEPTH}") for i in range(chains)],
    )
    return network, draw_schedule(network, tuples / (rate * chains), seed=1)


def order_of(network: Network, seed: int = 1) -> list[int]:
    """The same fixed random order as the policy's."""
    place = list(range(len(network.boxes)))
    Random(f"{seed}/round-robin").shuffle(place)
    return sorted(range(len(place)), key=place.__getitem__)


def run_daybreak(network: Network, schedule: ArrivalSchedule) -> Result:
    from dataclasses import replace

    overheads = replace(OVERHEADS["none"], box_call_ns=CALL_NS)
    start = process_time()
    report = simulate(network, make_policy_with("round-robin"), schedule, overheads=overheads)
    cpu_s = process_time() - start
    return Result(sum(report.boxes["tuples_in"]), float(report.response_s.mean()), cpu_s)


def run_simpy_plain(network: Network, schedule: ArrivalSchedule) -> Result:
    env = simpy.Environment()
    stores = [simpy.Store(env) for _ in network.boxes]
    order = order_of(network)
    wake = [env.event()]
    responses: list[float] = []
    steps = 0

    def source(times: list[int], box: int) -> Generator[Any, Any, None]:
        for at in times:
            yield env.timeout(at - env.now)
            yield stores[box].put(at)
            if not wake[0].triggered:
                wake[0].succeed()

    def worker() -> Generator[Any, Any, None]:
        nonlocal steps
        while True:
            ready = [b for b in order if stores[b].items]
            if not ready:
                wake[0] = env.event()
                yield wake[0]
                continue
            for box in ready:
                train = []
                for _ in range(len(stores[box].items)):
                    train.append((yield stores[box].get()))
                yield env.timeout(CALL_NS)
                for at in train:
                    yield env.timeout(COST_NS)
                    if not network.downstream[box]:
                        responses.append(env.now - at)
                for at in train:
                    for down in network.downstream[box]:
                        yield stores[down].put(at)
                steps += len(train)

    start = process_time()
    per_stream = _times_per_stream(network, schedule)
    for stream, times in enumerate(per_stream):
        env.process(source(times, network.stream_boxes[stream][0]))
    env.process(worker())
    env.run()
    return Result(steps, float(np.mean(responses)) / 1e9, process_time() - start)


def run_simpy_lean(network: Network, schedule: ArrivalSchedule) -> Result:
    env = simpy.Environment()
    queues: list[deque[int]] = [deque() for _ in network.boxes]
    place = {b: i for i, b in enumerate(order_of(network))}
    ready: set[int] = set()
    wake = [env.event()]
    responses: list[float] = []
    steps = 0

    def sources() -> Generator[Any, Any, None]:
        boxes = [boxes[0] for boxes in network.stream_boxes]
        for at, stream in zip(schedule.at_ns.tolist(), schedule.stream.tolist(), strict=True):
            if at > env.now:
                yield env.timeout(at - env.now)
            queues[boxes[stream]].append(at)
            ready.add(boxes[stream])
            if not wake[0].triggered:
                wake[0].succeed()

    def worker() -> Generator[Any, Any, None]:
        nonlocal steps
        while True:
            if not ready:
                wake[0] = env.event()
                yield wake[0]
            for box in sorted(ready, key=place.__getitem__):
                ready.discard(box)
                train, queues[box] = queues[box], deque()
                began = env.now + CALL_NS
                yield env.timeout(CALL_NS + len(train) * COST_NS)
                steps += len(train)
                if network.downstream[box]:
                    for down in network.downstream[box]:
                        queues[down].extend(train)
                        ready.add(down)
                else:
                    for i, at in enumerate(train):
                        responses.append(began + (i + 1) * COST_NS - at)

    start = process_time()
    env.process(sources())
    env.process(worker())
    env.run()
    return Result(steps, float(np.mean(responses)) / 1e9, process_time() - start)


def _times_per_stream(network: Network, schedule: ArrivalSchedule) -> list[list[int]]:
    return [schedule.at_ns[schedule.stream == s].tolist() for s in range(len(network.streams))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--chains", type=int, default=1000, help="chains of 10 boxes")
    parser.add_argument("--tuples", type=int, default=100_000, help="arrivals in all")
    parser.add_argument("--load", type=float, default=0.95, help="work as a share of capacity")
    args = parser.parse_args()
    network, schedule = model(args.chains, args.tuples, args.load)
    results = {
        "daybreak": run_daybreak(network, schedule),
        "simpy, plain": run_simpy_plain(network, schedule),
        "simpy, lean": run_simpy_lean(network, schedule),
    }
    ours = results["daybreak"]
    rows = {
        name: {
            "steps": r.steps,
            "cpu_s": round(r.cpu_s, 3),
            "steps_per_s": round(r.steps_per_s),
            "mean_response_s": r.mean_response_s,
            "daybreak_is_faster_by": round(ours.steps_per_s / r.steps_per_s, 2),
        }
        for name, r in results.items()
    }
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{args.chains} chains of {DEPTH} boxes, {len(schedule)} arrivals, load {args.load}")
    for name, row in rows.items():
        print(
            f"{name:14}{row['steps_per_s']:>12,} tuple-box steps/s"
            f"{row['cpu_s']:>9.2f} s{row['mean_response_s'] * 1e3:>10.2f} ms mean response"
            f"{row['daybreak_is_faster_by']:>8} x"
        )


if __name__ == "__main__":
    main()
