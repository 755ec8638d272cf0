"""Networks as hypothesis draws them, for laws of the simulator."""

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from daybreak.model import Arrivals, Box, Network, Overheads, QoSGraph, Query, Stream
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule, load_scale

#: Seconds that arrivals go on for: some hundred tuples per stream.
SPAN_S = 0.3


@st.composite
def networks(draw: st.DrawFn, *, plain: bool = False) -> Network:
    """Up to ten boxes that fan out and join; ``plain``: chains, and of constant costs alone."""
    random = Random(draw(st.integers(0, 10**9)))
    count = draw(st.integers(1, 10))
    streams = [
        Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=random.uniform(20, 400), burst=burst))
        for i, burst in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    ]
    free = [s.name for s in streams]
    boxes: list[Box] = []
    for n in range(count):
        inputs = random.sample(free, 1 if plain or len(free) == 1 else random.randint(1, 2))
        if plain and inputs[0].startswith("b"):
            free.remove(inputs[0])
        box = Box(
            name=f"b{n}",
            inputs=tuple(inputs),
            kind="union" if len(inputs) > 1 else "filter",
            cost_ns=random.choice([0, 30_000, 400_000]),
            selectivity=random.choice([1.0, 1.0, 0.4, 0.9]),
            tuple_bytes=random.randint(1, 300),
        )
        if not plain:
            box = replace(
                box,
                selectivity=random.choice([box.selectivity, 1.7, 0.0]),
                call_ns=random.choice([0, 0, 60_000]),
                service=random.choice(["constant", "constant", "exponential"]),
            )
        boxes.append(box)
        free.append(box.name)
    fed = {name for box in boxes for name in box.inputs}
    outputs = [box.name for box in boxes if box.name not in fed]
    if not plain:
        outputs += [box.name for box in boxes if box.name in fed and random.random() < 0.2]
    qos = QoSGraph.deadline(0.05)
    return Network(
        streams=streams,
        boxes=boxes,
        queries=[Query(name=f"q{name}", output=name, qos=qos) for name in outputs],
    )


def waiting(network: Network, wait_ns: int) -> Network:
    """The same where every other box waits."""
    boxes = [replace(b, wait_ns=wait_ns * (n % 2)) for n, b in enumerate(network.boxes)]
    return Network(streams=network.streams, boxes=boxes, queries=network.queries)


def arrivals(network: Network, seed: int, load: float, workers: int = 1) -> ArrivalSchedule:
    """Arrivals at this load, if boxes cost anything."""
    costs = any(network.total_cost_ns(s) for s in range(len(network.streams)))
    scale = min(load_scale(network, load, workers), 20.0) if costs else 1.0
    return draw_schedule(network, SPAN_S, seed, scale)


OVERHEADS = st.builds(
    Overheads,
    fixed_ns=st.sampled_from([0, 2_000]),
    scan_ns=st.sampled_from([0, 20]),
    box_call_ns=st.sampled_from([0, 3_000]),
    storage_ns=st.sampled_from([0, 100]),
    superbox_ns=st.sampled_from([0, 4_000]),
)
