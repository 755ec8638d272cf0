"""Computes queries over rows in memory: by a prepared plan, else as an ordinary Spark job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from daybreak.spark.jobs.compiler import Compiler
from daybreak.spark.jobs.prepared.recipes import of_composite, of_query
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.worker_session import WorkerSession, is_few
from daybreak.spark.sql.catalyst import Plan
from daybreak.spark.sql.forms import OverRetained, OverWindows, SqlBody

#: When the first tuple that gave a row had arrived, by query; None where that is not known.
Since = Sequence[int | None] | None


class RowJobs:
    """The jobs of one worker over rows in memory."""

    def __init__(self, session: WorkerSession, compiler: Compiler) -> None:
        self._session = session
        self._compiler = compiler

    def compute(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """One query by itself."""
        if isinstance(query.checked.body, SqlBody):
            recipe = of_query(query.checked, self._session.schemas)
            found = self._session.run_prepared(recipe, tables)
            if found is not None:
                return found.table.cast(query.schema)
        return self.ordinary(query, tables)

    def ordinary(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """One query as a Spark job; rows in memory, and in a file if it fails on those.

        Over rows in memory Spark's optimizer computes expressions by itself, and may compute one
        that a condition guards. The regular job over a file is authoritative.
        """
        gathers = isinstance(query.checked.form, OverWindows | OverRetained)

        def run(*, in_memory: bool) -> pa.Table:
            frames = {
                stream: self._session.frame(stream, table, gathers=gathers, in_memory=in_memory)
                for stream, table in tables.items()
            }
            return self._compiler.result(query, frames).toArrow().cast(query.schema)

        return _first_in_memory(run, tables)

    def run_plan(
        self, over: Callable[[Plan], Plan], rows: pa.Table, schema: StructType
    ) -> pa.Table:
        """A plan that gathers these rows, as a Spark job; see ``ordinary``."""

        def run(*, in_memory: bool) -> pa.Table:
            frame = self._session.frame("rows", rows, schema, gathers=True, in_memory=in_memory)
            return self._session.planned(over(frame._jdf.queryExecution().analyzed())).toArrow()

        return _first_in_memory(run, {"rows": rows})

    def compute_together(
        self,
        queries: Sequence[Runnable],
        cell: Sequence[Runnable],
        tables: Mapping[str, pa.Table],
        stamps: Mapping[str, NDArray[np.int64]],
    ) -> tuple[list[pa.Table], Since]:
        """Some queries of a cell that shares rows; ``stamps``: when those had arrived."""
        [(stream, table)] = tables.items()
        recipe = of_composite([query.checked for query in cell], self._session.schemas)
        found = self._session.run_prepared(recipe, tables)
        if found is None and len(queries) == 1:
            alone = self.ordinary if len(cell) == 1 else self.compute
            return [alone(queries[0], tables)], None
        if found is not None:
            composite = found.made
            result = composite.complete(found.table, table, found.places)
        else:
            composite = self._compiler.composite(cell)
            frame = self._session.frame(composite.stream, table)
            result = self._compiler.composited(composite, frame).toArrow()
        # One row for each, or for some, in their order; but what executors read from a file may
        # lose it, and a join gives others.
        one_each = composite.source.parsed is None
        in_order = one_each and (found is not None or is_few(table))
        of = {query.name: at for at, query in enumerate(cell)}
        wanted = {of[q.name]: q.schema for q in queries}
        since = None
        if in_order:
            arrived = stamps[stream]
            arrived = arrived if found is None or found.places is None else arrived[found.places]
            since = composite.cutter.earliest(result, arrived, wanted)
        return composite.cutter.cut(result, wanted), since


def _first_in_memory(run: Callable[..., pa.Table], tables: Mapping[str, pa.Table]) -> pa.Table:
    try:
        return run(in_memory=True)
    except (PySparkException, Py4JError):
        if not any(is_few(table) for table in tables.values()):
            raise
        return run(in_memory=False)
