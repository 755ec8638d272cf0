"""What stock Structured Streaming says to the same texts: Spark's own rules are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.nexmarking.compare import WATERMARK, prepare
from benchmarks.nexmarking.generator import SCHEMAS
from benchmarks.nexmarking.queries import QUERIES
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from daybreak.spark.sql.catalyst import Catalyst

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULES = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"


def stock(spark: SparkSession) -> dict[str, str]:
    """The output modes in which Spark would start each query, or why it would in none."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    prepare(session)
    for stream, schema in SCHEMAS.items():
        empty = session.createDataFrame([], schema)
        columns = [F.lit(None).cast(f.dataType).alias(f.name) for f in empty.schema.fields]
        rows = session.readStream.format("rate").load().select(columns)
        late = f"{WATERMARK.total_seconds():g} seconds"
        rows.withWatermark("dateTime", late).createOrReplaceTempView(stream)
    return {name: _verdict(session, query.sql) for name, query in QUERIES.items()}


def _verdict(session: SparkSession, sql: str) -> str:
    modes: list[str] = []
    refusals: list[str] = []
    for mode, why in _asked(session, sql):
        if why is None:
            modes.append(mode)
        else:
            refusals.append(why)
    if modes:
        return ", ".join(modes)
    # That a mode does not fit says less than what no mode takes.
    refusals.sort(key=lambda why: why.startswith("Invalid streaming output mode"))
    return f"refused: {refusals[0]}"


def _asked(session: SparkSession, sql: str) -> Iterator[tuple[str, str | None]]:
    known: Any = session.sparkContext._jvm
    modes = known.org.apache.spark.sql.streaming.OutputMode
    plan = session.sql(sql)._jdf.queryExecution().analyzed()
    rules = Catalyst(session).scala_object(_RULES)
    for name, mode in (
        ("append", modes.Append()),
        ("update", modes.Update()),
        ("complete", modes.Complete()),
    ):
        try:
            rules.checkForStreaming(plan, mode)
        except PySparkException as error:
            line = str(error).strip().split("\n")[0].split(";")[0]
            yield name, line.rpartition("] ")[2].partition(" SQLSTATE")[0]
        else:
            yield name, None
