"""Modes of queries: what they ask of streams, and whether Spark runs a query as streaming.

The query is analysed over streaming frames, and Spark's own rules and its planner decide; of
update mode, ``updates`` does, too. Nothing is started.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType, StructType

from daybreak.model.errors import ConfigError
from daybreak.model.specs import Mode, QuerySpec, StreamSpec
from daybreak.spark.failures import first_line, one_line
from daybreak.spark.session import cloned
from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Catalyst, Plan, kind, listed, nodes
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.forms import Body, FunctionBody, OverState
from daybreak.spark.sql.updates import UpdateRules
from daybreak.spark.sql.windows.joins import STATIC_SIDE

#: Of Spark's planner in one line, as ``EXPLAIN`` calls it: it plans a streaming query and starts
#: nothing.
_EXPLAIN = "org.apache.spark.sql.execution.ExplainMode"
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
        """The query as a streaming frame; ``Refused`` where Spark would not start it, or where its
        rows would not be those of a batch. A refusal names no other mode.

        ``reads``: the streams whose frames a function takes.
        """
        session, catalyst = self._session()
        for stream, schema in schemas.items():
            if self._known.get(stream) != schema:
                rows = self._rows(session, stream, schema, mode)
                rows.createOrReplaceTempView(quoted(stream))
                self._known[stream] = schema
        if isinstance(body, FunctionBody):
            frame = _called(body, [session.table(quoted(stream)) for stream in reads])
        else:
            for view, parsed in body.through:
                _analysed(catalyst, parsed, session, mode).createOrReplaceTempView(quoted(view))
                self._known.pop(view, None)  # it may also be the name of a stream
            frame = _analysed(catalyst, body.parsed, session, mode)
        if not frame.isStreaming:
            raise Refused("reads no stream", "name a stream in FROM")
        self._check(session, catalyst, frame, mode)
        return frame

    def _check(
        self, session: SparkSession, catalyst: Catalyst, frame: DataFrame, mode: Mode
    ) -> None:
        plan = frame._jdf.queryExecution().analyzed()
        if any(kind(node) == "UnionLoop" for node in nodes(plan)):
            raise Refused(
                "has WITH RECURSIVE, which is not known to run as a streaming query",
                "compute it once, as a static table",
            )
        known: Any = session.sparkContext._jvm
        modes = known.org.apache.spark.sql.streaming.OutputMode
        wanted = modes.Append() if mode == "append" else modes.Update()
        rules = catalyst.scala_object(_RULES)
        try:
            rules.checkForStreaming(plan, wanted)
            if mode == "update":
                UpdateRules(session, catalyst).check(catalyst.inlined(plan))
            # Its rules look neither into parts of WITH nor at what becomes of EXCEPT.
            optimized = session._jsparkSession.sessionState().optimizer().execute(plan)
            rules.checkForStreaming(optimized, wanted)
            planned = catalyst.frame(plan, session)._jdf.queryExecution()
            planned.explainString(catalyst.scala_object(_EXPLAIN).fromString("simple"))
        except (PySparkException, Py4JJavaError) as error:
            remedy = STATIC_SIDE if any(map(_joins_streams, nodes(plan))) else ""
            raise _unfit(mode, error, remedy) from None

    def _session(self) -> tuple[SparkSession, Catalyst]:
        if self._made is None:
            session = cloned(self._spark)
            self._made = session, Catalyst(session)
        return self._made

    def _rows(
        self, session: SparkSession, stream: str, schema: StructType, mode: Mode
    ) -> DataFrame:
        endless = session.readStream.format("rate").load()
        # NULL itself would be folded into conditions, and Spark would plan another query.
        rows = endless.select([_unknown(f.dataType).alias(f.name) for f in schema.fields])
        if stream not in self._watermarks:
            return rows
        try:
            return rows.withWatermark(*self._watermarks[stream])
        except PySparkException as error:  # its event time has no time zone
            raise _unfit(mode, error) from None


def _unknown(kind: DataType) -> Column:
    """A value of a type, of which Spark knows nothing before it runs."""
    values = F.array_repeat(F.lit(None).cast(kind), F.col("value").cast("int"))
    return F.get(values, F.lit(0))


def _analysed(catalyst: Catalyst, parsed: Plan, session: SparkSession, mode: Mode) -> DataFrame:
    """The rows of a query that has been analysed as a batch."""
    try:
        return catalyst.frame(parsed, session)
    except PySparkException as error:
        raise _unfit(mode, error) from None


def _unfit(mode: Mode, error: PySparkException | Py4JJavaError, remedy: str = "") -> Refused:
    why = one_line(error) if isinstance(error, Py4JJavaError) else first_line(str(error))
    return Refused(f"cannot run in {mode} mode: {why}", remedy)


def _joins_streams(plan: Plan) -> bool:
    return kind(plan) == "Join" and all(side.isStreaming() for side in listed(plan.children()))


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


def watermarks_of(streams: Mapping[str, StreamSpec]) -> dict[str, tuple[str, str]]:
    """The column with the event time, and how late rows may be, of streams that declare both."""
    return {
        name: (spec.time, spec.watermark)
        for name, spec in streams.items()
        if spec.time is not None and spec.watermark is not None
    }


def check_mode(checked: CheckedQuery, spec: QuerySpec, streams: Mapping[str, StreamSpec]) -> None:
    """``ConfigError`` if a query declares what does not go with its mode."""
    if isinstance(checked.form, OverState) and spec.on_full == "skip":
        raise ConfigError(
            spec.place,
            'on_full = "skip", but the state of a query would lack the rows that it skips',
            "leave on_full out: sources wait for it when the log is full",
        )
    if checked.is_whole:
        _refuse_unretained(checked, streams, spec.place)


def _refuse_unretained(
    checked: CheckedQuery, streams: Mapping[str, StreamSpec], place: str
) -> None:
    """A query in complete mode needs streams that retain something."""
    for name in checked.reads:
        spec = streams[name]
        if spec.retain is None:
            remedy = (
                'read its streams in place of the view, and give them retain = "1 hour" or so'
                if spec.format == "view"
                else f'give [streams.{name}] retain, such as "1 hour": the result is that of one '
                "batch over what is retained"
            )
            raise ConfigError(
                place, f"is in complete mode, and stream {name!r} retains no rows", remedy
            )
