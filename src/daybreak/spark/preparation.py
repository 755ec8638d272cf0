"""Has the plans of queries prepared before their rows arrive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from daybreak.engine.engine import Engine
from daybreak.spark.catalog import Catalog
from daybreak.spark.jobs.prepared.recipes import of_cell
from daybreak.spark.jobs.prepared.warmup import WarmUp


@dataclass(frozen=True)
class Preparation:
    """Knows which queries run as one job, and so which plans there will be."""

    warmup: WarmUp
    engine: Engine
    catalog: Catalog

    def prepare(self, queries: Iterable[int]) -> None:
        """Asks for what the jobs of these queries will need. On the loop's thread, or before it."""
        compositor, state = self.engine.compositor, self.engine.state
        schemas, runnables = self.catalog.application.schemas, self.catalog.runnables
        cells = {tuple(compositor.cell(query)) for query in queries}
        for cell in sorted(cells, key=lambda cell: (state.query_class[cell[0]], cell)):
            self.warmup.add(of_cell([runnables[query].checked for query in cell], schemas))
