"""Laws about extremes: whatever is declared, a decision takes little, and whatever a clock does,
rows are served.

Work is counted in lines of Python and in bytes, not in time, so that a law holds or fails alike on
any machine.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.model.qos import MOST_POINTS
from daybreak.policies.base import BasePolicy
from daybreak.simulation.query_laws import Jobs, Make

#: Lines that one call of a policy may run for three queries, about 10 ms of the thread that
#: schedules; what is imported on the way is not counted. Half of it is usual at most; a loop over
#: what was declared takes millions.
MOST_LINES = 50_000
#: What one call may hold meanwhile: an array over what was declared takes gigabytes.
MOST_BYTES = 2**24

MS, SECOND = 10**6, 10**9
Answer = TypeVar("Answer")


class Extreme(NamedTuple):
    """Three queries that are declared with the largest or smallest figures that are accepted."""

    name: str
    slides_ns: Sequence[int] = ()
    graphs: Sequence[QoSGraph | None] = (None, QoSGraph.deadline(0.2), QoSGraph.deadline(60.0))
    priorities: tuple[float, float] = (60.0, 10.0)
    weight: float = 1.0
    cost_ns: int = 100_000
    #: Tuples that arrive at once, and how far apart.
    tuples: int = 4
    apart_ns: int = 200 * MS

    def network(self) -> Network:
        names = [f"q{i}" for i in range(len(self.graphs))]
        return Network(
            streams=[Stream(name="s")],
            boxes=[Box(name=n, inputs=("s",), cost_ns=self.cost_ns) for n in names],
            queries=[
                Query(name=n, output=n, cls="hl"[i % 2], qos=graph, weight=self.weight)
                for i, (n, graph) in enumerate(zip(names, self.graphs, strict=True))
            ],
            classes=[
                QueryClass(name=n, priority=p) for n, p in zip("hl", self.priorities, strict=True)
            ],
        )

    def run(self, policy: BasePolicy) -> Jobs:
        """Some arrivals for each query, until all are answered."""
        network = self.network()
        jobs = Jobs(policy, network, workers=2, slides_ns=self.slides_ns)
        for n in range(ARRIVALS):
            for query in network.queries:
                arrive = partial(jobs.arrive, query.name, self.tuples)
                jobs.at(LATE_NS + n * self.apart_ns, arrive)
        jobs.run()
        assert not any(jobs.state.pending), "tuples were left in queues"
        return jobs


#: So often tuples arrive, long enough apart for several plans; the clock counts from 1970.
ARRIVALS, LATE_NS = 8, 1_790_000_000_123_456_789
_STAIRS = tuple((i + 1.0, 1 - (i + 1) / MOST_POINTS) for i in range(MOST_POINTS - 1))
_LONG = QoSGraph(((0.0, 1.0), (1e9, 0.0)))
EXTREMES = (
    Extreme("usual", (0, SECOND, 0)),
    Extreme("windows of a microsecond", (1_000, 1_000, 1_000)),
    Extreme("windows of a microsecond, no deadline", (1_000, 1_000, 1_000), (_LONG,) * 3),
    Extreme("windows of a year", (10**9 * 86_400 * 366,) * 3),
    Extreme("short and long windows", (1_000, 10 * MS, 10**15)),
    Extreme("graphs of many points", (0, 1_000, SECOND), (QoSGraph(((0.0, 1.0), *_STAIRS)),) * 3),
    Extreme(
        "graphs that drop at once",
        graphs=(QoSGraph.deadline(1e-9), QoSGraph.deadline(1.0, 1.000000001), _LONG),
    ),
    Extreme("unequal classes", priorities=(1e9, 1e-9)),
    Extreme("classes that hardly differ", priorities=(1.0, 1.0 + 2**-52)),
    Extreme("tiny weights", weight=1e-300),
    Extreme("jobs that cost nothing", cost_ns=0),
    Extreme("jobs of an hour", cost_ns=3_600 * SECOND, tuples=1),
    Extreme("many tuples at once", tuples=50),
    Extreme("tuples every microsecond", apart_ns=1_000),
    Extreme("tuples every day", apart_ns=86_400 * SECOND),
)


def decides_in_bounded_work(make: Make) -> None:
    """However short windows, however long deadlines, however unequal classes: a call of a policy
    runs a bounded number of lines and holds a bounded number of bytes."""
    for extreme in EXTREMES:
        policy = make()
        with _bounded(policy, extreme.name):
            extreme.run(policy)


#: What a scheduler calls.
_CALLS = (
    "attach", "on_arrival", "on_completion", "on_withdrawn", "on_returned", "on_change",
    "on_results", "decide",
)  # fmt: skip


@contextmanager
def _bounded(policy: BasePolicy, where: str) -> Iterator[None]:
    """Lets every call of a policy fail that takes too much."""
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    for name in _CALLS:
        setattr(policy, name, _counted(getattr(policy, name), f"{name}() with {where}"))
    try:
        yield
    finally:
        for name in _CALLS:
            delattr(policy, name)
        if not traced:
            tracemalloc.stop()


def _counted(call: Callable[..., Answer], where: str) -> Callable[..., Answer]:
    def counted(*args: Any) -> Answer:
        lines, importing = 0, None

        def trace(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal lines, importing
            if importing is None and frame.f_code.co_filename.startswith("<frozen importlib"):
                importing = frame
            elif importing is frame and event == "return":
                importing = None
            elif importing is None:
                lines += event == "line"
                assert lines <= MOST_LINES, f"{where} runs more than {MOST_LINES} lines"
            return trace

        before = sys.gettrace()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        sys.settrace(trace)
        try:
            answer = call(*args)
        finally:
            sys.settrace(before)
        _, most = tracemalloc.get_traced_memory()
        assert most - held <= MOST_BYTES, f"{where} holds more than {MOST_BYTES} bytes"
        return answer

    return counted


LIMIT_LAWS = (decides_in_bounded_work,)
