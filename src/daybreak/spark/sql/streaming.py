"""Whether Spark runs a query as a streaming query, and in which mode.

The query is analysed over streaming frames, and Spark's own rules decide. Nothing is started.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from daybreak.model.specs import Mode
from daybreak.spark.session import cloned
from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.forms import Body, FunctionBody
from daybreak.spark.sql.messages import first_line
from daybreak.spark.sql.updates import refuse_leaving

_RULES = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"


class StreamingChecker:
    """Checks queries over streaming frames of the streams, in a session of its own."""

    def __init__(self, spark: SparkSession, watermarks: Mapping[str, tuple[str, str]]) -> None:
        self._spark = spark
        self._watermarks = watermarks
        self._made: tuple[SparkSession, Catalyst] | None = None
        #: Streams whose views are there, as they were made.
        self._known: dict[str, StructType] = {}

    def watermarks_of(self, reads: tuple[str, ...]) -> dict[str, tuple[str, str]]:
        return {s: self._watermarks[s] for s in reads if s in self._watermarks}

    def frame(
        self,
        body: Body,
        mode: Mode,
        schemas: Mapping[str, StructType],
        reads: tuple[str, ...] = (),
    ) -> DataFrame:
        """The query as a streaming frame; ``Refused`` where Spark would not start it.

        ``reads``: the streams whose frames a function takes.
        """
        session, catalyst = self._session()
        for stream, schema in schemas.items():
            if self._known.get(stream) != schema:
                self._rows(session, stream, schema).createOrReplaceTempView(quoted(stream))
                self._known[stream] = schema
        if isinstance(body, FunctionBody):
            frame = _called(body, [session.table(quoted(stream)) for stream in reads])
        else:
            for view, parsed in body.through:
                catalyst.frame(parsed, session).createOrReplaceTempView(quoted(view))
                self._known.pop(view, None)  # it may also be the name of a stream
            frame = catalyst.frame(body.parsed, session)
        if not frame.isStreaming:
            raise Refused("reads no stream", "name a stream in FROM")
        known: Any = session.sparkContext._jvm
        modes = known.org.apache.spark.sql.streaming.OutputMode
        wanted = modes.Append() if mode == "append" else modes.Update()
        try:
            plan = frame._jdf.queryExecution().analyzed()
            catalyst.scala_object(_RULES).checkForStreaming(plan, wanted)
        except PySparkException as error:
            raise Refused(
                f"cannot run in {mode} mode: {first_line(str(error))}",
                'declare mode = "complete", which takes any query over what is retained',
            ) from None
        if mode == "update":
            refuse_leaving(plan)
        return frame

    def _session(self) -> tuple[SparkSession, Catalyst]:
        if self._made is None:
            session = cloned(self._spark)
            self._made = session, Catalyst(session)
        return self._made

    def _rows(self, session: SparkSession, stream: str, schema: StructType) -> DataFrame:
        endless = session.readStream.format("rate").load()
        rows = endless.select([F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields])
        if stream in self._watermarks:
            rows = rows.withWatermark(*self._watermarks[stream])
        return rows


def _called(body: FunctionBody, frames: list[DataFrame]) -> DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a fallback that it then takes
        try:
            frame = body.function(*frames)
        except Exception as error:
            shown = str(error).strip().split("\n")[0]
            raise Refused(
                f"its function fails on a stream ({type(error).__name__}: {shown})",
                "let it take one DataFrame per stream and return one, without running a job",
            ) from None
    if not isinstance(frame, DataFrame):
        raise Refused(f"its function returns {type(frame).__name__}", "return a DataFrame")
    return frame
