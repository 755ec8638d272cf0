"""Filter services as a step of a query: each partition routes its rows through them.

Rows keep their columns, their order of columns and their order. What is learned of the services
stays in the Python worker, which Spark reuses for the next batch of the stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from daybreak.filters.router import Learned, Router
from daybreak.filters.services.base import Service

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Makes the services, in the Python worker: connections cannot travel.
MakeServices = Callable[[], Sequence[Service]]

#: What routers of earlier batches learned, in this worker, by step.
_LEARNED: dict[str, Learned] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """Parameters of the step; pickled with it. Threads of a service are per running task."""

    make_services: MakeServices
    router: str = "free-first"
    window: int = 256
    batch: int = 1
    #: A service dead for longer fails the task, so that Spark can try it elsewhere.
    give_up_s: float = 60.0
    #: Batches of one step share what they learned; by default the services tell steps apart.
    name: str = ""


def through_filters(frame: DataFrame, make_services: MakeServices, **options: Any) -> DataFrame:
    """The rows that every service lets pass; options as in `FilterStep`.

    Services get each row as a dictionary. Spark may repeat a task, so services must not change
    anything.
    """
    step = FilterStep(make_services=make_services, **options)
    if not step.name:
        from pyspark import cloudpickle

        digest = blake2b(
            cloudpickle.dumps(step),  # type: ignore[no-untyped-call]
            digest_size=16,
        ).hexdigest()
        step = FilterStep(make_services=make_services, **{**options, "name": digest})
    return frame.mapInArrow(lambda batches: route_batches(step, batches), frame.schema)


class _Row(dict[str, Any]):
    """A row on its way, and where it came from."""

    __slots__ = ("batch", "index")
    batch: _Batch
    index: int


@dataclass(slots=True)
class _Batch:
    """An Arrow batch with verdicts on its rows."""

    rows: pa.RecordBatch
    passed: list[bool] = field(init=False)
    undecided: int = field(init=False)

    def __post_init__(self) -> None:
        self.passed = [False] * self.rows.num_rows
        self.undecided = self.rows.num_rows

    def result(self) -> pa.RecordBatch:
        import pyarrow as pa

        return self.rows.filter(pa.array(self.passed, pa.bool_()))


def route_batches(step: FilterStep, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Routes rows across batch borders; a batch leaves when all its rows are decided, in order."""
    waiting: deque[_Batch] = deque()

    def rows() -> Iterator[_Row]:
        for arrow in batches:
            batch = _Batch(arrow)
            waiting.append(batch)
            for index, values in enumerate(arrow.to_pylist()):
                row = _Row(values)
                row.batch, row.index = batch, index
                yield row

    def decided(row: _Row, passed: bool, _latency_s: float) -> None:
        row.batch.passed[row.index] = passed
        row.batch.undecided -= 1

    router = Router(
        step.make_services(),
        router=step.router,
        window=step.window,
        batch=step.batch,
        give_up_s=step.give_up_s,
        on_decision=decided,
        learned=_LEARNED.get(step.name),
    )
    _LEARNED[step.name] = router.learned
    with asyncio.Runner() as runner:
        results = router.run(rows())
        try:
            while runner.run(_advance(results)):
                while waiting and waiting[0].undecided == 0 and len(waiting) > 1:
                    yield waiting.popleft().result()
        finally:  # also when Spark has enough rows and stops reading
            runner.run(_close(results, router))
    for batch in waiting:
        yield batch.result()


async def _close(results: Any, router: Router) -> None:
    await results.aclose()
    await router.close()


async def _advance(results: Any) -> bool:
    """To the next row that passes; whether there was one."""
    async for _ in results:
        return True
    return False
