"""The testbed of chapter 3: application trees, and runs of them at a given capacity.

Section 3.4.1: a tree has ``depth`` levels and ``fan_out`` children per box; its leaves read an
input each; selectivities are 1 and costs lie between 0.1 and 1 ms per tuple unless an
experiment says otherwise. Capacity is the offered work as a fraction of the processor's time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from daybreak.model import Arrivals, Box, Network, Query, Stream
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule, load_scale
from daybreak.simulation.randomness import random_for

FAN_OUT, DEPTH = 3, 5
COST_NS = (100_000, 1_000_000)
ANY_RATE = Arrivals(rate_per_s=1.0)


def uniform_cost(random: Random) -> int:
    return random.randint(*COST_NS)


def pass_all(_random: Random) -> float:
    return 1.0


def application_trees(
    count: int,
    seed: int,
    *,
    fan_out: int = FAN_OUT,
    depth: int = DEPTH,
    cost_ns: Callable[[Random], int] = uniform_cost,
    selectivity: Callable[[Random], float] = pass_all,
    arrivals: Callable[[Random], Arrivals] = lambda _random: ANY_RATE,
) -> Network:
    """So many trees; box ``a1.1`` is the first application's output, ``a1.1.2`` feeds it."""
    random = random_for(seed, "trees")
    streams: list[Stream] = []
    boxes: list[Box] = []
    for application in range(1, count + 1):
        level = [f"a{application}.1"]
        for height in range(depth, 0, -1):
            following: list[str] = []
            for name in level:
                if height > 1:
                    inputs = tuple(f"{name}.{child}" for child in range(1, fan_out + 1))
                    following.extend(inputs)
                else:
                    inputs = (f"in {name}",)
                    streams.append(Stream(name=inputs[0], arrivals=arrivals(random)))
                boxes.append(
                    Box(
                        name=name,
                        inputs=inputs,
                        kind="union" if height > 1 else "map",
                        cost_ns=cost_ns(random),
                        selectivity=selectivity(random),
                    )
                )
            level = following
    queries = [Query(name=f"a{i}", output=f"a{i}.1") for i in range(1, count + 1)]
    return Network(streams=streams, boxes=boxes, queries=queries)


def offered(network: Network, capacity: float, tuples: int, seed: int) -> ArrivalSchedule:
    """About so many arrivals, at rates that ask for ``capacity`` of the processor's time."""
    scale = load_scale(network, capacity, workers=1)
    rate_per_s = scale * sum(s.arrivals.rate_per_s or 0.0 for s in network.streams if s.arrivals)
    return draw_schedule(network, tuples / rate_per_s, seed, scale)


def waiting(network: Network, per_input: int) -> ArrivalSchedule:
    """Nothing arrives but what waits at every input from the start."""
    streams = len(network.streams)
    return ArrivalSchedule(
        np.zeros(streams * per_input, np.int64),
        np.repeat(np.arange(streams, dtype=np.int32), per_input),
    )
