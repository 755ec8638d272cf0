"""Which plans the queries of a run will need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daybreak.engine.engine import Engine
from daybreak.spark.tasks.prepared.warmup import WarmUp
from daybreak.spark.tasks.runnable import Runnable
from daybreak.spark.tasks.shapes import of_cell
from daybreak.spark.tasks.task import Schemas


def warm_cells(
    warmup: WarmUp,
    engine: Engine,
    queries: Sequence[Runnable],
    schemas: Schemas,
    boxes: Iterable[int],
) -> None:
    """Prepares, in the background, what the jobs of some of the queries take.

    On the loop's thread, or before it runs. The most important class comes first.
    """
    cells = {tuple(engine.compositor.cell(box)) for box in boxes}
    for cell in sorted(cells, key=lambda cell: (engine.state.query_class[cell[0]], cell)):
        warmup.add(of_cell([queries[box] for box in cell], schemas))
